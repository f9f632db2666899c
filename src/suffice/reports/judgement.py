"""A judged collection for people: at a terminal, as one page that opens offline, and as plain data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from rich.console import Console
from rich.table import Table

from suffice.audits.judged import JudgedCollection
from suffice.store.manifest import write_whole
from suffice.words import Verdict

__all__ = ["judgement_record", "print_judgement", "write_judgement_page"]

_WORDS = {"loss": "loss error", "probability": "total variation", "gradient": "gradient error", "kl": "KL"}
_POINTS = 400
_WIDTH, _HEIGHT = 900, 260
_COVERED = (
    "Judged: these very numbers, whatever has computed them, against rigorous enclosures of the exact objective. "
    "Nothing is said of other inputs, or of another run of the program."
)


def judgement_record(found: JudgedCollection, question: dict[str, Any]) -> dict[str, Any]:
    """The numbers as JSON has them; an error that is no number is null."""
    groups = [
        {**group, "largest": {name: _plain(value) for name, value in group["largest"].items()}}
        for group in found.groups()
    ]
    return {
        **question,
        "states": len(found.columns["id"]),
        **found.counts,
        "truths": found.truths,
        "groups": groups,
        "hints": found.hints,
        "worst": [{"id": name, "text": text} for name, text in found.worst],
        "covered": _COVERED,
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def asked(found: JudgedCollection) -> str:
    """The budgets in a line."""
    budgets = found.budgets
    limits = [f"{words} within {getattr(budgets, name):g}" for name, words in _WORDS.items() if getattr(budgets, name)]
    limits += ["the prediction right"] if budgets.prediction else []
    return " and ".join(limits)


def answer(found: JudgedCollection) -> str:
    """The verdicts in a sentence."""
    counts, states = found.counts, len(found.columns["id"])
    if not states:
        return "There was no state to judge."
    if counts[Verdict.CERTIFIED] == states:
        return f"All {states:,} states are certified."
    rest = [f"{counts[word]:,} are {words}" for word, words in _REST.items() if counts[word]]
    return f"Of {states:,} states {counts[Verdict.CERTIFIED]:,} are certified; {' and '.join(rest)}."


_REST = {Verdict.VIOLATED: "violated", Verdict.INCONCLUSIVE: "inconclusive"}


def print_judgement(found: JudgedCollection, console: Console) -> None:
    """Verdicts, the largest errors by dimension and temperature, what decided, the worst state, and hints."""
    console.print(f"do these outputs keep {asked(found)}?", highlight=False)
    console.print(answer(found), highlight=False)
    console.print(_COVERED, highlight=False)
    table = Table()
    headings = ("states", "number", "certified", "violated", "inconclusive", *(f"largest {n}" for n in found.names))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "states" else "right")
    for group in found.groups():
        numbers = (f"{group[word]:,}" for word in ("states", "certified", "violated", "inconclusive"))
        largest = (_size(value) for value in group["largest"].values())
        table.add_row(f"p = {group['dim']}, tau = {group['temperature']:g}", *numbers, *largest)
    console.print(table)
    console.print("decided by: " + ", ".join(f"{name} {n:,}" for name, n in found.truths.items()), highlight=False)
    if found.worst:
        name, text = found.worst[0]
        console.print(f"farthest, {name}: {text}", highlight=False, markup=False)
    for hint in found.hints:
        console.print(hint, highlight=False, markup=False)


def _size(value: float) -> str:
    return f"{value:.2e}" if math.isfinite(value) else "no number"


def write_judgement_page(found: JudgedCollection, folder: Path, question: dict[str, Any]) -> Path:
    """Write `report.html`."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("suffice.reports"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    page = environment.get_template("judgement.html").render(
        asked=asked(found),
        answer=answer(found),
        covered=_COVERED,
        counts=found.counts,
        truths=found.truths,
        names=found.names,
        groups=found.groups(),
        size=_size,
        hints=found.hints,
        worst=found.worst,
        charts=[chart for name in found.names if (chart := _chart(found, name)) is not None],
        question=question,
    )
    path = folder / "report.html"
    write_whole(path, page.encode())
    return path


def _chart(found: JudgedCollection, name: str) -> dict[str, Any] | None:
    """The upper ends in order on a logarithmic scale, as points of a drawing, with the budget's height."""
    values = np.sort(found.columns[f"{name}_high"])
    values = values[np.isfinite(values) & (values > 0)]
    budget = getattr(found.budgets, name)
    if name == "prediction" or not len(values) or budget is None:
        return None
    picked = values[np.unique(np.linspace(0, len(values) - 1, _POINTS).astype(int))]
    ends = math.log10(min(picked[0], budget)), math.log10(max(picked[-1], budget))
    low, span = ends[0] - 0.3, ends[1] - ends[0] + 0.6

    def height(value: float) -> float:
        return round(_HEIGHT * (1 - (math.log10(value) - low) / span), 1)

    step = _WIDTH / max(1, len(picked) - 1)
    points = " ".join(f"{index * step:.1f},{height(value)}" for index, value in enumerate(picked))
    decades = range(math.ceil(low), math.floor(low + span) + 1)
    every = max(1, len(decades) // 8)
    return {
        "name": name,
        "words": _WORDS[name],
        "points": points,
        "budget": height(budget),
        "budget_words": f"budget {budget:g}",
        "lines": [(height(10.0**power), f"1e{power}") for power in decades[::every]],
        "width": _WIDTH,
        "height": _HEIGHT,
    }
