"""An audit in numbers: counts and quantiles of its rows, in one pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.audits.ledger import read_results
from suffice.audits.plan import Plan
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
