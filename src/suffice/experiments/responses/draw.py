"""Certified and actual thresholds, and their ratios."""

from __future__ import annotations

from typing import Any

from suffice.experiments.document import Picture
from suffice.experiments.figures import ACTUAL, CERTIFICATE, TIGHTER, cumulative, legend, panels
from suffice.experiments.responses.measure import Responses
from suffice.experiments.saved import Array

__all__ = ["draw_response"]


def draw_response(found: Responses) -> Picture:
    """Panel a: cumulative distributions of certificates and thresholds. Panel b: of their ratios, all right of one."""
    figure, (a, b) = panels(2)
    drawn: tuple[tuple[Array, dict[str, Any]], ...] = (
        (found.certified["conditioned_gradient_1e-05"], {"color": CERTIFICATE, "label": "conditioned certificate"}),
        (found.certified["centered_gradient_1e-05"], {"color": TIGHTER, "label": "centred certificate"}),
        (found.columns["worst_1e-05"], {"color": "black", "ls": "--", "label": "worst function found"}),
        (found.columns["ramp_1e-05"], {"color": ACTUAL, "label": "the paper's ramp"}),
    )
    for values, style in drawn:
        cumulative(a, values, **style)
    a.set_xlabel("b at gradient budget 1e-5")
    a.set_ylabel("share of states")
    legend(a, loc="lower right")
    for contract, color in (("conditioned", CERTIFICATE), ("centered", TIGHTER)):
        for name, dash in (("worst", "--"), ("ramp", "-")):
            cumulative(b, found.ratio(name, contract, 1e-5), color=color, ls=dash, label=f"{name}, {contract}")
    b.axvline(1, color="black", lw=0.6)
    b.set_xlabel("response threshold / certified b*")
    legend(b, loc="lower right")
    return Picture(
        name="actual-response",
        caption="Certified and actual thresholds at gradient budget 1e-5 (a), and their ratios (b). A ratio below "
        "one would be a broken certificate.",
        figure=figure,
    )
