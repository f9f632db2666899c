"""fig:conditioning: two panels of temperatures, one of target probabilities."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from suffice.experiments.conditioning.measure import Conditioning, Control
from suffice.experiments.document import Picture
from suffice.experiments.figures import ACTUAL, CERTIFICATE, GREY, TIGHTER, legend, panels

__all__ = ["draw_conditioning"]


def draw_conditioning(found: Conditioning) -> Picture:
    """Panels a and b: coordinate control in two dimensions, b empty if there is one. Panel c: target-class bias."""
    figure, axes = panels(3)
    bounds = np.concatenate([control.columns["geometry"] for control in found.controls])
    # one budget for all panels, a power of ten amid the bounds
    budget = 10.0 ** round(np.log10(np.median(bounds)))
    for axis, control in zip(axes, found.controls, strict=False):
        _temperatures(axis, control, budget)
    axes[0].set_ylabel("feature-gradient error")
    legend(axes[0], loc="lower left")
    _targets(axes[2], found, budget)
    if len(found.controls) < 2:
        axes[1].set_axis_off()
    return Picture(
        name="conditioning",
        caption="Learning consequences change while primitive error stays fixed (fig:conditioning).",
        figure=figure,
    )


def _temperatures(axis: Axes, control: Control, budget: float) -> None:
    curve = control.columns
    axis.loglog(curve["tau"], curve["actual"], "o-", color=ACTUAL, ms=3, label="actual error (Arb)")
    axis.loglog(curve["tau"], curve["geometry"], "s-", color=CERTIFICATE, ms=3, label="geometry-only certificate")
    axis.axhline(budget, ls=":", color=GREY, lw=1)
    axis.set_xlabel(f"temperature, p = {control.dim}")


def _targets(axis: Axes, found: Conditioning, budget: float) -> None:
    away, target = found.away, found.target
    axis.loglog(away, target["geometry"], "-", color=GREY, label="geometry-only, unchanged")
    axis.loglog(away, target["conditioned"], "s-", color=CERTIFICATE, ms=3, label="conditioned")
    axis.loglog(away, target["centered"], "^-", color=TIGHTER, ms=3, label="centred")
    axis.loglog(away, target["actual"], "o-", color=ACTUAL, ms=3, label="actual error (Arb)")
    axis.axhline(budget, ls=":", color=GREY, lw=1)
    axis.invert_xaxis()
    axis.set_xlabel(f"1 - target probability, p = {found.controls[0].dim}")
    legend(axis, loc="lower left")
