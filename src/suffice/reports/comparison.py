"""Two audits side by side, for people: at a terminal, as a page that opens offline, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from suffice.audits.comparison import Comparison
from suffice.audits.summary import Spread
from suffice.reports.embedded import coded, packed, rounded, write_html
from suffice.reports.printable import one_line
from suffice.store.remote import shown

__all__ = ["comparison_record", "print_comparison", "write_comparison_page"]

# What a terminal lists of states that changed; the page and --json have all of them, up to a number.
_SHOWN = 20
MOST_POINTS = 6000
MOST_LISTED = 6000
_CODED = ("source", "dataset", "run", "dim", "temperature", "change", "before_verdict", "after_verdict")


def answer(found: Comparison) -> str:
    """What became of the certificates, in a sentence."""
    changes = found.changes
    was, now = changes["kept"] + changes["lost"], changes["kept"] + changes["gained"]
    if not changes["lost"] and not changes["gained"]:
        return f"No state changed sides: {now:,} of {len(found):,} are certified, before and after."
    return (
        f"Certified were {was:,} of {len(found):,} states, and now are {now:,}: "
        f"{changes['lost']:,} lost their certificate, {changes['gained']:,} gained one."
    )


def differences(found: Comparison) -> list[str]:
    """What the two were asked or given differently, one line each."""
    return [f"{one_line(name)}: {_short(old)} -> {_short(new)}" for name, (old, new) in found.differs.items()]


def _short(value: Any) -> str:
    return one_line("none" if value is None else value)[:120]


def _factors(spread: Spread) -> str:
    if not spread.count:
        return "none to compare"
    return f"5% {spread.q05:.3g}, median {spread.median:.3g}, 95% {spread.q95:.3g}"


def comparison_record(found: Comparison) -> dict[str, Any]:
    """The numbers as JSON has them."""
    changed = found.changed()[:MOST_LISTED]
    return {
        "before": {"audit": shown(found.before.path), "question": found.before.question},
        "after": {"audit": shown(found.after.path), "question": found.after.question},
        "differs": {name: list(pair) for name, pair in found.differs.items()},
        "states": len(found),
        "only_before": found.only_before,
        "only_after": found.only_after,
        **found.changes,
        "verdicts": [{"before": old, "after": new, "states": n} for (old, new), n in found.verdicts.items()],
        "b": asdict(found.factors("b")),
        "headroom": asdict(found.factors("headroom")),
        "groups": [
            {**group, "b": asdict(group["b"]), "headroom": asdict(group["headroom"])} for group in found.groups()
        ],
        "changed": [_row(found, int(row)) for row in changed],
    }


def _row(found: Comparison, row: int) -> dict[str, Any]:
    names = ("id", "change", "before_verdict", "after_verdict")
    out: dict[str, Any] = {name: str(found.columns[name][row]) for name in names}
    for name in ("before_b", "after_b", "before_headroom", "after_headroom"):
        value = float(found.columns[name][row])
        out[name] = value if np.isfinite(value) else None
    return out


def print_comparison(found: Comparison, console: Console) -> None:
    """What differs, what became of the verdicts, how tolerances moved, and the states that changed."""
    console.print(f"before: {one_line(found.before.question)} ({one_line(shown(found.before.path))})", highlight=False)
    console.print(f"after:  {one_line(found.after.question)} ({one_line(shown(found.after.path))})", highlight=False)
    for line in differences(found):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    console.print(answer(found), highlight=False)
    if found.only_before or found.only_after:
        console.print(
            f"{found.only_before:,} states are only in the first audit, {found.only_after:,} only in the second",
            highlight=False,
        )
    for name, words in (("b", "b*"), ("headroom", "headroom")):
        console.print(f"{words} after over before: {_factors(found.factors(name))}", highlight=False)
    console.print(_group_table(found))
    changed = found.changed()
    if len(changed):
        console.print(_changed_table(found, changed))
    if len(changed) > _SHOWN:
        console.print(f"and {len(changed) - _SHOWN:,} more: the page lists them", highlight=False)


def _group_table(found: Comparison) -> Table:
    table = Table()
    headings = ("states", "number", "kept", "lost", "gained", "never", "b* after/before", "headroom after/before")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "states" else "right")
    for group in found.groups():
        moved = (f"{group[name].median:.3g}" if group[name].count else "-" for name in ("b", "headroom"))
        counts = (f"{group[name]:,}" for name in ("states", "kept", "lost", "gained", "never"))
        table.add_row(f"p = {group['dim']}, tau = {group['temperature']:g}", *counts, *moved)
    return table


def _changed_table(found: Comparison, changed: Any) -> Table:
    table = Table(title="states whose verdict changed")
    for heading in ("state", "before", "after", "b* before", "after", "headroom before", "after"):
        table.add_column(heading, overflow="fold")
    for row in changed[:_SHOWN]:
        numbers = (
            f"{found.columns[f'{when}_{name}'][row]:.3g}" for name in ("b", "headroom") for when in ("before", "after")
        )
        words = (one_line(found.columns[name][row]) for name in ("id", "before_verdict", "after_verdict"))
        table.add_row(*words, *numbers)
    return table


def write_comparison_page(found: Comparison, folder: Path) -> Path:
    """Write `report.html`."""
    rows, drawn, listed = _picked(found)
    columns = {name: column[rows] for name, column in found.columns.items()}
    numbers = {name: rounded(columns[name], 3) for name in ("before_b", "after_b", "before_headroom", "after_headroom")}
    contracts = [str(each.asked.get("contract")) for each in (found.before, found.after)]
    data = {
        "drawn": drawn,
        "list": listed,
        "id": columns["id"].tolist(),
        "coded": {name: coded(columns[name]) for name in _CODED},
        "numbers": numbers,
        "contracts": contracts,
    }
    return write_html(
        folder / "report.html",
        "comparison.html",
        found=found,
        paths=[shown(each.path) for each in (found.before, found.after)],
        answer=answer(found),
        differences=differences(found),
        changes=found.changes,
        factors={"b*": _factors(found.factors("b")), "headroom": _factors(found.factors("headroom"))},
        groups=found.groups(),
        contracts=contracts,
        stride=-(-len(found) // max(1, drawn)),
        changed=[_row(found, int(row)) for row in found.changed()[:_SHOWN]],
        listed=len(listed),
        listed_all=len(listed) == len(found.changed()),
        data=packed(data),
    )


def _picked(found: Comparison) -> tuple[Any, int, list[int]]:
    """Rows of the page: every n-th, then what changed; how many of them are drawn, and where what changed is."""
    drawn = np.arange(0, len(found), max(1, -(-len(found) // MOST_POINTS)))
    changed = found.changed()[:MOST_LISTED]
    rows = np.concatenate([drawn, np.setdiff1d(changed, drawn)])
    place = {int(row): index for index, row in enumerate(rows)}
    return rows, len(drawn), [place[int(row)] for row in changed]
