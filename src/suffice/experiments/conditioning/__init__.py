"""fig:conditioning: the same primitive error, other consequences. Actual errors are Arb's (app:conditioning-detail)."""

from __future__ import annotations

from suffice.experiments.conditioning.draw import draw_conditioning
from suffice.experiments.conditioning.measure import coordinate_control, measure_conditioning, target_control
from suffice.experiments.conditioning.words import describe_conditioning
from suffice.experiments.document import Section
from suffice.experiments.saved import Saved, Tick

__all__ = ["coordinate_control", "reproduce_conditioning", "target_control"]


def reproduce_conditioning(saved: Saved, tick: Tick) -> Section:
    """Measured, drawn and said."""
    found = measure_conditioning(saved, tick)
    return describe_conditioning(found, draw_conditioning(found))
