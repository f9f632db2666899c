"""Nothing is wrong with an audit that nobody changed: any contract, budget, order, dimension and scope."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.verify import Report, verify_audit
from tests.support.collections import change_column, make_states, rewrite_part, set_row, write
from tests.support.tampering import change_json, change_row, seal

BUDGETS = sf.Budgets(loss=1e-4, probability=1e-3, gradient=1e-3)
CONTRACTS = ["geometry", "conditioned", "centered"]


def _both(audit: Path, collection: Path) -> tuple[Report, Report]:
    sampled = verify_audit(audit, collection, sample=1000, seed=0)
    return sampled, verify_audit(audit, collection, sample=2, seed=0, everything=True)


def _cooled(count: int, seed: int, temperature: float) -> sf.States:
    """States whose classes are far apart."""
    states = make_states(count, 5, 16, seed)
    return sf.States(states.bank, states.features, states.labels, temperature)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = [make_states(8, 6, 16, 0), make_states(6, 9, 64, 1, single=False), make_states(4, 4, 8, 2)]
    parts += [make_states(3, 3, 5, 4), _cooled(4, 9, 0.02), _cooled(4, 3, 0.0005)]
    return write(tmp_path_factory.mktemp("honest") / "c", *parts)


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize(
    "budgets",
    [
        BUDGETS,
        sf.Budgets(prediction=True),
        sf.Budgets(loss=1e-2, prediction=True),
        # met by anything: unbounded rows
        sf.Budgets(probability=2.0),
    ],
    ids=["closed", "prediction", "both", "unbounded"],
)
def test_analytic_audits(tmp_path: Path, collection: Path, contract: str, budgets: sf.Budgets) -> None:
    sf.audit(collection, budgets, out=tmp_path / "a", contract=contract)
    sampled, everything = _both(tmp_path / "a", collection)
    for report in (sampled, everything):
        assert report.findings == []
        assert report.exit_code == 0
        assert report.checked == report.states == 29
        assert sum(report.settled.values()) == 29
        assert set(report.conservative) == {"loss", "probability", "gradient"}
        assert all(numbers[0] >= 1 for numbers in report.conservative.values())
    assert sampled.in_arb == 29
    assert sampled.settled == everything.settled
    assert everything.columns["b"]["float64"] == 29
    if budgets.probability != 2.0:
        assert everything.in_arb < 29


@pytest.mark.parametrize("order", [1, 3, 4, 5, 6])
def test_orders(tmp_path: Path, order: int) -> None:
    collection = write(tmp_path / "c", make_states(5, 6, 16, 0), make_states(4, 9, 64, 1, single=False))
    sf.audit(collection, BUDGETS, out=tmp_path / "a", order=order)
    for report in _both(tmp_path / "a", collection):
        assert report.findings == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("contract", "order"), [("centered", 2), ("conditioned", 4), ("geometry", 6)])
def test_executed_audits(tmp_path: Path, dtype: str, contract: str, order: int) -> None:
    """Also in float64 at order 6, whose numbers are as good as float64 has them."""
    collection = write(
        tmp_path / "c", make_states(6, 6, 16, 0), make_states(5, 9, 64, 1, single=False), _cooled(3, 9, 0.02)
    )
    budgets = sf.Budgets(loss=1e-3, gradient=1e-2, prediction=order == 4)
    sf.audit(collection, budgets, out=tmp_path / "a", scope="execution", dtype=dtype, contract=contract, order=order)
    sampled, everything = _both(tmp_path / "a", collection)
    for report in (sampled, everything):
        assert report.findings == []
        assert report.checked == 14
        assert set(report.conservative) == {"loss", "gradient"}
        assert all(numbers[0] >= 1 for numbers in report.conservative.values())
    assert sampled.settled == everything.settled
    assert everything.in_arb <= 4


def test_radii_of_the_size_of_their_rounding(tmp_path: Path) -> None:
    """Features opposite to a direction, where k^2 + D cancels: whatever was widened there is not above what may be."""
    states = make_states(6, 5, 16, 7, single=False)
    bank, tau = states.bank, 0.5
    features = -bank.directions[torch.tensor([0, 1, 2, 3, 4, 0])]
    features = features * bank.concentrations[torch.tensor([0, 1, 2, 3, 4, 0])][:, None] * tau
    features[5] *= 1 + 1e-12
    collection = write(tmp_path / "c", sf.States(bank, features, states.labels, tau))
    for contract in CONTRACTS:
        sf.audit(collection, BUDGETS, out=tmp_path / contract, contract=contract)
        for report in _both(tmp_path / contract, collection):
            assert report.findings == []


def test_ties(tmp_path: Path) -> None:
    """Two classes that are the same: no prediction is certified, and b* is zero."""
    mu = torch.eye(6, dtype=torch.float64)[[0, 0, 1]]
    bank = sf.ClassBank(mu, [9.0, 9.0, 3.0])
    collection = write(tmp_path / "c", sf.States(bank, torch.eye(6)[:1].repeat(3, 1), [0, 1, 2], 0.3))
    sf.audit(collection, sf.Budgets(loss=1.0, prediction=True), out=tmp_path / "a")
    statuses = set(pq.read_table(tmp_path / "a" / "results").column("status").to_pylist())
    assert statuses == {"zero"}
    for report in _both(tmp_path / "a", collection):
        assert report.findings == []


def test_what_overflowed_is_not_certified_and_not_wrong(tmp_path: Path) -> None:
    states = make_states(4, 6, 16, 0, single=False)
    scaled = states.features * torch.tensor([1.0, 1e25, 1.0, 1.0], dtype=torch.float64)[:, None]
    collection = write(tmp_path / "c", sf.States(states.bank, scaled, states.labels, 0.5))
    audit = tmp_path / "a"
    sf.audit(collection, sf.Budgets(loss=1e-3, gradient=1e-2), out=audit, scope="execution", dtype="float32")
    rows = pq.read_table(audit / "results").to_pylist()
    assert [row["execution_status"] for row in rows] == ["inside", "geometry", "inside", "inside"]
    # what is no number is violated: no enclosure of the truth contains it
    assert rows[1]["verdict"] == "violated"
    assert math.isinf(rows[1]["loss_bound"])
    assert math.isinf(rows[1]["loss_low"])
    for report in _both(audit, collection):
        assert report.findings == []
    # but a verdict that says otherwise is wrong
    path = next((audit / "results").glob("*"))
    change_row(path, 1, {"verdict": lambda _: "certified"})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert "verdict" in {each.column for each in report.findings if each.row == 1}


def test_rows_that_were_set_aside(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(9, 6, 16, 0))
    rewrite_part(collection, change_column("label", set_row(4, 99)))
    audit = tmp_path / "a"
    sf.audit(collection, BUDGETS, out=audit, skip_bad=True)
    report = verify_audit(audit, collection, sample=100)
    assert report.findings == []
    assert report.states == 8
    change_json(audit / "bad" / "part-00000.json", lambda rows: rows[0].update(row=5))
    assert verify_audit(audit, collection, sample=1).exit_code == 3
    seal(audit, collection)
    found = verify_audit(audit, collection, sample=1)
    assert found.exit_code == 1
    assert {each.file for each in found.findings} == {"bad/part-00000.json"}


def test_a_resumed_audit_has_digests(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(5, 6, 16, 0), make_states(5, 6, 16, 1))
    sf.audit(collection, BUDGETS, out=tmp_path / "a")
    max((tmp_path / "a" / "results").glob("*")).unlink()
    (tmp_path / "a" / "digests.json").unlink()
    report = verify_audit(tmp_path / "a", collection, sample=1)
    assert report.exit_code == 3
    assert report.findings[0].file == "digests.json"
    sf.audit(collection, BUDGETS, out=tmp_path / "a")
    assert verify_audit(tmp_path / "a", collection, sample=1).findings == []
