"""Figures are the same bytes in every run, and the cumulative curve is the share of states."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

from suffice.experiments.figures import cumulative, dimension_color, figure_with, legend, ordered, panels, save


def _draw(path: Path) -> list[bytes]:
    figure, axes = panels(2)
    axes[0].loglog([1, 10], [1, 100], label="a line")
    legend(axes[0])
    save(figure, path)
    return [path.with_suffix(ending).read_bytes() for ending in (".svg", ".png")]


def test_the_same_bytes_and_no_global_setting(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    assert _draw(tmp_path / "a") == _draw(tmp_path / "b")
    assert dict(mpl.rcParams) == before


def test_cumulative_shares_of_what_can_be_drawn() -> None:
    _, (axis,) = panels(1)
    cumulative(axis, np.array([3.0, np.inf, 0.0, 1.0, np.nan, 2.0]))
    (line,) = axis.get_lines()
    assert line.get_xdata().tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(line.get_ydata(), [1 / 3, 2 / 3, 1])
    assert axis.get_xscale() == "log"


def test_panels_have_letters_and_dimensions_colours() -> None:
    _, axes = figure_with("ab;cc", width=4, height=3)
    assert {letter: axis.get_title(loc="left") for letter, axis in axes.items()} == {"a": "a", "b": "b", "c": "c"}
    assert panels(1)[1][0].get_title(loc="left") == ""
    assert len({dimension_color(dim) for dim in (128, 512, 1024)}) == 3
    assert dimension_color(64) not in {dimension_color(dim) for dim in (128, 512, 1024)}


def test_ordered_values_by_dimension() -> None:
    _, (axis,) = panels(1)
    ordered(axis, np.array([3.0, 1.0, 4.0, 2.0]), np.array([512, 128, 128, 512]))
    drawn = {line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axis.get_lines()}
    assert drawn == {"p = 128": ([0, 3], [1.0, 4.0]), "p = 512": ([1, 2], [2.0, 3.0])}
    assert axis.get_yscale() == "log"
    assert axis.get_legend() is not None
