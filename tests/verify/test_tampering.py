"""Whatever is changed in an audit is found: by its digest, and where the digests were made to fit, by what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import suffice as sf
from suffice.verify import Report, verify_audit
from suffice.verify.columns import TIERS
from tests.support.collections import make_states, write
from tests.support.tampering import change_json, change_row, change_table, first_row, seal, seal_collection

BUDGETS = sf.Budgets(loss=1e-4, probability=1e-3, gradient=1e-3)
Row = dict[str, Any]
Change = Callable[[Row], Any]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("audited")
    collection = write(folder / "c", make_states(8, 6, 16, 0), make_states(6, 9, 64, 1, single=False))
    sf.audit(collection, BUDGETS, out=folder / "a")
    return folder / "a", collection


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("executed")
    collection = write(folder / "c", make_states(6, 6, 16, 0), make_states(4, 9, 64, 1, single=False))
    budgets = sf.Budgets(loss=1e-3, gradient=1e-3)
    sf.audit(collection, budgets, out=folder / "a", scope="execution", dtype="float32")
    return folder / "a", collection


@pytest.fixture
def copied(audited: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """An audit and its collection, to be tampered with."""
    shutil.copytree(audited[0], tmp_path / "a")
    shutil.copytree(audited[1], tmp_path / "c")
    return tmp_path / "a", tmp_path / "c"


def _both(audit: Path, collection: Path) -> list[Report]:
    """By a sample that covers every row, and by everything with a sample of one."""
    sampled = verify_audit(audit, collection, sample=100, seed=0)
    return [sampled, verify_audit(audit, collection, sample=1, seed=0, everything=True)]


def _found(report: Report, file: str, row: int | None, column: str) -> bool:
    return any((each.file, each.row, each.column) == (file, row, column) for each in report.findings)


def _times(column: str, factor: float) -> Change:
    return lambda row: row[column] * factor


def _other(column: str, *words: Any) -> Change:
    return lambda row: next(word for word in words if word != row[column])


def _not(column: str) -> Change:
    return lambda row: not row[column]


def _each(columns: tuple[str, ...], factor: float) -> dict[str, Change]:
    return {column: _times(column, factor) for column in columns}


CERTIFIED, VIOLATED = "certified", "violated"
_B = ("b", "b_upper")
# name -> verdict of the row, what is changed, and the column that must be named
CASES: dict[str, tuple[str, dict[str, Change], str]] = {
    "violated made certified": (VIOLATED, {"verdict": lambda _: CERTIFIED}, "verdict"),
    "violated made certified all over": (
        VIOLATED,
        {
            "verdict": lambda _: CERTIFIED,
            "tier": lambda _: "centered",
            "headroom": lambda _: 1.5,
            "certified_2": lambda _: True,
            "cheapest_order": lambda row: min(row["cheapest_order"] or 2, 2),
        },
        "verdict",
    ),
    "violated made certified with bounds that fit": (
        VIOLATED,
        {
            "verdict": lambda _: CERTIFIED,
            "tier": lambda _: "centered",
            "headroom": lambda _: 1.5,
            "certified_2": lambda _: True,
            "cheapest_order": lambda row: min(row["cheapest_order"] or 2, 2),
            "loss_bound": lambda row: min(row["loss_bound"], 0.9e-4),
            "probability_bound": lambda row: min(row["probability_bound"], 0.9e-3),
            "gradient_bound": lambda row: min(row["gradient_bound"], 0.9e-3),
        },
        "gradient_bound",
    ),
    "violated made certified by an enclosure": (
        VIOLATED,
        {
            "verdict": lambda _: CERTIFIED,
            "certified_2": lambda _: True,
            "cheapest_order": lambda row: min(row["cheapest_order"] or 2, 2),
            **{f"{name}_low": lambda _: 0.0 for name in ("loss", "probability", "gradient")},
            "loss_bound": lambda row: min(row["loss_bound"], 0.9e-4),
            "probability_bound": lambda row: min(row["probability_bound"], 0.9e-3),
            "gradient_bound": lambda row: min(row["gradient_bound"], 0.9e-3),
        },
        "loss_bound",
    ),
    "violated made inconclusive": (
        VIOLATED,
        {
            "verdict": lambda _: "inconclusive",
            "tier": lambda _: "none",
            **{f"{name}_low": lambda _: 0.0 for name in ("loss", "probability", "gradient")},
        },
        "gradient_bound",
    ),
    "certified made violated": (
        CERTIFIED,
        {"verdict": lambda _: VIOLATED, "tier": lambda _: "enclosure", "gradient_low": lambda _: 0.5},
        "gradient_low",
    ),
    "a lower end above the error": (
        VIOLATED,
        {
            "gradient_low": lambda row: row["gradient_bound"] * 1.0001,
            "gradient_bound": _times("gradient_bound", 1.0002),
        },
        "gradient_low",
    ),
    "an upper end below the error": (
        VIOLATED,
        {"gradient_low": lambda _: 0.0, "gradient_bound": _times("gradient_bound", 1 - 1e-4)},
        "gradient_bound",
    ),
    "a lower end where a contract decided": (CERTIFIED, {"loss_low": lambda _: 1e-300}, "loss_low"),
    "a prediction that is violated": (CERTIFIED, {"prediction_violated": lambda _: True}, "prediction_violated"),
    "certified made inconclusive": (CERTIFIED, {"verdict": lambda _: "inconclusive"}, "verdict"),
    "an unknown verdict": (CERTIFIED, {"verdict": lambda _: "fine"}, "verdict"),
    **{
        f"{name} bound times {factor}": (CERTIFIED, {f"{name}_bound": _times(f"{name}_bound", factor)}, f"{name}_bound")
        for name in ("loss", "probability", "gradient")
        for factor in (0.5, 2.0, 1 - 1e-8, 1 + 1e-5)
    },
    "a bound that is no number": (CERTIFIED, {"loss_bound": lambda _: float("nan")}, "loss_bound"),
    "an infinite bound": (VIOLATED, {"probability_bound": lambda _: float("inf")}, "probability_bound"),
    "headroom times 100": (CERTIFIED, {"headroom": _times("headroom", 100)}, "headroom"),
    "headroom over 100": (CERTIFIED, {"headroom": _times("headroom", 0.01)}, "headroom"),
    "headroom times 100, violated": (VIOLATED, {"headroom": _times("headroom", 100)}, "headroom"),
    "headroom over 100, violated": (VIOLATED, {"headroom": _times("headroom", 0.01)}, "headroom"),
    "headroom times 1.0001": (CERTIFIED, {"headroom": _times("headroom", 1.0001)}, "headroom"),
    "infinite headroom": (CERTIFIED, {"headroom": lambda _: float("inf")}, "headroom"),
    "status unbounded": (CERTIFIED, {"status": lambda _: "unbounded"}, "status"),
    "unbounded all over": (
        CERTIFIED,
        {"status": lambda _: "unbounded", "b_upper": lambda _: float("inf"), "binding": lambda _: "none"},
        "b",
    ),
    "zero all over": (
        CERTIFIED,
        {"status": lambda _: "zero", "b_upper": lambda _: 0.0, "b": lambda _: 0.0},
        "b_upper",
    ),
    "b times 1.01": (CERTIFIED, {"b": _times("b", 1.01)}, "b"),
    "b times 0.99": (CERTIFIED, {"b": _times("b", 0.99)}, "b_upper"),
    "b_upper times 1.01": (CERTIFIED, {"b_upper": _times("b_upper", 1.01)}, "b_upper"),
    "b_upper times 0.99": (CERTIFIED, {"b_upper": _times("b_upper", 0.99)}, "b_upper"),
    "b and b_upper times 1.01": (CERTIFIED, _each(_B, 1.01), "b"),
    "b and b_upper times 0.99": (CERTIFIED, _each(_B, 0.99), "b_upper"),
    "b and b_upper times 1 + 1e-8": (CERTIFIED, _each(_B, 1 + 1e-8), "b"),
    "b and b_upper times 1 - 1e-8": (CERTIFIED, _each(_B, 1 - 1e-8), "b_upper"),
    "prediction": (CERTIFIED, {"prediction_certified": _not("prediction_certified")}, "prediction_certified"),
    "tier made geometry": (
        CERTIFIED,
        {"tier": _other("tier", "geometry", "centered")},
        "tier",
    ),
    "tier made none": (CERTIFIED, {"tier": lambda _: "none"}, "tier"),
    "a contract where an enclosure decided": (VIOLATED, {"tier": lambda _: "centered"}, "tier"),
    "an enclosure of executed numbers": (VIOLATED, {"tier": lambda _: "enclosure of this output"}, "tier"),
    "binding": (CERTIFIED, {"binding": _other("binding", "loss", "probability")}, "binding"),
    "binding of no budget": (CERTIFIED, {"binding": lambda _: "prediction"}, "binding"),
    "cheapest order": (CERTIFIED, {"cheapest_order": lambda row: row["cheapest_order"] % 6 + 1}, "cheapest_order"),
    **{
        f"certified_{order}": (VIOLATED, {f"certified_{order}": _not(f"certified_{order}")}, f"certified_{order}")
        for order in (1, 2, 3, 6)
    },
    **{
        f"headroom_{order} times {factor}": (
            CERTIFIED,
            {f"headroom_{order}": _times(f"headroom_{order}", factor)},
            f"headroom_{order}",
        )
        for order, factor in ((1, 0.01), (2, 1.0001), (4, 0.9999), (6, 100))
    },
    "b_first_order": (CERTIFIED, {"b_first_order": _times("b_first_order", 1 + 1e-6)}, "b_first_order"),
    "b_conditioned times 1.01": (CERTIFIED, {"b_conditioned": _times("b_conditioned", 1.01)}, "b_conditioned"),
    "b_conditioned times 0.99": (CERTIFIED, {"b_conditioned": _times("b_conditioned", 0.99)}, "b_conditioned"),
    "target_probability": (
        CERTIFIED,
        {"target_probability": _times("target_probability", 1 - 1e-6)},
        "target_probability",
    ),
    "label": (CERTIFIED, {"label": lambda row: (row["label"] + 1) % row["classes"]}, "label"),
    "temperature": (CERTIFIED, {"temperature": _times("temperature", 1 + 1e-12)}, "temperature"),
    "id": (CERTIFIED, {"id": lambda row: row["id"] + "x"}, "id"),
    "step": (CERTIFIED, {"step": lambda row: row["step"] + 1}, "step"),
    "source": (CERTIFIED, {"source": lambda _: "another"}, "source"),
    "bank": (CERTIFIED, {"bank": lambda row: row["bank"][::-1]}, "bank"),
    "dim": (CERTIFIED, {"dim": lambda row: row["dim"] + 2}, "dim"),
    "classes": (CERTIFIED, {"classes": lambda row: row["classes"] + 1}, "classes"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_changed_row_is_named(copied: tuple[Path, Path], case: str) -> None:
    audit, collection = copied
    verdict, changes, column = CASES[case]
    # certified by a contract, or violated by an enclosure
    by_contract = verdict == CERTIFIED
    path, row = first_row(audit, lambda found: found["verdict"] == verdict and (found["tier"] in TIERS) == by_contract)
    change_row(path, row, changes)
    stale = verify_audit(audit, collection, sample=1, everything=True)
    assert stale.exit_code == 3
    assert _found(stale, f"results/{path.name}", None, "sha256")
    seal(audit, collection)
    for report in _both(audit, collection):
        assert report.exit_code == 1
        assert _found(report, f"results/{path.name}", row, column), [each.line for each in report.findings]
        assert all("\n" not in each.line for each in report.findings)


def test_an_honest_audit_that_is_sealed_again_is_still_honest(copied: tuple[Path, Path]) -> None:
    seal(*copied)
    for report in _both(*copied):
        assert report.findings == []
        assert report.checked == report.states == 14


def _tied(seed: int) -> sf.States:
    """States of a bank that has every class twice: whatever is predicted, another class has the same score."""
    states = make_states(6, 4, 16, seed)
    bank = states.bank
    twice = sf.ClassBank(bank.directions.repeat(2, 1), bank.concentrations.repeat(2), bank.biases.repeat(2))
    return sf.States(twice, states.features, states.labels, states.temperature)


def test_every_prediction_made_certified(tmp_path: Path) -> None:
    """Also where the plan asks for none."""
    audit, collection = tmp_path / "a", write(tmp_path / "c", make_states(8, 6, 16, 0), _tied(1))
    sf.audit(collection, BUDGETS, out=audit)
    said = 0
    for path in (audit / "results").glob("*.parquet"):
        column = pq.read_table(path).column("prediction_certified").to_pylist()
        said += len(column) - sum(column)
        change_table(
            path,
            lambda table: table.set_column(
                table.schema.get_field_index("prediction_certified"),
                "prediction_certified",
                pa.array([True] * len(table)),
            ),
        )
    # or there would be nothing to find
    assert said == 6
    seal(audit, collection)
    for report in _both(audit, collection):
        assert sum(each.column == "prediction_certified" for each in report.findings) == said


def _move(audit: Path) -> None:
    first, second = sorted((audit / "results").glob("*.parquet"))[:2]
    rows = pq.read_table(first)
    change_table(second, lambda table: pa.concat_tables([table, rows.slice(0, 1)]))
    change_table(first, lambda table: table.slice(1))


ROWS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "swapped": (
        lambda audit: change_table(_first(audit), lambda table: table.take([1, 0, *range(2, len(table))])),
        "out of place",
    ),
    "dropped": (lambda audit: change_table(_first(audit), lambda table: table.slice(1)), "missing"),
    "last one dropped": (
        lambda audit: change_table(_first(audit), lambda table: table.slice(0, len(table) - 1)),
        "missing",
    ),
    "doubled": (
        lambda audit: change_table(_first(audit), lambda table: pa.concat_tables([table, table.slice(2, 1)])),
        "doubled",
    ),
    "moved to another file": (_move, "misplaced"),
    "a whole file": (lambda audit: _first(audit).unlink(), "missing"),
    "a file under another name": (
        lambda audit: _first(audit).rename(audit / "results" / "part-00007-000000000.parquet"),
        "missing",
    ),
    "one that does not exist": (
        lambda audit: change_row(_first(audit), 3, {"row": lambda _: 99}),
        "misplaced",
    ),
}


def _first(audit: Path) -> Path:
    return min((audit / "results").glob("*.parquet"))


@pytest.mark.parametrize("case", ROWS)
def test_rows_out_of_place_are_named(copied: tuple[Path, Path], case: str) -> None:
    audit, collection = copied
    change, words = ROWS[case]
    change(audit)
    assert verify_audit(audit, collection, sample=1).exit_code == 3
    seal(audit, collection)
    for report in (verify_audit(audit, collection, sample=1), *_both(audit, collection)):
        assert report.exit_code == 1
        assert any(each.words == words and each.column == "row" for each in report.findings)


PLANS: dict[str, tuple[Callable[[Any], None], set[str]]] = {
    "budget loosened": (lambda record: record["plan"].update(gradient=1.0), {"headroom", "b_upper"}),
    "budget tightened": (lambda record: record["plan"].update(gradient=1e-9), {"verdict", "headroom", "b"}),
    "budget loosened a little": (lambda record: record["plan"].update(gradient=1.0001e-3), {"b_upper", "headroom"}),
    "budget left out": (lambda record: record["plan"].update(gradient=None), {"b_upper"}),
    "another contract": (lambda record: record["plan"].update(contract="geometry"), {"loss_bound"}),
    "another order": (lambda record: record["plan"].update(order=3), {"loss_bound", "gradient_bound"}),
    "a prediction asked for": (lambda record: record["plan"].update(prediction=True, gradient=None), {"b_upper"}),
}


@pytest.mark.parametrize("case", PLANS)
def test_another_plan_is_found(copied: tuple[Path, Path], case: str) -> None:
    audit, collection = copied
    change, columns = PLANS[case]
    change_json(audit / "audit.json", change)
    assert verify_audit(audit, collection, sample=1).exit_code == 3
    seal(audit, collection)
    for report in _both(audit, collection):
        assert report.exit_code == 1
        assert columns <= {each.column for each in report.findings}


def test_a_plan_without_its_fingerprint_is_altered(copied: tuple[Path, Path]) -> None:
    audit, collection = copied
    fingerprint = json.loads((audit / "audit.json").read_text())["fingerprint"]
    change_json(audit / "audit.json", lambda record: record["plan"].update(gradient=1.0))
    seal(audit, collection)
    change_json(audit / "audit.json", lambda record: record.update(fingerprint=fingerprint))
    report = verify_audit(audit, collection)
    assert report.exit_code == 3
    assert report.findings[0].column == "fingerprint"


def test_another_feature_is_found(copied: tuple[Path, Path]) -> None:
    audit, collection = copied
    name = "queries/part-00000.parquet"
    table = pq.read_table(collection / name)
    raw = bytearray(table.column("feature")[2].as_py())
    content = (collection / name).read_bytes()
    where = content.index(bytes(raw)) + 2
    (collection / name).write_bytes(content[:where] + bytes([content[where] ^ 0x40]) + content[where + 1 :])
    for sample in (1, 100):
        report = verify_audit(audit, collection, sample=sample)
        assert report.exit_code == 3
        assert _found(report, name, None, "sha256")
    seal_collection(collection, name)
    seal(audit, collection)
    for report in _both(audit, collection):
        assert report.exit_code == 1
        assert {each.row for each in report.findings if each.file.startswith("results/part-00000")} == {2}


@pytest.mark.parametrize("name", ["manifest.json", "bank"])
def test_another_byte_of_manifest_or_bank_is_found(copied: tuple[Path, Path], name: str) -> None:
    audit, collection = copied
    path = collection / name if name != "bank" else min((collection / "banks").glob("*"))
    content = bytearray(path.read_bytes())
    place = content.index(b"made by") if name != "bank" else len(content) - 5
    content[place] ^= 1
    path.write_bytes(bytes(content))
    report = verify_audit(audit, collection, sample=1)
    assert report.exit_code == 3
    assert path.name in report.findings[0].file


SUMMARIES: dict[str, Callable[[Any], None]] = {
    "certified": lambda record: record["summary"].update(certified=14),
    "inconclusive": lambda record: record["summary"].update(inconclusive=1),
    "violated": lambda record: record["summary"].update(violated=0),
    "states": lambda record: record["summary"].update(states=15),
    "tiers, geometry": lambda record: record["summary"]["tiers"].update(geometry=99),
    "open_by_order, 2": lambda record: record["summary"]["open_by_order"].update({"2": 0}),
    "cheapest_order_for_all": lambda record: record["summary"].update(cheapest_order_for_all=1),
    "b, median": lambda record: record["summary"]["b"].update(median=1.0),
    "groups 0, certified": lambda record: record["summary"]["groups"][0].update(certified=99),
    "question": lambda record: record.update(question="is all well?"),
    "summary": lambda record: record.update(summary=None),
}


@pytest.mark.parametrize("column", SUMMARIES)
def test_another_summary_is_found(copied: tuple[Path, Path], column: str) -> None:
    audit, collection = copied
    change_json(audit / "summary.json", SUMMARIES[column])
    assert verify_audit(audit, collection, sample=1).exit_code == 3
    if column == "question":
        # a header that fits is restored by the seal
        return
    seal(audit, collection)
    report = verify_audit(audit, collection, sample=1)
    assert report.exit_code == 1
    assert _found(report, "summary.json", None, column)


EXECUTED: dict[str, tuple[dict[str, Change], str]] = {
    "another loss": ({"loss": lambda row: row["loss"] + 2 * row["loss_bound"]}, "loss"),
    "another gradient": ({"gradient": lambda row: row["gradient"][8:] + row["gradient"][:8]}, "gradient"),
    "a gradient of another length": ({"gradient": lambda row: row["gradient"][8:]}, "gradient"),
    "a smaller loss bound": ({"loss_bound": _times("loss_bound", 1e-6)}, "loss_bound"),
    "a smaller gradient bound": ({"gradient_bound": _times("gradient_bound", 1e-6)}, "gradient_bound"),
    "a verdict": ({"verdict": _other("verdict", "certified", "violated")}, "verdict"),
    "an open verdict": ({"verdict": lambda _: "inconclusive"}, "verdict"),
    "headroom": ({"headroom": _times("headroom", 1e4)}, "headroom"),
    "headroom_4": ({"headroom_4": lambda _: 1e12}, "headroom_4"),
    "certified_1": ({"certified_1": lambda _: True}, "certified_1"),
    "b": (_each(_B, 1e3), "b"),
    "b_upper": ({"b_upper": _times("b_upper", 1.01)}, "b_upper"),
    "status": ({"status": lambda _: "unbounded"}, "status"),
    "what left the model": ({"execution_status": lambda _: "scores"}, "loss_bound"),
    "b_conditioned": ({"b_conditioned": _times("b_conditioned", 0.999)}, "b_conditioned"),
    "b_first_order": ({"b_first_order": _times("b_first_order", 0.999)}, "b_first_order"),
    "target_probability": ({"target_probability": _times("target_probability", 0.999)}, "target_probability"),
    "a rung": ({"loss_bound debye2/float64": lambda _: 1e-12}, "loss_bound debye2/float64"),
    "its own rung": (
        {"gradient_bound debye2/float32": lambda row: 2 * row["gradient_bound"]},
        "gradient_bound debye2/float32",
    ),
    "cheapest": ({"cheapest_order": lambda row: (row["cheapest_order"] + 1) % 7}, "cheapest_order"),
}


@pytest.mark.parametrize("case", EXECUTED)
def test_a_changed_row_of_executed_numbers_is_named(executed: tuple[Path, Path], tmp_path: Path, case: str) -> None:
    audit, collection = tmp_path / "a", executed[1]
    shutil.copytree(executed[0], audit)
    changes, column = EXECUTED[case]
    path, row = first_row(audit, lambda found: not found["certified_1"])
    change_row(path, row, changes)
    assert verify_audit(audit, collection, sample=1).exit_code == 3
    seal(audit, collection)
    for report in _both(audit, collection):
        assert report.exit_code == 1
        assert _found(report, f"results/{path.name}", row, column), [each.line for each in report.findings]
