"""How the figures look: the paper's layout and colours, the same bytes in every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = [
    "ACTUAL",
    "CERTIFICATE",
    "GREY",
    "TIGHTER",
    "cumulative",
    "dimension_color",
    "figure_with",
    "legend",
    "ordered",
    "panels",
    "save",
]

ACTUAL, CERTIFICATE, TIGHTER, GREY = "#0072b2", "#e69f00", "#009e73", "#888888"
_DIMENSIONS = {128: "#0072b2", 512: "#e69f00", 1024: "#7b5ea7"}
_OTHERS = ("#009e73", "#cc79a7", "#555555")
_STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    # the same bytes in every run
    "svg.hashsalt": "suffice",
}


def dimension_color(dim: int) -> str:
    """Blue 128, orange 512, purple 1024, as in the paper; another colour for any other."""
    return _DIMENSIONS.get(dim, _OTHERS[dim % len(_OTHERS)])


def panels(count: int, *, width: float = 7.0, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """A row of panels with the letters a, b, c."""
    figure, axes = figure_with("abcdef"[:count], width=width, height=height)
    return figure, [axes[letter] for letter in sorted(axes)]


def figure_with(layout: str, *, width: float, height: float) -> tuple[Figure, dict[str, Axes]]:
    """A figure laid out as a mosaic of letters; each panel is titled with its own if there are several."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), layout="constrained")
        axes: dict[str, Axes] = figure.subplot_mosaic(layout)
        if len(axes) > 1:
            for letter, axis in axes.items():
                axis.set_title(letter)
        return figure, axes


def save(figure: Figure, path: Path) -> None:
    """As path.svg and path.png."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure.savefig(path.with_suffix(".svg"), dpi=200, metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=200, metadata={"Software": None})


def cumulative(axis: Axes, values: np.ndarray[Any, Any], **style: Any) -> None:
    """The cumulative distribution of positive values on a logarithmic axis."""
    usable = np.sort(values[np.isfinite(values) & (values > 0)])
    axis.plot(usable, np.arange(1, len(usable) + 1) / max(len(usable), 1), **style)
    axis.set_xscale("log")


def ordered(axis: Axes, values: np.ndarray[Any, Any], dims: np.ndarray[Any, Any]) -> None:
    """All values from the smallest to the largest on a logarithmic axis, coloured by dimension, with a legend."""
    order = np.argsort(values)
    for dim in sorted(set(dims.tolist())):
        rows = dims[order] == dim
        axis.semilogy(
            np.arange(len(order))[rows],
            values[order][rows],
            ".",
            ms=1.5,
            color=dimension_color(dim),
            label=f"p = {dim}",
            rasterized=True,
        )
    legend(axis, markerscale=4)


def legend(axis: Axes, *, loc: str = "best", markerscale: float = 1.0) -> None:
    """A legend that leaves room for what is drawn."""
    axis.legend(loc=loc, markerscale=markerscale, frameon=False, fontsize=6, handlelength=1.6)  # type: ignore[call-overload]
