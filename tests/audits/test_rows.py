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
from suffice.audits.plan import Plan
from suffice.audits.rows import ORDERS, audit_states
from suffice.contracts.bounds import Bounds
from suffice.realizations.analytic import Analytic
from suffice.realizations.executed.by_sums import summed_bounds
from tests.support.collections import make_states, write
from tests.support.decided import true_verdicts
from tests.support.summed import mixed_states

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)
EXECUTED = sf.Budgets(loss=1e-3, gradient=1e-2)


def _collection(path: Path) -> Path:
    return write(path, make_states(30, 6, 16, 0), make_states(20, 12, 64, 1), make_states(10, 6, 16, 2))


@pytest.mark.parametrize("contract", ["centered", "conditioned"])
def test_rows_are_what_the_library_says(tmp_path: Path, contract: str) -> None:
    path = _collection(tmp_path / "c")
    result = sf.audit(path, BUDGETS, out=tmp_path / "a", contract=contract)
    names = ("id", "b", "verdict", "headroom", "cheapest_order", "tier", "loss_low", "loss_bound")
    rows = {name: np.concatenate([part[name] for part in read_results(tmp_path / "a")]) for name in names}
    batches = list(sf.open_collection(path))
    assert rows["id"].tolist() == [name for batch in batches for name in batch.ids]
    pair = sf.DebyePair()
    expected = [sf.tolerance(batch.states, BUDGETS, pair, contract).b for batch in batches]
    # an audit forms what calls add up: the same numbers, but for the order of their sums
    np.testing.assert_allclose(rows["b"], np.concatenate([b.numpy() for b in expected]), rtol=1e-12)
    certificates = [sf.certify(batch.states, BUDGETS, pair, contract) for batch in batches]
    headroom = np.concatenate([c.headroom.numpy() for c in certificates])
    np.testing.assert_allclose(rows["headroom"], headroom, rtol=1e-12)
    # where the contract leaves a state open, true errors decide
    by_contract = np.array([word for c in certificates for word in c.verdict.tolist()])
    truth = np.concatenate([true_verdicts(batch.states, BUDGETS, Analytic(pair)) for batch in batches])
    assert rows["verdict"].tolist() == np.where(by_contract == "certified", "certified", truth).tolist()
    assert {"certified", "violated"} == set(rows["verdict"].tolist())
    enclosed = rows["tier"] == "enclosure"
    assert (enclosed == (by_contract != "certified")).all()
    assert (rows["loss_low"][~enclosed] == 0).all()
    assert (rows["loss_low"][enclosed] > 0).all()
    assert (rows["loss_low"] <= rows["loss_bound"]).all()
    for order in (1, 3):
        open_ = sum(
            int((sf.certify(b.states, BUDGETS, sf.DebyePair(order=order), contract).verdict != "certified").sum())
            for b in batches
        )
        assert result.summary.open_by_order[str(order)] <= open_
    assert ((rows["cheapest_order"] > 0) | (rows["verdict"] == "violated")).all()
    assert result.summary.states == 60
    assert result.summary.certified == int((rows["verdict"] == "certified").sum())
    assert result.summary.violated == int((rows["verdict"] == "violated").sum())
    assert result.summary.inconclusive == 0


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
        judged = sf.judge(batch.states, EXECUTED, loss=found.executed_loss, gradient=found.executed_gradient)
        for i in range(len(batch)):
            row = rows[at + i]
            enclosed = row["tier"] == "enclosure of this output"
            assert enclosed == (found.verdict[i] != "certified")
            if enclosed:
                # of this output, which is no farther off than the bound for every order of summation
                assert row["loss_low"] <= row["loss_bound"] <= found.loss[i].item()
                assert row["verdict"] == judged.verdict[i]
            else:
                assert row["verdict"] == found.verdict[i]
                assert row["loss_bound"] == pytest.approx(found.loss[i].item(), rel=1e-12)
                assert row["loss_low"] == 0
            assert row["loss"] == pytest.approx(found.executed_loss[i].item(), rel=1e-6)
            assert row["b"] == pytest.approx(b[i].item(), rel=1e-9)
            own = f"debye2/{dtype}"
            for name, bounds in by_sums.items():
                smaller = bounds.loss[i].item()
                if name == own and not enclosed:
                    smaller = min(smaller, row["loss_bound"])
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


@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
@pytest.mark.parametrize("prediction", [True, False])
def test_every_order_has_its_own_verdict(contract: str, prediction: bool) -> None:
    """Decided by the conditioned headroom as far as that goes: the same as a certificate of that order, or by truth."""
    states = make_states(25, 6, 16, 3)
    plan = Plan(loss=1e-5, gradient=1e-4, prediction=prediction, contract=contract)
    columns = audit_states(states, plan)
    certified = []
    for order in ORDERS:
        told = sf.certify(states, plan.budgets, sf.DebyePair(order=order), contract).certified.numpy()
        if order == plan.order:
            # at p = 16 there are no next terms: only the plan's own order goes on to Arb
            told = told | (true_verdicts(states, plan.budgets, Analytic(sf.DebyePair(order=order))) == "certified")
        assert columns[f"certified_{order}"].tolist() == told.tolist()
        certified.append(told)
    cheapest = [next((n for n, met in zip(ORDERS, row, strict=True) if met), 0) for row in np.stack(certified, axis=1)]
    assert columns["cheapest_order"].tolist() == cheapest
    assert len(set(cheapest)) > 1


def test_every_order_is_proved_from_five_dimensions_on() -> None:
    """The fewest that a bank may have: nu = 3/2."""
    columns = audit_states(make_states(3, 3, 5), Plan(loss=1.0))
    assert all(np.isfinite(columns[f"headroom_{order}"]).all() for order in ORDERS)


def test_chunks_change_nothing() -> None:
    states = make_states(20, 6, 16)
    cut = states[:]
    object.__setattr__(cut, "chunk", 6)
    for plan in (Plan(loss=1e-4), Plan(loss=1e-4, scope="execution", dtype="float32")):
        whole, parts = audit_states(states, plan), audit_states(cut, plan)
        assert list(whole) == list(parts)
        for name in ("verdict", "tier", "status", "cheapest_order"):
            assert whole[name].tolist() == parts[name].tolist()
        np.testing.assert_allclose(whole["b"], parts["b"], rtol=1e-6)
        same = whole["tier"] != "enclosure of this output"
        np.testing.assert_allclose(whole["loss_bound"][same], parts["loss_bound"][same], rtol=1e-6)
        # products depend on the batch, and an enclosure is of the very numbers
        assert (whole["loss_low"][~same] <= 1.01 * parts["loss_bound"][~same]).all()
        assert (parts["loss_low"][~same] <= 1.01 * whole["loss_bound"][~same]).all()


def test_saturated_rows_stand_where_they_stood() -> None:
    """They are judged in runs of their own, and come back between the others."""
    states = mixed_states()
    columns = audit_states(states, Plan(loss=1e-2, gradient=1e-1))
    budgets, pair = sf.Budgets(loss=1e-2, gradient=1e-1), sf.DebyePair()
    certificate, tolerance = sf.certify(states, budgets, pair), sf.tolerance(states, budgets, pair)
    rows = columns["tier"] != "enclosure"
    assert rows.sum() > 30
    for name in ("loss", "probability", "gradient"):
        wanted = getattr(certificate, name).numpy()
        np.testing.assert_allclose(columns[f"{name}_bound"][rows], wanted[rows], rtol=1e-9)
    np.testing.assert_allclose(columns["headroom"], certificate.headroom.numpy(), rtol=1e-9)
    np.testing.assert_allclose(columns["b"], tolerance.b.numpy(), rtol=2e-9)
    np.testing.assert_allclose(columns["b_upper"], tolerance.upper.numpy(), rtol=2e-9)
    # no two of them are alike
    spread = np.sort(columns["b"])
    assert (spread[1:] > 1.001 * spread[:-1]).all()


def test_a_tier_only_where_the_contract_certifies() -> None:
    """A weaker contract than the cascade's last leaves more to the enclosure."""
    states = make_states(25, 6, 16, 3)
    weak = audit_states(states, Plan(loss=1e-4, contract="geometry"))
    strong = audit_states(states, Plan(loss=1e-4))
    assert weak["verdict"].tolist() == strong["verdict"].tolist()
    assert (weak["tier"] == "enclosure").sum() > (strong["tier"] == "enclosure").sum()
    assert (weak["headroom"][weak["tier"] == "enclosure"] < 1).all()


def test_a_realization_of_ones_own_has_no_orders() -> None:
    columns = audit_states(make_states(4, 6, 16), Plan(loss=1e-4, given=Analytic(sf.DebyePair(order=3))))
    assert not any(name.startswith(("certified_", "headroom_", "cheapest")) for name in columns)
    told = sf.certify(make_states(4, 6, 16), sf.Budgets(loss=1e-4), sf.DebyePair(order=3))
    np.testing.assert_allclose(columns["headroom"], told.headroom.numpy(), rtol=1e-12)
