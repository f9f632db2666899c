"""fig:tolerance-distribution and tab:tolerance: how certified tolerances spread over saved states."""

from __future__ import annotations

from suffice.experiments.distribution.draw import draw_distribution
from suffice.experiments.distribution.measure import SIZES, measure_distribution, tolerance_columns
from suffice.experiments.distribution.words import PAPER, describe_distribution
from suffice.experiments.document import Section
from suffice.experiments.saved import Saved, Tick

__all__ = ["PAPER", "SIZES", "reproduce_distribution", "tolerance_columns"]


def reproduce_distribution(saved: Saved, tick: Tick) -> Section:
    """Measured, drawn and said."""
    found = measure_distribution(saved, tick)
    return describe_distribution(found, draw_distribution(found))
