"""What a person at a terminal reads: the summary's numbers, every finding in a line, brackets as they are."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import suffice as sf
from suffice.reports.console import PlainConsole
from suffice.reports.terminal import RateColumn, print_audit, print_verification
from suffice.verify import Finding, Report, UnreadableError
from suffice.verify.report import Tally
from tests.support.collections import make_states, write


def _console() -> tuple[Console, io.StringIO]:
    sink = io.StringIO()
    return Console(file=sink, width=110, color_system=None), sink


@pytest.mark.parametrize("scope", ["analytic", "execution"])
def test_an_audit(tmp_path: Path, scope: str) -> None:
    collection = write(tmp_path / "c", make_states(8, 6, 16), make_states(5, 6, 64, 1))
    audit = sf.audit(collection, sf.Budgets(loss=1e-4, gradient=1e-3), out=tmp_path / "a", scope=scope)
    console, sink = _console()
    print_audit(audit, console)
    text, summary = sink.getvalue(), audit.summary
    assert f"{summary.certified} of 13 states certified ({summary.certified / 13:.1%})" in text
    assert f"{summary.inconclusive} inconclusive" in text
    assert f"{summary.b.median:.2e}" in text
    for name, number in (*summary.binding.items(), *summary.tiers.items()):
        assert f"{name} {number}" in text
    assert all(f"debye{order} {number}" in text for order, number in summary.open_by_order.items())
    assert ("cheapest certified rung" in text) == (scope == "execution")


def _report(findings: list[Finding]) -> Report:
    return Report(
        states=1234,
        checked=1000,
        in_arb=200,
        settled={"certified, and so it is": 7},
        conservative={"loss": (1.25, 2.5, 30.0, 400.0)},
        columns={"b": {"Arb": 3, "cross-check": 9}, "headroom": {"Arb": 3, "cross-check": 9}, "id": {"collection": 9}},
        findings=findings,
    )


def test_a_verification() -> None:
    finding = Finding(file="results/x.parquet", column="b", said="[bold]1[/bold]", found="2", row=3, id="a:0:3")
    console, sink = _console()
    print_verification(_report([finding]), console)
    text = sink.getvalue()
    assert "1,000 of 1,234 states recomputed from the collection alone, 200 of them in Arb: 1 findings" in text
    assert "certified, and so it is: 7" in text
    assert finding.line in text
    # columns that were checked alike share a line
    assert "b, headroom" in text
    assert all(number in text for number in ("1.25", "2.5", "400"))


def test_many_findings_are_cut_and_said_to_be() -> None:
    finding = Finding(file="f", column="c", said="1", found="2")
    console, sink = _console()
    print_verification(_report([finding] * 250), console)
    assert sink.getvalue().count(finding.line) == 200
    assert "and 50 more: --json has all of them" in sink.getvalue()


def test_what_cannot_be_read() -> None:
    console, sink = _console()
    print_verification(Report.unreadable(UnreadableError("audit.json", "content", "?", "not JSON")), console)
    assert "audit.json, content: said ?, found not JSON" in sink.getvalue()


@pytest.mark.parametrize(("speed", "shown"), [(None, ""), (12_345.6, "12,346 states/s")])
def test_no_rate_before_there_is_one(speed: float | None, shown: str) -> None:
    assert RateColumn().render(SimpleNamespace(speed=speed)).plain == shown  # type: ignore[arg-type]


def test_findings_are_shown_and_never_obeyed() -> None:
    sink = io.StringIO()
    tally = Tally(states=1, findings=[Finding(file="a", column="id", said="[/red]\x1b[2J", found="y")])
    print_verification(tally.report(), PlainConsole(width=90, file=sink))
    assert "a, id: said [/red]\\x1b[2J, found y" in sink.getvalue()
    assert "\x1b" not in sink.getvalue()
