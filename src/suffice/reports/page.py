"""`report.html`: one self-contained page about an audit, which opens offline from a file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from suffice.audits.formats import HEAD_FORMATS
from suffice.audits.ledger import read_results
from suffice.audits.plan import Plan
from suffice.audits.rows import ORDERS
from suffice.reports.advice import limits_of
from suffice.reports.embedded import coded, packed, rounded, write_html
from suffice.reports.sketch import Sketch
from suffice.reports.weights import SHOWN, class_weights
from suffice.store.kinds import kind_named
from suffice.store.reader import Collection
from suffice.store.remote import shown
from suffice.words import Verdict

__all__ = ["write_page"]

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

_CODED = ("source", "dataset", "run", "dim", "temperature", "verdict", "tier", "status", "binding", "missed", "next")
_WHOLE = ("step", "label", "classes", "orders")
# the first page of states that are not certified, which needs no script
_FIRST = 20
# log10 of what a target leaves to others: at one in a hundred states below, the axis is logarithmic
_SATURATED = -2.0


def write_page(folder: Path, collection: Collection, sketch: Sketch | None = None, plan: Plan | None = None) -> Path:
    """Write the page of a finished audit; `sketch` and `plan` are read from its folder if they are not at hand."""
    record = json.loads((folder / "summary.json").read_text())
    summary = record["summary"]
    plan = plan or (Plan.from_record(record["plan"]) if sketch is None else sketch.plan)
    if sketch is None:
        sketch = Sketch(summary["states"], plan)
        for columns in read_results(folder, judged=True):
            sketch.add(columns)
    states, drawn, listed = sketch.states()
    classes, unit = class_weights(states, plan, collection) if states else ({}, "")
    saturated = bool(states) and float((classes["rest"][:drawn] < _SATURATED).mean()) >= 0.01
    orders = [order for order in ORDERS if str(order) in summary["open_by_order"]]
    rest = {
        "states": summary["states"],
        "drawn": drawn,
        "stride": sketch.stride,
        "contract": plan.chosen.name,
        "budgets": limits_of(plan),
        "orders": orders,
        "order_names": [f"debye{order}" for order in orders],
        "rungs": {budget: _rungs(states, budget, list(counts)) for budget, counts in summary["rungs"].items()},
        "rung_names": list(next(iter(summary["rungs"].values()), {})),
        "rung_counts": summary["rungs"],
        "unit": unit,
        "saturated": saturated,
        "palette": _palette(states),
        "audit": shown(folder),
        "list": listed.tolist(),
    }
    notes = [note for name in collection.kinds if (note := kind_named(name).note)]
    return write_html(
        folder / "report.html",
        "page.html",
        record=record,
        summary=summary,
        question=plan.words(),
        answer=_answer(summary),
        scope=" ".join([plan.covered, *notes]),
        contract=plan.chosen.name,
        prediction=plan.prediction,
        # first orders are of bounds: a margin has none
        closed=bool(limits_of(plan)),
        orders=orders,
        stride=sketch.stride,
        unit=unit,
        saturated=saturated,
        certified_below_one=sketch.certified_below_one,
        formats=_formats(summary),
        listed=len(listed),
        listed_all=len(listed) == summary["states"] - summary["certified"],
        open=[_in_words(states, row) for row in listed[:_FIRST]],
        none_open="Every state is certified." if summary["states"] else "There was no state to judge.",
        data=packed({**rest, **_columns(states, plan, classes)}),
    )


def _columns(states: Columns, plan: Plan, classes: Columns) -> dict[str, Any]:
    """All that the page knows of its states, column by column, with the digits that it can show."""
    empty: Array = np.zeros(0)
    numbers = {name: states.get(name, empty).astype(np.int64).tolist() for name in _WHOLE}
    numbers |= {name: rounded(states.get(name, empty)) for name in ("b", "off")}
    numbers |= {name: _with_infinity(states.get(name, empty)) for name in ("headroom", "factor")}
    for name in limits_of(plan):
        numbers |= {f"{name}_{end}": rounded(states.get(f"{name}_{end}", empty), 3) for end in ("bound", "low")}
    numbers["rest"] = rounded(classes.get("rest", empty))
    shares = np.nan_to_num(1000 * classes.get("share", empty)).round().astype(np.int64)
    return {
        "id": states.get("id", empty).tolist(),
        "coded": {name: coded(states.get(name, empty)) for name in _CODED},
        "numbers": numbers,
        "shown": SHOWN,
        "classes": {
            "class": classes.get("class", empty).ravel().tolist(),
            "share": shares.ravel().tolist(),
            "probability": rounded(classes.get("probability", empty), 2),
            "allowance": rounded(classes.get("allowance", empty), 2),
        },
    }


def _palette(states: Columns) -> str:
    """What colours say at first: the first of these that is not the same for all states."""
    names = ("verdict", "dim", "temperature", "binding", "source")
    return next((name for name in names if len(np.unique(states.get(name, np.zeros(0)))) > 1), "verdict")


def _rungs(states: Columns, budget: str, names: list[str]) -> list[int]:
    """The cheapest rung of each state at a budget, by its place among all."""
    return [names.index(str(name)) for name in states.get(f"rung {budget}", ())]


def _formats(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Formats of a head: what each is, and how many states have which verdict. An audit of before has none."""
    counted, states = summary.get("formats", {}), summary["states"]
    return [
        {"name": row.name, "words": row.words, "share": counted[row.name]["certified"] / states, **counted[row.name]}
        for row in HEAD_FORMATS
        if row.name in counted
    ]


def _with_infinity(values: Array) -> list[Any]:
    """A number that is positive, with -1 for infinity."""
    return rounded(np.where(np.isposinf(values), -1.0, values))


def _in_words(states: Columns, row: int) -> dict[str, str]:
    """One state that is not certified, as the page's script says it."""
    verdict, name, factor = str(states["verdict"][row]), str(states["missed"][row]), float(states["factor"][row])
    what = "error" if verdict == Verdict.VIOLATED else "bound"
    how = f"{name} {what} {factor:.3g} times the budget" if math.isfinite(factor) else f"{name}: no finite bound"
    if name == "prediction":
        how = (
            "another class is predicted"
            if verdict == Verdict.VIOLATED
            else f"prediction: {factor:.3g} times the margin"
        )
    return {"id": str(states["id"][row]), "verdict": verdict, "how": how, "next": str(states["next"][row])}


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
