"""app:actual-response: where the gradient really leaves its budget, against where the certificates stop."""

from __future__ import annotations

from suffice.experiments.document import Section
from suffice.experiments.responses.draw import draw_response
from suffice.experiments.responses.measure import measure_response, response_columns
from suffice.experiments.responses.words import describe_response
from suffice.experiments.saved import Saved, Tick

__all__ = ["reproduce_response", "response_columns"]


def reproduce_response(saved: Saved, tick: Tick) -> Section:
    """Measured, drawn and said."""
    found = measure_response(saved, tick)
    return describe_response(found, draw_response(found))
