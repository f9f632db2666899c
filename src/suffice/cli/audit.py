"""`suffice audit`: certify a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice import __version__
from suffice.cli.output import ExitCode, collection_at, console_of_width, exit_on_bad_file, fail, say

if TYPE_CHECKING:
    from suffice.audits.plan import Plan
    from suffice.audits.run import Audit

__all__ = ["audit"]


def audit(
    collection: Annotated[Path | None, typer.Argument(help="A collection; without it, the built-in one.")] = None,
    loss: Annotated[float | None, typer.Option(help="Budget for the loss error.")] = None,
    gradient: Annotated[float | None, typer.Option(help="Budget for the feature-gradient error.")] = None,
    probability: Annotated[float | None, typer.Option(help="Budget for the total variation of probabilities.")] = None,
    kl: Annotated[float | None, typer.Option(help="Budget for the larger of both KL divergences, in nats.")] = None,
    prediction: Annotated[bool, typer.Option(help="The prediction must not change.")] = False,
    pair: Annotated[str, typer.Option(help="debye1 to debye6.")] = "debye2",
    contract: Annotated[str, typer.Option(help="geometry, conditioned or centered.")] = "centered",
    out: Annotated[Path | None, typer.Option(help="Folder for the results; made from the question without it.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray (pip install 'suffice[ray]').")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="A Ray cluster; without it Ray starts on this machine.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option(help="Set bad rows aside and count them, instead of stopping.")] = False,
    scope: Annotated[str, typer.Option(help="analytic (the formula), or execution (rounding included).")] = "analytic",
    dtype: Annotated[str, typer.Option(help="What scope execution executes in: float32 or float64.")] = "float64",
    model: Annotated[str, typer.Option(help="Rounding: proved, or probabilistic (not a proof).")] = "proved",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Certify every state of a collection; exit 0 if all are, 1 if some are violated or open, 3 on a bad file."""
    from suffice.audits.engines import ENGINES
    from suffice.audits.plan import Plan, pair_order

    if loss is None and gradient is None and probability is None and kl is None and not prediction:
        loss = gradient = 1e-5
    try:
        plan = Plan(
            loss=loss,
            gradient=gradient,
            probability=probability,
            kl=kl,
            prediction=prediction,
            order=pair_order(pair),
            contract=contract,
            scope=scope,
            dtype=dtype,
            model=model,
        )
        if engine not in ENGINES:
            raise ValueError(f"Expected engine in {sorted(ENGINES)}, but got {engine!r}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    result = _run(collection, plan, out, engine=engine, ray_address=ray_address, skip_bad=skip_bad, show=not as_json)
    summary = result.summary
    raise typer.Exit(0 if summary.certified == summary.states and summary.bad_rows == 0 else 1)


def _run(
    collection: Path | None,
    plan: Plan,
    out: Path | None,
    *,
    engine: str,
    ray_address: str | None,
    skip_bad: bool,
    show: bool,
) -> Audit:
    """Run the audit, write its page, print it for a person or its summary as JSON."""
    from suffice.audits.plan import PlanError
    from suffice.budgets import BudgetError
    from suffice.reports.auditing import audit_with_page
    from suffice.reports.terminal import print_audit
    from suffice.store.remote import local_path, shown

    with exit_on_bad_file("bad collection"):
        opened = collection_at(collection)
        plan = plan.of_kinds(opened.kinds)
        name = f"{opened.path.name}-{plan.fingerprint(opened.digest, __version__, skip_bad)[:8]}"
        folder = local_path(out or Path("audits") / name, whole=True)
        try:
            result = audit_with_page(
                opened, plan, folder, engine=engine, ray_address=ray_address, skip_bad=skip_bad, progress=True
            )
        except (BudgetError, PlanError) as error:
            raise typer.BadParameter(str(error)) from None
        except FileExistsError as error:
            fail(ExitCode.USAGE, str(error))
    if show:
        print_audit(result, console_of_width(110))
        console_of_width(None).print(f"page: {shown(result.page)}", highlight=False)
    else:
        say((folder / "summary.json").read_text(encoding="utf-8").rstrip("\n"))
    return result
