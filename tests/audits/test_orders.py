"""The rows of an audit are what the library says of the same states, one call at a time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.audits.ledger import read_results
from suffice.contracts.bounds import Bounds
from suffice.realizations.executed.by_sums import summed_bounds
from tests.support.collections import make_states, write

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)
EXECUTED = sf.Budgets(loss=1e-3, gradient=1e-2)


def _collection(path: Path) -> Path:
    return write(path, make_states(30, 6, 16, 0), make_states(20, 12, 64, 1), make_states(10, 6, 16, 2))


@pytest.mark.parametrize("contract", ["centered", "conditioned"])
def test_rows_are_what_the_library_says(tmp_path: Path, contract: str) -> None:
    path = _collection(tmp_path / "c")
    result = sf.audit(path, BUDGETS, out=tmp_path / "a", contract=contract)
    names = ("id", "b", "verdict", "headroom", "cheapest_order")
    rows = {name: np.concatenate([part[name] for part in read_results(tmp_path / "a")]) for name in names}
    batches = list(sf.open_collection(path))
    assert rows["id"].tolist() == [name for batch in batches for name in batch.ids]
    pair = sf.DebyePair()
    expected = [sf.tolerance(batch.states, BUDGETS, pair, contract).b for batch in batches]
    assert np.array_equal(rows["b"], np.concatenate([b.numpy() for b in expected]))
    certificates = [sf.certify(batch.states, BUDGETS, pair, contract) for batch in batches]
    assert np.array_equal(rows["headroom"], np.concatenate([c.headroom.numpy() for c in certificates]))
    assert rows["verdict"].tolist() == [word for c in certificates for word in c.verdict.tolist()]
    for order in (1, 3):
        open_ = sum(
            int((sf.certify(b.states, BUDGETS, sf.DebyePair(order=order), contract).verdict != "certified").sum())
            for b in batches
        )
        assert result.summary.open_by_order[str(order)] == open_
    assert ((rows["cheapest_order"] > 0) | (rows["verdict"] == "inconclusive")).all()
    assert result.summary.states == 60
    assert result.summary.certified == int((rows["verdict"] == "certified").sum())


def _audited(tmp_path: Path, dtype: str, contract: str = "centered") -> tuple[Path, Path]:
    collection = write(tmp_path / "c", make_states(12, 6, 16, 0), make_states(10, 9, 64, 1, single=False))
    sf.audit(collection, EXECUTED, out=tmp_path / "a", scope="execution", dtype=dtype, contract=contract)
    return tmp_path / "a", collection


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
def test_executed_rows_are_what_the_library_says(tmp_path: Path, dtype: str, contract: str) -> None:
    audit, collection = _audited(tmp_path, dtype, contract)
    rows = pq.read_table(audit / "results").to_pylist()
    at = 0
    kind = {"float32": torch.float32, "float64": torch.float64}[dtype]
    for batch in sf.open_collection(collection):
        found = sf.certify(batch.states, EXECUTED, sf.DebyePair(order=2), contract, scope="execution", dtype=kind)
        b = sf.tolerance(batch.states, EXECUTED, sf.DebyePair(order=2), contract, scope="execution", dtype=kind).b
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
