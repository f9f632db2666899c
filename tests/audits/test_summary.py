"""An audit in numbers: counts and quantiles of its rows, in one pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.audits.ledger import read_results
from suffice.audits.plan import Plan
from suffice.audits.summary import summarize_results
from tests.support.collections import make_states, write

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)


def _collection(path: Path) -> Path:
    return write(path, make_states(30, 6, 16, 0), make_states(20, 12, 64, 1), make_states(10, 6, 16, 2))


def test_quantiles_of_the_summary(tmp_path: Path) -> None:
    result = sf.audit(_collection(tmp_path / "c"), BUDGETS, out=tmp_path / "a")
    b = np.concatenate([part["b"] for part in read_results(tmp_path / "a")])
    spread = result.summary.b
    assert spread.smallest == b.min()
    assert spread.largest == b.max()
    assert spread.median == pytest.approx(np.quantile(b, 0.5, method="higher"), rel=2e-4)
    assert spread.span == pytest.approx(np.log10(b.max() / b.min()))
    assert sum(group.states for group in result.summary.groups) == 60
    assert {group.dim for group in result.summary.groups} == {16, 64}


def test_every_state_is_counted_on_its_rung(tmp_path: Path) -> None:
    """Also on the cheapest, which has the longest name."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:2], [0.0, 1e-3])
    collection = write(tmp_path / "c", sf.States(bank, torch.full((3, 6), 1e-3), [0, 1, 0], 1.0))
    audit = sf.audit(collection, BUDGETS, out=tmp_path / "a", scope="execution")
    counts = audit.summary.rungs["0.001"]
    assert counts[sf.rungs()[0].name] == 3
    assert sum(counts.values()) == 3


def test_an_analytic_audit_has_no_rungs(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(12, 6, 16, 0))
    audit = sf.audit(collection, BUDGETS, out=tmp_path / "a")
    assert audit.summary.rungs == {}
    assert "loss" not in pq.read_schema(next((tmp_path / "a" / "results").glob("*.parquet"))).names
    assert Plan(loss=1e-3).fingerprint("c", "1", False) != Plan(loss=1e-3, scope="execution").fingerprint(
        "c", "1", False
    )
    assert np.isfinite(audit.summary.b.median or np.nan)


def _columns(b: list[float], **changes: Any) -> dict[str, np.ndarray[Any, Any]]:
    count = len(b)
    usual: dict[str, Any] = {
        "id": [str(i) for i in range(count)],
        "b": b,
        "headroom": b,
        "b_first_order": b,
        "b_conditioned": b,
        "status": ["bounded"] * count,
        "verdict": ["certified"] * count,
        "binding": ["loss"] * count,
        "tier": ["geometry"] * count,
        "dim": [16] * count,
        "temperature": [0.1] * count,
        **{f"certified_{n}": [True] * count for n in range(1, 7)},
    }
    return {name: np.array(values) for name, values in {**usual, **changes}.items()}


def test_quantiles_of_many_numbers_in_parts() -> None:
    """In the memory of a histogram: to a relative 1e-4 of the numbers themselves, whatever the parts."""
    values = np.exp(np.random.default_rng(0).normal(size=10_001) * 3)
    parts = [_columns(part.tolist()) for part in np.array_split(values, 7)]
    spread = summarize_results(parts, 0).b
    assert spread.count == 10_001
    assert (spread.smallest, spread.largest) == (values.min(), values.max())
    for name, q in (("q05", 0.05), ("median", 0.5), ("q95", 0.95)):
        assert getattr(spread, name) == pytest.approx(np.quantile(values, q), rel=1e-3)
    assert spread.median == pytest.approx(np.sort(values)[5000], rel=1.01e-4)


def test_what_is_no_number_is_not_counted() -> None:
    """Zero, infinite and unbounded tolerances are in no quantile; they are counted as what they are."""
    columns = _columns(
        [1.0, 2.0, 5.0, 0.0, 7.0],
        headroom=[1.0, np.inf, np.nan, 0.0, 2.0],
        status=["bounded", "bounded", "unbounded", "zero", "bounded"],
        verdict=["certified", "inconclusive", "certified", "inconclusive", "certified"],
        b_first_order=[1.005, 3.0, 5.0, 0.0, 7.0],
    )
    summary = summarize_results([columns], 4)
    assert (summary.b.count, summary.b.smallest, summary.b.largest) == (3, 1.0, 7.0)
    assert (summary.headroom.count, summary.headroom.largest) == (2, 2.0)
    assert (summary.certified, summary.inconclusive, summary.bad_rows) == (3, 2, 4)
    assert summary.status == {"bounded": 3, "unbounded": 1, "zero": 1}
    # within one percent, of those that are bounded
    assert summary.first_order_within_1_percent == 2


def test_the_cheapest_order_for_all() -> None:
    columns = _columns([1.0, 1.0], certified_1=[False, False], certified_2=[True, False], certified_3=[True, True])
    summary = summarize_results([columns], 0)
    assert summary.open_by_order == {"1": 2, "2": 1, "3": 0, "4": 0, "5": 0, "6": 0}
    assert summary.cheapest_order_for_all == 3
    never = summarize_results([_columns([1.0], **{f"certified_{n}": [False] for n in range(1, 7)})], 0)
    assert never.cheapest_order_for_all is None
    # a realization that is no pair has no orders
    other = {name: column for name, column in _columns([1.0]).items() if not name.startswith("certified_")}
    assert summarize_results([other], 0).open_by_order == {}


def test_groups() -> None:
    columns = _columns([1.0, 2.0, 3.0], dim=[8, 16, 8], temperature=[0.5, 0.1, 0.5])
    groups = summarize_results([columns, columns], 0).groups
    assert [(group.dim, group.temperature, group.states, group.certified) for group in groups] == [
        (8, 0.5, 4, 4),
        (16, 0.1, 2, 2),
    ]
    assert groups[0].b.largest == 3


def test_no_rows() -> None:
    summary = summarize_results([], 0)
    assert (summary.states, summary.b.count, summary.b.median) == (0, 0, None)
    assert summary.cheapest_order_for_all is None
