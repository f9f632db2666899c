"""Formats of a head: verdicts of what is really executed, range and underflow included, in every part of an audit."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

import suffice as sf
from suffice.audits.formats import HEAD_FORMATS, format_columns
from suffice.audits.ledger import read_results
from suffice.audits.plan import Plan
from suffice.audits.rows import audit_states
from suffice.realizations.quantized_rows import quantize
from suffice.reports.terminal import print_audit
from suffice.verify import verify_audit
from tests.support.collections import make_states
from tests.support.moved_heads import gaussian_states

NAMES = ("int4", "fp8", "int8", "bfloat16", "float16", "float32")
BUDGETS = {"loss": 1e-2, "probability": 1e-2, "gradient": 1e-1, "kl": 1e-3, "prediction": True}


def _columns(states: sf.HeadStates, **budgets: object) -> dict[str, list[str]]:
    found = format_columns(sf.ExactHead().at(states), Plan(given=sf.ExactHead(), **budgets))  # type: ignore[arg-type]
    return {name.removeprefix("verdict "): column.tolist() for name, column in found.items()}


def _write(folder: Path, states: sf.HeadStates) -> Path:
    with sf.CollectionWriter(folder, "made by a test") as writer:
        writer.add(states, source="test", dataset="gaussian", run="a", step=0)
    return folder


def test_every_format_says_what_it_is() -> None:
    assert tuple(row.name for row in HEAD_FORMATS) == NAMES
    words = {row.name: row.words for row in HEAD_FORMATS}
    assert words["int4"].startswith("int4 by groups of 32, a product of float32 inputs")
    assert words["bfloat16"].endswith("added up in float32 in any order, logits in bfloat16")
    assert words["float32"] == sf.ProductIn(torch.float32).words


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_verdicts_are_those_of_an_audit_of_the_format(seed: int) -> None:
    states = gaussian_states(seed, count=12)
    found = _columns(states, **BUDGETS)
    for row in HEAD_FORMATS:
        asked = audit_states(states, Plan(given=row.realization, **BUDGETS))  # type: ignore[arg-type]
        assert found[row.name] == asked["verdict"].tolist(), row.name
    assert set(found["float32"]) == {"certified"}
    assert {"certified", "violated"} <= {word for column in found.values() for word in column}


def _executed(states: sf.HeadStates, name: str, order: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of a head that runs in the format, its sums in some order."""
    head = states.bank
    dtype = getattr(torch, name, torch.float32) if name.endswith(("16", "32")) else torch.float32
    rows = head.weight.double()
    if name in ("int4", "fp8", "int8"):
        rows = quantize(head, name, 32 if name == "int4" else None).rows(slice(None))
    terms = states.hidden.to(dtype).float()[:, None, order] * rows.to(dtype).float()[None, :, order]
    z = torch.zeros(len(states), head.num_classes)
    for i in range(len(order)):
        z = z + terms[:, :, i]
    z = (z + head.bias.float()).to(dtype).double()
    return torch.log_softmax(z / states.temperature[:, None], dim=1)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_executed_keeps_what_is_certified(seed: int) -> None:
    """In any order of summation; and what is violated breaks a budget in every one."""
    states = gaussian_states(seed, count=20, dim=40)
    # biases in few bits, which no format rounds
    head = sf.LinearHead(states.bank.weight, states.bank.bias.bfloat16().double())
    states = sf.HeadStates(head, states.hidden, states.labels, states.temperature)
    budgets = {"probability": 1e-2, "kl": 1e-3, "prediction": True}
    found = _columns(states, **budgets)
    g = torch.Generator().manual_seed(seed)
    for name, verdict in found.items():
        for _ in range(2):
            made = _executed(states, name, torch.randperm(40, generator=g))
            ours = {"log_probabilities": made, "prediction": made.argmax(dim=1)}
            judged = sf.judge(states, sf.Budgets(**budgets), **ours).verdict  # type: ignore[arg-type]
            pairs = set(zip(verdict, judged.tolist(), strict=True))
            assert ("certified", "violated") not in pairs, name
            assert ("violated", "certified") not in pairs, name


def test_range_and_underflow_count() -> None:
    """Budgets that any relative error of 2^-11 keeps: float16 loses what it cannot hold, bfloat16 does not."""
    generous = 0.5
    weight, hidden = torch.eye(4, dtype=torch.float64), torch.tensor([[1.0, 3.0, 2.0, 0.0]], dtype=torch.float64)
    small = sf.HeadStates(sf.LinearHead(weight * 2.0**-40), hidden * 2.0**13, temperature=2.0**-27)
    large = sf.HeadStates(sf.LinearHead(weight * 2.0**10), hidden * 2.0**10, temperature=2.0**20)
    for states in (small, large):
        b = sf.tolerance(states, sf.Budgets(probability=generous), family="relative").b
        assert b.item() > 2.0**-8
        found = _columns(states, probability=generous)
        assert found["bfloat16"] == found["float32"] == found["int8"] == ["certified"]
        assert found["float16"] != ["certified"]


def test_heads_of_every_size_are_answered() -> None:
    g = torch.Generator().manual_seed(0)
    for classes, dim, size in ((2, 1, 1.0), (2, 3, 1e-300), (5, 40, 1e300), (3, 2, 1e30), (4, 8, 0.0)):
        weight = size * torch.randn(classes, dim, generator=g, dtype=torch.float64)
        hidden = torch.randn(3, dim, generator=g, dtype=torch.float64)
        hidden[0] = 0.0
        found = _columns(sf.HeadStates(sf.LinearHead(weight), hidden), probability=1e-3, prediction=True)
        assert {len(column) for column in found.values()} == {3}
        if size == 1e300:
            assert all("certified" not in found[name][1:] for name in ("float32", "float16", "bfloat16"))


def test_only_heads_have_formats(tmp_path: Path) -> None:
    assert not any(name.startswith("verdict ") for name in audit_states(make_states(4, 6, 16, 0), Plan(loss=1e-4)))
    states = gaussian_states(1, count=5)
    columns = audit_states(states.taken_in("weights"), Plan(given=sf.ExactHead("weights"), gradient=1e-1))
    assert [f"verdict {name}" in columns for name in NAMES] == [True] * 6
    bare = sf.HeadStates(states.bank, states.hidden)
    result = sf.audit(_write(tmp_path / "c", bare), sf.Budgets(prediction=True), out=tmp_path / "a")
    assert list(result.summary.formats) == list(NAMES)


def test_summary_terminal_page_and_verify(tmp_path: Path) -> None:
    states = gaussian_states(1, count=30)
    collection = _write(tmp_path / "c", states)
    result = sf.audit(collection, sf.Budgets(loss=1e-3, prediction=True), out=tmp_path / "a")
    (columns,) = read_results(tmp_path / "a")
    counted = result.summary.formats
    for name in NAMES:
        for word, number in counted[name].items():
            assert number == int((columns[f"verdict {name}"] == word).sum())
    shares = {name: counted[name]["certified"] / 30 for name in NAMES}
    assert shares["int4"] < shares["bfloat16"] < shares["float32"] == 1
    sink = io.StringIO()
    print_audit(result, Console(file=sink, width=200, color_system=None))
    assert f"certified by format of the head: int4 {shares['int4']:.1%}, fp8 {shares['fp8']:.1%}" in sink.getvalue()
    page = result.page.read_text()
    for row in HEAD_FORMATS:
        cells = [row.name, counted[row.name]["certified"], f"{shares[row.name]:.1%}", counted[row.name]["violated"]]
        assert "".join(f"<td>{cell}</td>" for cell in cells) in page
        assert row.words in page
    report = verify_audit(tmp_path / "a", collection)
    assert report.findings == []
