"""What only one comparison finds: everything else that is said fits, and every digest."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.verify import Report, check, verify_audit
from suffice.verify.columns import TIERS
from tests.support.collections import change_column, make_states, rewrite_part, set_row, write
from tests.support.tampering import change_json, change_row, change_table, first_row, seal

BUDGETS = sf.Budgets(loss=1e-4, probability=1e-3, gradient=1e-3)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("misses")
    collection = write(folder / "c", make_states(8, 6, 16, 0), make_states(6, 9, 64, 1, single=False))
    sf.audit(collection, BUDGETS, out=folder / "a")
    return folder / "a", collection


@pytest.fixture
def copied(audited: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    shutil.copytree(audited[0], tmp_path / "a")
    return tmp_path / "a", audited[1]


def _both(audit: Path, collection: Path) -> list[Report]:
    sampled = verify_audit(audit, collection, sample=100, seed=0)
    return [sampled, verify_audit(audit, collection, sample=0, everything=True)]


def _places(report: Report) -> set[tuple[int | None, str]]:
    return {(each.row, each.column) for each in report.findings}


def _digest_again(audit: Path, name: str) -> None:
    """The digest of one file alone: a seal would put its header right as well."""
    digest = hashlib.sha256((audit / name).read_bytes()).hexdigest()
    change_json(audit / "digests.json", lambda record: record["files"].update({name: digest}))


def test_a_verdict_that_its_bounds_do_not_give(copied: tuple[Path, Path]) -> None:
    """Where the true errors keep every budget: nothing is violated, and yet it is not certified."""
    audit, collection = copied
    path, row = first_row(audit, lambda found: found["verdict"] == "certified" and found["tier"] == "enclosure")
    change_row(path, row, {"gradient_bound": lambda _: 1.001e-3})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert "certified: violated" not in report.settled
        assert (row, "verdict") in _places(report)


@pytest.mark.parametrize("later", TIERS[1:])
def test_a_tier_that_is_not_the_first(copied: tuple[Path, Path], later: str) -> None:
    audit, collection = copied
    path, row = first_row(audit, lambda found: found["tier"] == "geometry")
    change_row(path, row, {"tier": lambda _: later})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert (row, "tier") in _places(report)


def test_an_order_that_only_the_centered_contract_certifies(copied: tuple[Path, Path]) -> None:
    """Its headroom is that of the conditioned contract and does not tell."""
    audit, collection = copied
    path, row = first_row(audit, lambda found: found["certified_3"] and found["headroom_3"] < 1)
    change_row(path, row, {"certified_3": lambda _: False, "cheapest_order": lambda _: 4})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert (row, "certified_3") in _places(report)


def test_an_order_that_is_called_certified_beside_a_prediction(tmp_path: Path) -> None:
    """Where predictions count no true error certifies an order: the contract's bounds have to tell."""
    audit, collection = tmp_path / "a", write(tmp_path / "c", make_states(8, 6, 16, 0))
    sf.audit(collection, sf.Budgets(loss=1e-4, gradient=1e-3, prediction=True), out=audit)
    path, row = first_row(audit, lambda found: not found["certified_1"])
    change_row(path, row, {"certified_1": lambda _: True})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert (row, "certified_1") in _places(report)


def test_a_prediction_that_is_not_certified(tmp_path: Path) -> None:
    """Two classes that are nearly the same: the prediction is right, and the margin less than what it may move."""
    mu = torch.eye(16, dtype=torch.float64)[[0, 0, 1]]
    bank = sf.ClassBank(mu, [9.0, 9.0 + 1e-6, 3.0])
    features = torch.eye(16, dtype=torch.float64)[:1].repeat(2, 1)
    audit, collection = tmp_path / "a", write(tmp_path / "c", sf.States(bank, features, [0, 1], 0.3))
    sf.audit(collection, BUDGETS, out=audit, contract="geometry")
    (path,) = (audit / "results").glob("*")
    assert pq.read_table(path).column("prediction_certified").to_pylist() == [False, False]
    change_row(path, 1, {"prediction_certified": lambda _: True})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert _places(report) == {(1, "prediction_certified")}


@pytest.mark.parametrize("everywhere", [False, True])
def test_an_audit_of_another_collection(copied: tuple[Path, Path], everywhere: bool) -> None:
    """The header names another, fingerprint and digests fit it, and the manifest's own digest is this one's."""
    audit, collection = copied
    header = json.loads((audit / "audit.json").read_text())
    header["collection"] = "0" * 64
    asked = {**header["plan"], **{key: header[key] for key in ("collection", "skip_bad")}, "version": header["suffice"]}
    header["fingerprint"] = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    (audit / "audit.json").write_text(json.dumps(header))
    change_json(audit / "summary.json", lambda record: record.update(header))
    for name in ("audit.json", "summary.json"):
        _digest_again(audit, name)
    if everywhere:
        change_json(audit / "digests.json", lambda record: record.update(collection="0" * 64))
    report = verify_audit(audit, collection, sample=1)
    assert report.exit_code == 3
    assert {(each.file, each.column) for each in report.findings} == {("manifest.json", "collection")}


@pytest.mark.parametrize("key", ["question", "plan", "scope"])
def test_a_summary_of_another_question(copied: tuple[Path, Path], key: str) -> None:
    audit, collection = copied
    change_json(audit / "summary.json", lambda record: record.update({key: "is all well?"}))
    _digest_again(audit, "summary.json")
    report = verify_audit(audit, collection, sample=1)
    assert report.exit_code == 1
    assert [(each.file, each.column) for each in report.findings] == [("summary.json", key)]


def test_rows_are_drawn_from_all_files_by_the_seed(copied: tuple[Path, Path]) -> None:
    """A sample of one, of fourteen rows that are all wrong: each seed names one, and every row has its seed."""
    audit, collection = copied
    for path in (audit / "results").glob("*"):
        for row in range(pq.read_metadata(path).num_rows):
            change_row(path, row, {"b_first_order": lambda found: 2 * found["b_first_order"]})
    seal(audit, collection)
    drawn = set()
    for seed in range(80):
        report = verify_audit(audit, collection, sample=1, seed=seed)
        assert report.checked == report.in_arb == 1
        (one,) = (each for each in report.findings if each.column == "b_first_order")
        drawn.add((one.file, one.row))
    assert len(drawn) == 14


def test_what_float64_cannot_tell_is_decided_by_arb(tmp_path: Path) -> None:
    """Bounds below 1e-290, where float64 has no digits; the sample is empty."""
    states = make_states(4, 5, 16, 3, single=False)
    bank = sf.ClassBank(states.bank.directions, 400 * states.bank.concentrations + 100, states.bank.biases)
    cold = sf.States(bank, states.features, states.labels, 0.002)
    cold = sf.States(bank, states.features, sf.evaluate(cold, sf.DebyePair()).prediction, 0.002)
    audit, collection = tmp_path / "a", write(tmp_path / "c", cold)
    sf.audit(collection, BUDGETS, out=audit)
    path, row = first_row(audit, lambda found: found["loss_bound"] < 1e-290)
    change_row(path, row, {"loss_bound": lambda row: row["loss_bound"] * 1e3})
    seal(audit, collection)
    report = verify_audit(audit, collection, sample=0, everything=True)
    assert (row, "loss_bound") in _places(report)


def test_what_float64_finds_is_named_where_arb_does_not_confirm_it(
    copied: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an audit that is wrong everywhere Arb has the first rows, and the others are named all the same."""
    audit, collection = copied
    monkeypatch.setattr(check, "_CONFIRMED", 2)
    for path in (audit / "results").glob("*"):
        for row in range(pq.read_metadata(path).num_rows):
            change_row(path, row, {"target_probability": lambda found: 0.9 * found["target_probability"]})
    seal(audit, collection)
    report = verify_audit(audit, collection, sample=0, everything=True)
    assert report.in_arb < 14
    assert sum(each.column == "target_probability" for each in report.findings) == 14


def test_a_gradient_that_is_no_number(tmp_path: Path) -> None:
    """Of the right length, and with a bound: it is not within it."""
    audit, collection = tmp_path / "a", write(tmp_path / "c", make_states(3, 6, 16, 0))
    sf.audit(collection, sf.Budgets(loss=1e-3, gradient=1e-3), out=audit, scope="execution", dtype="float64")
    (path,) = (audit / "results").glob("*")
    change_row(path, 1, {"gradient": lambda row: b"\xff" * 8 + row["gradient"][8:]})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert (1, "gradient") in _places(report)


@pytest.mark.parametrize("more", [False, True], ids=["one too few", "one too many"])
def test_rows_set_aside_that_are_states_and_the_reverse(tmp_path: Path, more: bool) -> None:
    audit, collection = tmp_path / "a", write(tmp_path / "c", make_states(5, 4, 8, 0))
    rewrite_part(collection, change_column("label", set_row(2, 99)))
    sf.audit(collection, BUDGETS, out=audit, skip_bad=True)

    def change(rows: list[dict[str, Any]]) -> None:
        rows[:] = [*rows, {**rows[0], "row": 3}] if more else []

    change_json(audit / "bad" / "part-00000.json", change)
    seal(audit, collection)
    report = verify_audit(audit, collection, sample=1)
    assert [each.file for each in report.findings] == ["bad/part-00000.json"]


def test_a_row_in_a_file_too_many_is_found(copied: tuple[Path, Path]) -> None:
    """Rows beyond those of the collection are in a file that no row belongs in."""
    audit, collection = copied
    first = min((audit / "results").glob("*"))
    other = audit / "results" / "part-00009-000000000.parquet"
    shutil.copy(first, other)
    change_table(other, lambda table: table.slice(0, 1))
    seal(audit, collection)
    report = verify_audit(audit, collection, sample=1)
    assert [each.file for each in report.findings] == [f"results/{other.name}"]


def test_the_code_of_nothing_wrong_is_zero(audited: tuple[Path, Path]) -> None:
    report = verify_audit(*audited, sample=1)
    assert report.findings == []
    assert report.exit_code == 0


def test_the_manifest_does_not_say_how_many_rows_are_drawn(copied: tuple[Path, Path], tmp_path: Path) -> None:
    audit, collection = copied[0], tmp_path / "c"
    shutil.copytree(copied[1], collection)

    def none(record: Any) -> None:
        for name, entry in record["files"].items():
            if name.startswith("queries/"):
                entry["rows"] = 0

    change_json(collection / "manifest.json", none)
    path, row = first_row(audit, lambda _: True)
    change_row(path, row, {"loss_bound": lambda found: 0.9 * found["loss_bound"]})
    seal(audit, collection)
    for report in _both(audit, collection):
        assert report.exit_code == 1
        assert (row, "loss_bound") in _places(report)
        assert any(finding.file == "manifest.json" for finding in report.findings)
