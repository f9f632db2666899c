"""`suffice ladder`: the orders of the ladder at one dimension."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli.output import console_of_width, say

if TYPE_CHECKING:
    from suffice.reports.orders import LadderRow

__all__ = ["ladder"]


def ladder(
    dim: Annotated[float, typer.Option(help="Feature dimension p; nu = p/2 - 1.")] = 512,
    kappa: Annotated[str, typer.Option(help="Concentrations, separated by commas.")] = "1,10,100,1000,1e5",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")] = False,
) -> None:
    """Show the ladder at one dimension: each order's ratio, its allowances, its measured error, its cost."""
    from suffice.reports.orders import ladder_rows

    kappas = [_kappa(text) for text in kappa.split(",")]
    try:
        rows = list(ladder_rows(dim, kappas))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--dim") from None
    if as_json:
        say(json.dumps({"dim": dim, "nu": dim / 2 - 1, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        _print_ladder(dim, rows)


def _kappa(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise typer.BadParameter(
            f"Expected numbers that are finite and >= 0, separated by commas, but got {text.strip()!r}",
            param_hint="--kappa",
        )
    return value


def _print_ladder(dim: float, rows: list[LadderRow]) -> None:
    from rich.table import Table

    table = Table(
        title=f"I_(nu+1)/I_nu at dimension {dim:g} (nu = {dim / 2 - 1:g})",
        caption="Allowances are proved and bound the formula error (exact arithmetic, against Arb). Rounding is not\n"
        "part of them: the float64 error shows it. Times are measured on this machine.",
    )
    table.add_column("kappa", justify="right")
    table.add_column("order", justify="right")
    table.add_column("ratio", justify="right")
    for heading in ("paper 1/(4nu^3)", "paper envelope", "closed form", "formula error", "float64 error"):
        table.add_column(heading, justify="right")
    table.add_column("ns/value", justify="right")
    for previous, row in zip([None, *rows], rows, strict=False):
        new = previous is None or previous.kappa != row.kappa
        if new and previous is not None:
            table.add_section()
        numbers = (row.paper_uniform, row.paper_envelope, row.closed_form, row.formula_error, row.float64_error)
        table.add_row(
            f"{row.kappa:g}" if new else "",
            str(row.order),
            f"{row.ratio:.15f}",
            *("-" if number is None else f"{number:.2e}" for number in numbers),
            f"{row.nanoseconds:.1f}",
        )
    console_of_width(150).print(table)
