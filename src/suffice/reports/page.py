"""`report.html`: one self-contained page about an audit, which opens offline from a file."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import secrets
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from plotly.offline import get_plotlyjs

from suffice.audits.ledger import read_results
from suffice.audits.plan import Plan
from suffice.audits.rows import ORDERS
from suffice.reports.inspection import explain_found
from suffice.store.kinds import kind_named
from suffice.store.manifest import write_whole
from suffice.store.reader import Collection
from suffice.words import Outcome

__all__ = ["Sketch", "write_page"]

Columns = dict[str, np.ndarray[Any, Any]]

# More points than this make a page slow; of a larger audit every n-th state is drawn, and the page says so.
_MOST_POINTS = 6000
_HARDEST = 10
_POINT_COLUMNS = ("id", "source", "dataset", "dim", "temperature", "b", "b_conditioned")


class Sketch:
    """What the page draws of the results, gathered in one pass over their files: every n-th state, and the hardest."""

    def __init__(self, states: int) -> None:
        self.stride = max(1, math.ceil(states / _MOST_POINTS))
        self.points: list[dict[str, Any]] = []
        self.hardest: list[dict[str, Any]] = []
        self._number = 0

    def add(self, columns: Columns) -> None:
        """One result file."""
        count = len(columns["id"])
        orders = [order for order in ORDERS if f"headroom_{order}" in columns]
        for row in range((-self._number) % self.stride, count, self.stride):
            self.points.append(_point(columns, row, orders))
        self._number += count
        smallest = np.argsort(columns["b"], kind="stable")[:_HARDEST]
        self.hardest += [{name: column[row] for name, column in columns.items()} for row in smallest]
        self.hardest = sorted(self.hardest, key=lambda found: (float(found["b"]), str(found["id"])))[:_HARDEST]


def write_page(folder: Path, collection: Collection, sketch: Sketch | None = None) -> Path:
    """Write the page of a finished audit; `sketch` is made from its results if it is not at hand."""
    record = json.loads((folder / "summary.json").read_text())
    if sketch is None:
        sketch = Sketch(record["summary"]["states"])
        for columns in read_results(folder, judged=True):
            sketch.add(columns)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("suffice.reports"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    plan = Plan.from_record(record["plan"])
    orders = [order for order in ORDERS if str(order) in record["summary"]["open_by_order"]]
    drawn = {"points": sketch.points, "orders": orders, "rungs": record["summary"].get("rungs", {})}
    hardest = [{"id": str(found["id"]), "text": explain_found(found, plan, collection)} for found in sketch.hardest]
    notes = [note for name in collection.kinds if (note := kind_named(name).note)]
    later = secrets.token_hex(16)
    page = environment.get_template("page.html").render(
        policy=later,
        record=record,
        summary=record["summary"],
        question=plan.words(),
        answer=_answer(record["summary"]),
        scope=" ".join([plan.covered, *notes]),
        stride=sketch.stride,
        hardest=hardest,
        # a tag or the start of a comment inside of a string would end the script, or never let it end
        data=json.dumps(drawn).replace("<", "\\u003c"),
        plotly=get_plotlyjs(),
    )
    path = folder / "report.html"
    page = page.replace(later, _policy(page), 1)
    # the name of a folder need not be text
    write_whole(path, page.encode(errors="backslashreplace"))
    return path


def _policy(page: str) -> str:
    """What a browser allows this page: its own scripts, told by their hashes, its styles, no network at all."""
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _point(columns: Columns, row: int, orders: list[int]) -> dict[str, Any]:
    """One state, as little as the charts need."""
    point = {name: _plain(columns[name][row]) for name in (*_POINT_COLUMNS, "target_probability")}
    point["binding"] = str(columns["binding"][row])
    point["verdict"] = str(columns["verdict"][row])
    point["bounded"] = bool(columns["status"][row] == Outcome.BOUNDED)
    point["headroom"] = [_plain(columns[f"headroom_{order}"][row]) for order in orders]
    # the ratio itself, with its digits: a quotient of two rounded numbers would show their rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        point["first_order"] = _plain(columns["b_first_order"][row] / columns["b_conditioned"][row], digits=12)
    return point


def _answer(summary: dict[str, Any]) -> str:
    """The answer in a sentence."""
    states, certified = summary["states"], summary["certified"]
    if not states:
        return "There was no state to judge."
    violated, rest = summary["violated"], summary["inconclusive"]
    out = "Every state is certified" if certified == states else f"{certified:,} of {states:,} states are certified"
    out += f"; {violated:,} are violated: an enclosure of the error shows it" if violated else ""
    out += f"; at {rest:,} no enclosure settles it, which does not mean that they fail" if rest else ""
    out += "."
    if summary["b"]["span"] is not None:
        out += f" The tolerance spans {summary['b']['span']:.1f} orders of magnitude."
    return out


def _plain(value: Any, digits: int = 6) -> Any:
    """A number or a word that JSON has; what is not finite becomes null."""
    if isinstance(value, str):
        return value
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float):
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    return number
