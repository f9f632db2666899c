"""An audit's summary for a person at a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from suffice.audits.run import Audit
from suffice.audits.summary import AuditSummary, Spread
from suffice.reports.console import PlainConsole
from suffice.reports.printable import one_line
from suffice.store.remote import shown
from suffice.verify.report import METHODS, Report
from suffice.words import Verdict

__all__ = ["RateColumn", "in_notebook", "print_audit", "print_verification", "progress_bar"]


class RateColumn(ProgressColumn):
    """States per second."""

    def render(self, task: Task) -> Text:
        """Nothing until there is a rate."""
        return Text("" if task.speed is None else f"{task.speed:,.0f} states/s")


def progress_bar() -> Progress:
    """A bar on stderr with rate and time left."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=PlainConsole(stderr=True),
    )


def in_notebook() -> bool:
    """Whether output goes to a notebook."""
    return PlainConsole(stderr=True).is_jupyter


def _numbers(spread: Spread) -> list[str]:
    if not spread.count:
        return ["-"] * 4
    return [f"{spread.q05:.2e}", f"{spread.median:.2e}", f"{spread.q95:.2e}", f"{spread.span:.2f}"]


def print_audit(audit: Audit, console: Console) -> None:
    """States, verdicts, tolerances, what binds, which order suffices; and what is covered."""
    summary = audit.summary
    share = summary.certified / summary.states if summary.states else 0.0
    console.print(f"{audit.plan.words()}", highlight=False)
    console.print(
        f"{summary.certified:,} of {summary.states:,} states certified ({share:.1%}), "
        f"{summary.violated:,} violated, {summary.inconclusive:,} inconclusive"
        + (f"; {summary.bad_rows:,} bad rows set aside" if summary.bad_rows else "")
        + f", in {audit.seconds:.1f} s",
        highlight=False,
    )
    console.print(audit.plan.covered, highlight=False)
    table = Table()
    for heading in ("states", "number", "certified", "b* 5%", "median", "95%", "orders of magnitude"):
        table.add_column(heading, justify="left" if heading == "states" else "right")
    table.add_row("all", f"{summary.states:,}", f"{summary.certified:,}", *_numbers(summary.b))
    for group in summary.groups:
        name = f"p = {group.dim}, tau = {group.temperature:g}"
        table.add_row(name, f"{group.states:,}", f"{group.certified:,}", *_numbers(group.b))
    console.print(table)
    if summary.headroom.count:
        spread = summary.headroom
        console.print(
            f"headroom by contract: 5% {spread.q05:.3g}, median {spread.median:.3g}, 95% {spread.q95:.3g}",
            highlight=False,
        )
    for name, counts in (("binding", summary.binding), ("decided by", summary.tiers)):
        console.print(f"{name}: " + ", ".join(f"{word} {n:,}" for word, n in counts.items()), highlight=False)
    if summary.open_by_order:
        _print_orders(summary, console)
    if summary.rungs:
        console.print(_rungs(summary.rungs))
    if summary.formats:
        console.print(_formats(summary), highlight=False)
    console.print(f"results in {shown(audit.path)}", highlight=False)


def _print_orders(summary: AuditSummary, console: Console) -> None:
    """What each order of the ladder leaves open, and which suffices."""
    opened = ", ".join(f"debye{order} {n:,}" for order, n in summary.open_by_order.items())
    console.print(f"not certified by order: {opened}", highlight=False)
    cheapest = summary.cheapest_order_for_all
    console.print(
        "no order certifies every state" if cheapest is None else f"debye{cheapest} is the cheapest that certifies all",
        highlight=False,
    )


def _rungs(rungs: dict[str, dict[str, int]]) -> Table:
    """How states spread over the precision ladder, by joint budget."""
    table = Table(title="states by the cheapest certified rung, for joint loss and gradient budgets")
    names = list(next(iter(rungs.values())))
    table.add_column("budget")
    for name in names:
        # an order, and the dtypes below it
        table.add_column(name.replace("/", "\n"), justify="right")
    for budget, counts in rungs.items():
        table.add_row(budget, *(f"{counts[name]:,}" for name in names))
    return table


def _formats(summary: AuditSummary) -> str:
    """The share of states for which a head is certified in each format, for the audit's budgets."""
    shares = (f"{name} {counts[Verdict.CERTIFIED] / summary.states:.1%}" for name, counts in summary.formats.items())
    return f"certified by format of the head: {', '.join(shares)}"


# findings that a terminal shows; --json has all of them
_SHOWN = 200


def print_verification(report: Report, console: Console) -> None:
    """What the independent check found: rows recomputed, column by column, and one line for all that is wrong."""
    # of an audit that cannot be read there is nothing to count
    if report.states or not report.findings:
        console.print(
            f"{report.checked:,} of {report.states:,} states recomputed from the collection alone, "
            f"{report.in_arb:,} of them in Arb: {len(report.findings):,} findings",
            highlight=False,
        )
    for words, count in report.settled.items():
        console.print(f"  {words}: {count:,}", highlight=False)
    if report.conservative:
        table = Table(title="bound over true error")
        for heading in ("quantity", "smallest", "median", "95%", "largest"):
            table.add_column(heading, justify="left" if heading == "quantity" else "right")
        for name, numbers in report.conservative.items():
            table.add_row(name, *(f"{number:.3g}" for number in numbers))
        console.print(table)
    if report.columns:
        console.print(_columns(report))
    for finding in report.findings[:_SHOWN]:
        # as it is: a bracket is no markup, and a line is not folded
        console.print(one_line(finding.line), highlight=False, markup=False, soft_wrap=True)
    if len(report.findings) > _SHOWN:
        console.print(f"and {len(report.findings) - _SHOWN:,} more: --json has all of them", highlight=False)


def _columns(report: Report) -> Table:
    """Rows by column and by how they were checked; columns that were checked alike share a line."""
    table = Table(title="rows checked, by column")
    table.add_column("columns")
    for heading in ("in Arb", "in float64", "with the collection", "with other columns"):
        table.add_column(heading, justify="right")
    alike: dict[tuple[int, ...], list[str]] = {}
    for name, counts in report.columns.items():
        alike.setdefault(tuple(counts.get(method, 0) for method in METHODS), []).append(name)
    for numbers, names in alike.items():
        table.add_row(", ".join(names), *(f"{number:,}" if number else "-" for number in numbers))
    return table
