"""`report.html`: one self-contained page about an audit, which opens offline from a file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from plotly.offline import get_plotlyjs

from suffice.audits.ledger import read_results
from suffice.audits.plan import Plan
from suffice.audits.rows import ORDERS
from suffice.reports.inspection import explain_audited
from suffice.store.manifest import write_whole
from suffice.store.reader import Collection

__all__ = ["write_page"]

# More points than this make a page slow; of a larger audit every n-th state is drawn, and the page says so.
_MOST_POINTS = 6000
_HARDEST = 10
_POINT_COLUMNS = ("id", "source", "dataset", "dim", "temperature", "b", "b_conditioned")


def write_page(folder: Path, collection: Collection) -> Path:
    """Write the page of a finished audit from its summary and results."""
    record = json.loads((folder / "summary.json").read_text())
    total = record["summary"]["states"]
    stride = max(1, math.ceil(total / _MOST_POINTS))
    points = _points(folder, stride)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("suffice.reports"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    plan = Plan(**record["plan"])
    drawn = {"points": points, "orders": list(ORDERS), "rungs": record["summary"].get("rungs", {})}
    page = environment.get_template("page.html").render(
        record=record,
        summary=record["summary"],
        question=plan.words(),
        answer=_answer(record["summary"]),
        scope=plan.covered,
        stride=stride,
        hardest=[{"id": name, "text": explain_audited(folder, collection, name)} for name in _hardest(folder)],
        # a closing tag inside a string would end the script
        data=json.dumps(drawn).replace("</", "<\\/"),
        plotly=get_plotlyjs(),
    )
    path = folder / "report.html"
    write_whole(path, page.encode())
    return path


def _answer(summary: dict[str, Any]) -> str:
    """The answer in a sentence."""
    states, certified = summary["states"], summary["certified"]
    if not states:
        return "There was no state to judge."
    rest = summary["inconclusive"]
    out = "Every state is certified" if not rest else f"{certified:,} of {states:,} states are certified"
    out += (
        "."
        if not rest
        else f"; at the other {rest:,} the bound is too wide to say, which does not mean that they fail."
    )
    if summary["b"]["span"] is not None:
        out += f" The tolerance spans {summary['b']['span']:.1f} orders of magnitude."
    return out


def _points(folder: Path, stride: int) -> list[dict[str, Any]]:
    """Every stride-th state, as little as the charts need."""
    points = []
    number = 0
    for columns in read_results(folder):
        count = len(columns["id"])
        for row in range((-number) % stride, count, stride):
            point = {name: _plain(columns[name][row]) for name in _POINT_COLUMNS}
            point["target_probability"] = _plain(columns["target_probability"][row])
            point["binding"] = str(columns["binding"][row])
            point["verdict"] = str(columns["verdict"][row])
            point["bounded"] = bool(columns["status"][row] == "bounded")
            point["headroom"] = [_plain(columns[f"headroom_{order}"][row]) for order in ORDERS]
            # the ratio itself, with its digits: a quotient of two rounded numbers would show their rounding
            with np.errstate(divide="ignore", invalid="ignore"):
                point["first_order"] = _plain(columns["b_first_order"][row] / columns["b_conditioned"][row], digits=12)
            points.append(point)
        number += count
    return points


def _plain(value: Any, digits: int = 6) -> Any:
    """A number or a word that JSON has; what is not finite becomes null."""
    if isinstance(value, str):
        return value
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float):
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    return number


def _hardest(folder: Path) -> list[str]:
    """The states with the smallest tolerances."""
    best: list[tuple[float, str]] = []
    for columns in read_results(folder):
        order = np.argsort(columns["b"], kind="stable")[:_HARDEST]
        best += [(float(columns["b"][row]), str(columns["id"][row])) for row in order]
        best = sorted(best)[:_HARDEST]
    return [name for _, name in best]
