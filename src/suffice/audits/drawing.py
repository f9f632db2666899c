"""An audit as a picture: tolerances in order, and headroom by verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from suffice.words import Outcome, Verdict

__all__ = ["draw_results"]

_COLOURS = {Verdict.CERTIFIED: "#0072b2", Verdict.INCONCLUSIVE: "#b07d00", Verdict.VIOLATED: "#d55e00"}
_MARKERS = {Verdict.CERTIFIED: ".", Verdict.INCONCLUSIVE: "o", Verdict.VIOLATED: "x"}
# bins a decade
_BINS = 4


def draw_results(results: pa.Table, contract: str, axes: Any = None) -> Any:
    """Two axes, new ones unless they are given: b* of what is bounded, and what headroom is finite and positive."""
    if axes is None:
        # the figure belongs to pyplot, so that a notebook shows it
        from matplotlib import pyplot

        _, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left, right = axes
    if results.num_rows:
        columns = {name: results.column(name).to_numpy(zero_copy_only=False) for name in _NEEDED}
        _draw_tolerances(left, columns)
        _draw_headroom(right, columns)
    left.set(title="tolerances in order", xlabel="states", ylabel="b*")
    right.set(title="headroom", xlabel=f"headroom by the {contract} contract", ylabel="states")
    return axes


_NEEDED = ("verdict", "status", "b", "headroom")


def _draw_tolerances(axes: Any, columns: dict[str, np.ndarray[Any, Any]]) -> None:
    bounded = (columns["status"] == Outcome.BOUNDED) & (columns["b"] > 0)
    order = np.flatnonzero(bounded)[np.argsort(columns["b"][bounded], kind="stable")]
    for verdict, colour in _COLOURS.items():
        places = np.flatnonzero(columns["verdict"][order] == verdict)
        if len(places):
            values = columns["b"][order[places]]
            axes.plot(places + 1, values, _MARKERS[verdict], color=colour, markersize=3, label=str(verdict))
    if len(order):
        axes.set_yscale("log")
        axes.legend(frameon=False)


def _draw_headroom(axes: Any, columns: dict[str, np.ndarray[Any, Any]]) -> None:
    fine = np.isfinite(columns["headroom"]) & (columns["headroom"] > 0)
    if not fine.any():
        return
    logs = np.log10(columns["headroom"][fine])
    first, last = np.floor(min(logs.min(), 0) * _BINS), np.floor(max(logs.max(), 0) * _BINS) + 1
    edges = 10.0 ** (np.arange(first, last + 1) / _BINS)
    parts = {verdict: columns["headroom"][fine & (columns["verdict"] == verdict)] for verdict in _COLOURS}
    used = [verdict for verdict, values in parts.items() if len(values)]
    axes.hist(
        [parts[verdict] for verdict in used],
        bins=edges,
        stacked=True,
        color=[_COLOURS[verdict] for verdict in used],
        label=[str(verdict) for verdict in used],
    )
    axes.set_xscale("log")
    axes.axvline(1, color="black", linestyle="--", linewidth=1)
    axes.legend(frameon=False)
