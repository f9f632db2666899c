"""Formats made anew by the checker: the library's own numbers, no finding in honest audits, tampered verdicts found."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.numerics.nearest import nearest
from suffice.realizations.quantized_rows import quantize
from suffice.verify import verify_audit
from suffice.verify.cross import FORMATS
from suffice.verify.formats import quantised, rounded
from tests.support.head_audits import made
from tests.support.moved_heads import adversarial_states, gaussian_states
from tests.support.tampering import change_row, seal

RESULTS = "results/part-00000-000000000.parquet"
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "e4m3": torch.float8_e4m3fn,
}
BUDGETS = {
    "token": sf.Budgets(prediction=True),
    "loss": sf.Budgets(loss=1e-2),
    "all": sf.Budgets(loss=0.1, probability=0.05, gradient=0.3, kl=1e-2, prediction=True),
}


@pytest.mark.parametrize("name", DTYPES)
def test_rounded_as_the_library_does(name: str) -> None:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(20_000, generator=g, dtype=torch.float64)
    x = torch.cat([x * 10.0 ** torch.randint(-50, 45, (20_000,), generator=g), torch.arange(-600.0, 600.0).double()])
    assert (torch.from_numpy(rounded(x.numpy(), name)) == nearest(x, DTYPES[name])).all()


@pytest.mark.parametrize(
    ("scheme", "largest", "group"), [("int8", 127.0, None), ("int4", 7.0, 32), ("fp8", 448.0, None)]
)
def test_quantised_as_the_library_does(scheme: str, largest: float, group: int | None) -> None:
    g = torch.Generator().manual_seed(2)
    rows = torch.randn(300, 75, generator=g, dtype=torch.float64) * 10 ** (4 * torch.rand(300, 1, generator=g) - 2)
    rows[7] = 0
    for weight in (rows, rows.float(), rows.bfloat16()):
        theirs = quantize(sf.LinearHead(weight), scheme, group).rows(slice(None))
        ours = quantised(weight.double().numpy(), largest, group, scheme == "fp8")
        assert (torch.from_numpy(ours) == theirs).all()


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", range(4))
def test_honest_audits_have_no_findings(tmp_path: Path, budget: str, seed: int) -> None:
    states = gaussian_states(seed, count=12, classes=40, dim=48)
    audit, collection = made(tmp_path, states, BUDGETS[budget])
    report = verify_audit(audit, collection, sample=0, seed=0, everything=True)
    assert [each for each in report.findings if each.column.startswith("verdict ")] == []


@pytest.mark.parametrize("name", adversarial_states())
def test_adversarial_audits_are_honest(tmp_path: Path, name: str) -> None:
    audit, collection = made(tmp_path, adversarial_states()[name], BUDGETS["all"])
    report = verify_audit(audit, collection, sample=0, seed=0, everything=True)
    assert [each for each in report.findings if each.column.startswith("verdict ")] == []


@pytest.mark.parametrize("budget", ["token", "loss"])
def test_every_other_verdict_is_found(tmp_path: Path, budget: str) -> None:
    """Certified for violated and the other way round, with a summary that fits: row and column are named."""
    states = gaussian_states(5, count=16, classes=40, dim=48)
    audit, collection = made(tmp_path, states, BUDGETS[budget])
    said = pq.read_table(audit / RESULTS).to_pylist()
    other = {"certified": "violated", "violated": "certified"}
    wanted = set()
    for i, row in enumerate(said):
        changes = {f"verdict {name}": row[f"verdict {name}"] for name in FORMATS}
        changes = {column: other[word] for column, word in changes.items() if word in other}
        wanted |= {(i, column) for column in changes}
        change_row(audit / RESULTS, i, {column: lambda _, word=word: word for column, word in changes.items()})
    assert len(wanted) > 60
    seal(audit, collection)
    for sample, everything in ((16, False), (0, True)):
        report = verify_audit(audit, collection, sample=sample, seed=0, everything=everything)
        assert {(each.row, each.column) for each in report.findings} >= wanted


def test_open_states_made_certified_are_found(tmp_path: Path) -> None:
    """Most of them: for some order of a float32 sum the loss is over its budget, also where it is not for the exact."""
    states = gaussian_states(7, count=16, classes=40, dim=48)
    audit, collection = made(tmp_path, states, sf.Budgets(loss=1e-3))
    said = pq.read_table(audit / RESULTS).to_pylist()
    opened = {(i, f"verdict {name}") for i, row in enumerate(said) for name in FORMATS}
    opened = {(i, column) for i, column in opened if said[i][column] == "inconclusive"}
    for i, column in opened:
        change_row(audit / RESULTS, i, {column: lambda _: "certified"})
    seal(audit, collection)
    report = verify_audit(audit, collection, sample=16, seed=0)
    found = {(each.row, each.column) for each in report.findings} & opened
    assert len(found) >= 0.8 * len(opened) > 16


def test_what_overflows_is_never_certified(tmp_path: Path) -> None:
    given = gaussian_states(5, count=4, classes=40, dim=48)
    hidden = given.hidden / given.hidden.norm(dim=1, keepdim=True)
    head = sf.LinearHead(1e4 * given.bank.weight / given.bank.weight.norm(dim=1).mean())
    audit, collection = made(tmp_path, sf.HeadStates(head, 60 * hidden, given.labels, 1e5), BUDGETS["token"])
    said = pq.read_table(audit / RESULTS).to_pylist()
    lost = [i for i, row in enumerate(said) if row["verdict float16"] != "certified"]
    assert lost
    change_row(audit / RESULTS, lost[0], {"verdict float16": lambda _: "certified"})
    seal(audit, collection)
    report = verify_audit(audit, collection, sample=4, seed=0)
    assert [each.found for each in report.findings if each.column == "verdict float16"] == ["what overflows"]
