"""app:fixed-target-permutation: the same probabilities and the same errors, assigned to each other in five ways."""

from __future__ import annotations

from suffice.experiments.document import Section
from suffice.experiments.rearrangement.draw import draw_rearrangement
from suffice.experiments.rearrangement.measure import (
    PERMUTATIONS,
    assignments,
    measure_rearrangement,
    rearrangement_columns,
)
from suffice.experiments.rearrangement.words import describe_rearrangement
from suffice.experiments.saved import Saved, Tick

__all__ = ["PERMUTATIONS", "assignments", "rearrangement_columns", "reproduce_rearrangement"]


def reproduce_rearrangement(saved: Saved, tick: Tick) -> Section:
    """Measured, drawn and said."""
    found = measure_rearrangement(saved, tick)
    return describe_rearrangement(found, draw_rearrangement(found))
