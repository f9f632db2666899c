"""The independent check finds nothing wrong with an audit, and finds what is wrong with a tampered one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flint import arb, ctx
from typer.testing import CliRunner

import suffice as sf
from suffice.audits import stored, verify
from suffice.audits.verification import verify_audit, verify_everything
from suffice.cli import app
from suffice.pairs import surrogate
from tests.store.test_collection import make_states, write

BUDGETS = sf.Budgets(loss=1e-4, probability=1e-3, gradient=1e-3)


def _audited(tmp_path: Path, contract: str) -> tuple[Path, Path]:
    saturated = make_states(6, 5, 16, 9)
    saturated = sf.States(saturated.bank, saturated.features, saturated.labels, 0.02)
    collection = write(tmp_path / "c", make_states(12, 6, 16, 0), make_states(6, 9, 64, 1, single=False), saturated)
    sf.audit(collection, BUDGETS, out=tmp_path / "a", contract=contract)
    return tmp_path / "a", collection


CONTRACTS = ["centered", "conditioned", "geometry"]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_nothing_is_wrong(tmp_path: Path, contract: str) -> None:
    audit, collection = _audited(tmp_path, contract)
    report = verify_audit(audit, collection, 100, 0)
    assert report.violations == []
    assert report.checked == report.states == 24
    assert set(report.conservative) == {"loss", "probability", "gradient"}
    assert all(numbers[0] >= 1 for numbers in report.conservative.values())


def _tamper(audit: Path, column: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    for path in (audit / "results").glob("*.parquet"):
        table = pq.read_table(path)
        index = table.schema.get_field_index(column)
        values = change(table.column(column).to_numpy(zero_copy_only=False))
        pq.write_table(table.set_column(index, column, pa.array(values)), path)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("loss_bound", lambda x: x * 1e-4, "loss: error .* is not proved"),
        ("probability_bound", lambda x: x * 1e-4, "probability: error .* is not proved"),
        ("gradient_bound", lambda x: x * 1e-4, "gradient: error .* is not proved"),
        ("b", lambda x: x * 1.0001, r"b\*: .* bound at .* is not proved"),
    ],
)
@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_is_wrong_is_found(
    tmp_path: Path, contract: str, column: str, change: Callable[[np.ndarray], np.ndarray], message: str
) -> None:
    audit, collection = _audited(tmp_path, contract)
    _tamper(audit, column, change)
    report = verify_audit(audit, collection, 100, 0)
    assert len(report.violations) >= 20

    assert all(re.search(message, text) for text in report.violations)


@pytest.mark.parametrize("contract", ["centered", "conditioned"])
def test_all_states_by_enclosures(tmp_path: Path, contract: str) -> None:
    collection = write(tmp_path / "c", make_states(30, 6, 64, 0), make_states(20, 9, 128, 1), make_states(5, 4, 8, 2))
    sf.audit(collection, BUDGETS, out=tmp_path / "a", contract=contract)
    opened = sf.open_collection(collection)
    report = verify_everything(tmp_path / "a", opened, 4, 0)
    assert report.violations == []
    assert report.checked == 55
    # the enclosures are useless at p = 8: Arb has judged all of those
    assert 9 >= report.in_arb >= 5
    assert sum(report.settled.values()) == 55
    slow = verify_audit(tmp_path / "a", collection, 100, 0)
    assert slow.settled == report.settled
    for column in ("loss_bound", "gradient_bound"):
        _tamper(tmp_path / "a", column, lambda x: x * 1e-5)
        assert len(verify_everything(tmp_path / "a", opened, 4, 0).violations) >= 55
        _tamper(tmp_path / "a", column, lambda x: x * 1e5)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_prediction_budget_is_checked(tmp_path: Path, contract: str) -> None:
    collection = write(tmp_path / "c", make_states(12, 6, 16, 0))
    sf.audit(collection, sf.Budgets(prediction=True), out=tmp_path / "a", contract=contract)
    report = verify_audit(tmp_path / "a", collection, 20, 0)
    assert report.violations == []
    assert report.settled == {"certified: adequate": 12}
    _tamper(tmp_path / "a", "b", lambda x: x * 1.0001)
    found = verify_audit(tmp_path / "a", collection, 20, 0).violations
    assert len(found) == 12
    assert all("prediction is not proved to be kept" in text for text in found)


def test_certified_states_that_are_not_adequate_are_found(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(12, 6, 8, 0))
    sf.audit(collection, sf.Budgets(gradient=1e-9), out=tmp_path / "a")
    plain = verify_audit(tmp_path / "a", collection, 20, 0)
    assert plain.settled == {"inconclusive: violated": 12}
    assert plain.violations == []
    _tamper(tmp_path / "a", "verdict", lambda x: np.full(len(x), "certified"))
    assert len(verify_audit(tmp_path / "a", collection, 20, 0).violations) == 12


@pytest.mark.parametrize("order", range(1, 7))
def test_its_surrogate_is_the_librarys(order: int) -> None:
    """Two implementations of F_n and A_n that share nothing."""
    for nu, x in ((1.5, 0.75), (63.0, 500.0), (511.0, 90.0)):
        with ctx.workprec(200):
            here, ratio = verify._surrogate(order, arb(nu), arb(x))
            there, _ = verify._surrogate(order, arb(nu), arb(2 * x))
            assert abs(ratio - surrogate.ratio(order, nu, x, bits=200)) < 1e-40
            other = surrogate.potential_difference(order, nu, 2 * x, x, 3 * x * x, bits=200)
            assert abs(there - here - other) < 1e-40


def test_it_imports_nothing_of_the_certifying_code() -> None:
    for module, allowed in ((verify, {"suffice.audits.stored"}), (stored, set())):
        source = Path(str(module.__file__)).read_text()
        assert set(re.findall(r"(?:from|import) (suffice[\w.]*)", source)) == allowed
        assert "torch" not in source


def test_command_line(tmp_path: Path) -> None:
    audit, _ = _audited(tmp_path, "centered")
    runner = CliRunner()
    shown = runner.invoke(app, ["verify", str(audit), "--sample", "5"])
    assert shown.exit_code == 0, shown.output
    assert "5 of 24 states recomputed" in shown.output
    assert "24 of 24 states" in runner.invoke(app, ["verify", str(audit), "--all", "--sample", "2"]).output
    record = json.loads(runner.invoke(app, ["verify", str(audit), "--sample", "3", "--json"]).stdout)
    assert record["checked"] == 3
    explained = runner.invoke(app, ["inspect", str(audit), "a:0:3"])
    assert explained.exit_code == 0, explained.output
    assert "binds" in explained.output
    assert runner.invoke(app, ["inspect", str(audit), "nobody"]).exit_code == 2
    _tamper(audit, "loss_bound", lambda x: x * 1e-4)
    assert runner.invoke(app, ["verify", str(audit), "--sample", "5"]).exit_code == 1
    assert runner.invoke(app, ["verify", str(tmp_path / "c")]).exit_code == 3
    write(tmp_path / "other", make_states(3))
    moved = runner.invoke(app, ["verify", str(audit), "--collection", str(tmp_path / "other")])
    assert moved.exit_code == 3
