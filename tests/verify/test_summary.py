"""The numbers of summary.json counted again, by hand and against the library's."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from suffice.audits.summary import summarize_results
from suffice.verify.columns import Said
from suffice.verify.cross import RUNGS
from suffice.verify.plan import Header
from suffice.verify.summary import Counted, summary_findings
from tests.support.verifying import Linear, honest_rows, plan_of

LOSS = np.array([0.11, 0.2, 0.4, 0.8, 1.6])
PLAN = plan_of(loss=1.0)


def _said(loss: np.ndarray = LOSS, dim: int = 16) -> Said:
    said = honest_rows(Linear(loss, loss))
    count = len(loss)
    return {**said, "dim": np.full(count, dim), "temperature": np.where(np.arange(count) % 2, 0.5, 0.1)}


def _analytic(said: Said) -> Said:
    return {name: column for name, column in said.items() if not name.startswith(("loss_bound ", "gradient_bound "))}


def _record(plan: Any = PLAN) -> dict[str, Any]:
    counted = Counted()
    counted.add(_said(), plan)
    counted.add(_said(LOSS / 4, 8), plan)
    return counted.record(plan, 3)


def test_counts_by_hand() -> None:
    record = _record()
    assert (record["states"], record["certified"], record["inconclusive"], record["bad_rows"]) == (10, 9, 1, 3)
    assert record["tiers"] == {"geometry": 4, "conditioned": 2, "closed form": 2, "centered": 1, "none": 1}
    assert record["open_by_order"] == {"1": 7, "2": 1, "3": 0, "4": 0, "5": 0, "6": 0}
    assert record["cheapest_order_for_all"] == 3
    assert record["first_order_within_1_percent"] == 10
    assert [(group["dim"], group["temperature"], group["states"]) for group in record["groups"]] == [
        (8, 0.1, 3),
        (8, 0.5, 2),
        (16, 0.1, 3),
        (16, 0.5, 2),
    ]
    assert [group["certified"] for group in record["groups"]] == [3, 2, 2, 2]
    headroom = np.sort(1 / np.concatenate([LOSS, LOSS / 4]))
    assert record["headroom"]["count"] == 10
    assert record["headroom"]["smallest"] == pytest.approx(headroom[0])
    # the fifth of nine steps, from above
    assert record["headroom"]["median"] == pytest.approx(headroom[5])
    assert record["headroom"]["span"] == pytest.approx(np.log10(headroom[-1] / headroom[0]))
    assert record["rungs"] == {}


@pytest.mark.parametrize("executed", [False, True])
def test_the_library_counts_the_same(executed: bool) -> None:
    parts = [_said(), _said(LOSS / 4, 8)]
    plan = plan_of(loss=1.0, scope="execution") if executed else PLAN
    theirs = asdict(summarize_results(parts if executed else [_analytic(part) for part in parts], 3))
    header = Header(plan=plan, collection="", skip_bad=False, record={"question": "?"})
    assert summary_findings({"question": "?", "summary": theirs}, header, _record(plan)) == []
    assert bool(theirs["rungs"]) == executed


def test_rungs_are_counted_at_every_budget() -> None:
    """The first that keeps both budgets; a rung whose gradient alone is too much is none."""
    said = _said(np.array([1e-3, 1e-6]))
    first, *rest = RUNGS
    for name in RUNGS:
        said[f"loss_bound {name}"] = np.array([5e-4, 5e-9])
        said[f"gradient_bound {name}"] = np.array([5e-4, 5e-9] if name in rest[2:] else [1.0, 5e-4])
    counted = Counted()
    counted.add(said, plan_of(loss=1.0, scope="execution"))
    rungs = counted.record(plan_of(loss=1.0, scope="execution"), 0)["rungs"]
    assert {name: count for name, count in rungs["0.001"].items() if count} == {first: 1, rest[2]: 1}
    assert {name: count for name, count in rungs["1e-08"].items() if count} == {rest[2]: 1, "none": 1}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("states",), 11),
        (("certified",), 10),
        (("certified",), True),
        (("b", "smallest"), 1e-9),
        (("b", "median"), 1.0),
        (("b", "span"), 0.0),
        (("tiers", "geometry"), 5),
        (("tiers", "another"), 1),
        (("open_by_order", "2"), 0),
        (("cheapest_order_for_all",), None),
        (("cheapest_order_for_all",), 2),
        (("groups",), []),
        (("bad_rows",), 0),
        (("more",), 1),
    ],
)
def test_every_number_is_compared(place: tuple[str, ...], value: object) -> None:
    summary = _record()
    inner = summary
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    header = Header(plan=PLAN, collection="", skip_bad=False, record={"question": "?"})
    findings = summary_findings({"question": "?", "summary": summary}, header, _record())
    assert [each.column for each in findings] == [", ".join(place)]
    assert all(each.file == "summary.json" for each in findings)


def test_quantiles_may_be_those_of_a_histogram() -> None:
    header = Header(plan=PLAN, collection="", skip_bad=False, record={})
    for name, near in (("median", 1e-4), ("smallest", 1e-13)):
        for factor, wrong in ((1 + near, 0), (1 + 100 * near, 1)):
            summary = _record()
            summary["b"][name] *= factor
            assert len(summary_findings({"summary": summary}, header, _record())) == wrong, (name, factor)


def test_a_summary_of_another_question_or_none() -> None:
    header = Header(plan=PLAN, collection="", skip_bad=False, record={"question": "?"})
    assert [each.column for each in summary_findings({"summary": _record()}, header, _record())] == ["question"]
    assert [each.column for each in summary_findings({"question": "?"}, header, _record())] == ["summary"]


def test_no_rows() -> None:
    record = Counted().record(PLAN, 0)
    assert record["cheapest_order_for_all"] is None
    assert record["b"] == {**dict.fromkeys(("smallest", "q05", "median", "q95", "largest", "span")), "count": 0}
