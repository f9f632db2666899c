"""Audits of scope execution: rows are the library's, verify judges executed numbers, the page shows the rungs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.audits.plan import Plan
from suffice.contracts.bounds import Bounds
from suffice.realizations.executed.by_sums import summed_bounds
from tests.support.collections import make_states, write

BUDGETS = sf.Budgets(loss=1e-3, gradient=1e-2)


def _audited(tmp_path: Path, dtype: str, contract: str = "centered") -> tuple[Path, Path]:
    collection = write(tmp_path / "c", make_states(12, 6, 16, 0), make_states(10, 9, 64, 1, single=False))
    sf.audit(collection, BUDGETS, out=tmp_path / "a", scope="execution", dtype=dtype, contract=contract)
    return tmp_path / "a", collection


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
def test_rows_are_what_the_library_says(tmp_path: Path, dtype: str, contract: str) -> None:
    audit, collection = _audited(tmp_path, dtype, contract)
    rows = pq.read_table(audit / "results").to_pylist()
    at = 0
    kind = {"float32": torch.float32, "float64": torch.float64}[dtype]
    for batch in sf.open_collection(collection):
        found = sf.certify(batch.states, BUDGETS, sf.DebyePair(order=2), contract, scope="execution", dtype=kind)
        b = sf.tolerance(batch.states, BUDGETS, sf.DebyePair(order=2), contract, scope="execution", dtype=kind).b
        by_sums = _by_sums(batch.states)
        assert found.executed_loss is not None
        for i in range(len(batch)):
            row = rows[at + i]
            assert row["verdict"] == found.verdict[i]
            assert row["loss_bound"] == pytest.approx(found.loss[i].item(), rel=1e-12)
            assert row["loss"] == pytest.approx(found.executed_loss[i].item(), rel=1e-6)
            assert row["b"] == pytest.approx(b[i].item(), rel=1e-9)
            own = f"debye2/{dtype}"
            for name, bounds in by_sums.items():
                smaller = min(bounds.loss[i].item(), row["loss_bound"]) if name == own else bounds.loss[i].item()
                assert row[f"loss_bound {name}"] == pytest.approx(smaller, rel=1e-3)
        at += len(batch)
    summary = json.loads((audit / "summary.json").read_text())
    assert all(sum(counts.values()) == 22 for counts in summary["summary"]["rungs"].values())
    assert "rounding" in summary["scope"]
    assert dtype in summary["scope"]


def _by_sums(states: sf.States) -> dict[str, Bounds]:
    found = {}
    for rung in sf.rungs():
        table = rung.table(states, "proved")
        if table is not None:
            found[rung.name] = summed_bounds(states, rung.execute(states), table)
    assert len(found) >= 6
    return found


def test_float32_certifies_less_than_float64(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(30, 6, 64, 0))
    counts = {}
    for dtype in ("float32", "float64"):
        budgets = sf.Budgets(loss=1e-6, gradient=1e-6)
        audit = sf.audit(collection, budgets, out=tmp_path / dtype, scope="execution", dtype=dtype, order=6)
        counts[dtype] = audit.summary.certified
        assert audit.scope == "execution"
    assert counts == {"float32": 0, "float64": 30}


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
