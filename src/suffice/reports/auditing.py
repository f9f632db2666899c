"""`sf.audit`: run an audit and write its page; what the command line does as well."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import torch

from suffice.audits.plan import Plan
from suffice.audits.run import Audit, run_audit
from suffice.budgets import Budgets, check_budgets
from suffice.contracts.base import Contract
from suffice.realizations.base import Realization
from suffice.reports.page import write_page
from suffice.reports.sketch import Sketch
from suffice.reports.terminal import in_notebook, progress_bar
from suffice.store.builtin import builtin_collection
from suffice.store.reader import Collection, open_collection
from suffice.store.remote import local_path
from suffice.words import Scope

__all__ = ["audit", "audit_with_page"]


def audit(
    collection: str | Path | Collection | None,
    budgets: Budgets,
    *,
    out: str | Path,
    engine: str = "local",
    order: int = 2,
    contract: str | Contract = "centered",
    skip_bad: bool = False,
    ray_address: str | None = None,
    scope: str = Scope.ANALYTIC,
    dtype: str = "float64",
    model: str = "proved",
    realization: Realization | None = None,
    page: bool = True,
    progress: bool | None = None,
) -> Audit:
    """Audit a collection (None: the built-in one) against budgets that are the same for every state.

    Scope "execution" certifies what is executed in `dtype`, rounding included (see `certify`). With a `realization` of
    one's own that is audited, and order, scope, dtype and model say nothing. `out` gets the page as well, report.html,
    unless `page` is False. Collection and `out` may be addresses, `s3://bucket/states` say; with Ray the workers then
    write their own results. A bar shows the progress in a notebook, everywhere if `progress` is True, nowhere if False.
    """
    check_budgets(budgets)
    for name in ("loss", "probability", "gradient", "kl"):
        if isinstance(getattr(budgets, name), torch.Tensor):
            raise TypeError(f"Expected one {name} budget for the whole audit, but got a tensor")
    plan = Plan(
        loss=budgets.loss,  # type: ignore[arg-type]
        probability=budgets.probability,  # type: ignore[arg-type]
        gradient=budgets.gradient,  # type: ignore[arg-type]
        kl=budgets.kl,  # type: ignore[arg-type]
        prediction=budgets.prediction,
        order=order,
        contract=contract,
        scope=scope,
        dtype=dtype,
        model=model,
        given=realization,
    )
    if collection is None:
        collection = builtin_collection()
    elif not isinstance(collection, Collection):
        collection = open_collection(collection)
    plan = plan.of_kinds(collection.kinds)
    shown = in_notebook() if progress is None else progress
    return audit_with_page(
        collection,
        plan,
        local_path(out, whole=True),
        engine=engine,
        skip_bad=skip_bad,
        ray_address=ray_address,
        page=page,
        progress=shown,
    )


def audit_with_page(
    collection: Collection,
    plan: Plan,
    out: Path,
    *,
    engine: str = "local",
    skip_bad: bool = False,
    ray_address: str | None = None,
    page: bool = True,
    progress: bool = False,
) -> Audit:
    """The same with a plan: the results are read once, for the summary and for the page."""
    sketch = Sketch(len(collection), plan)
    with progress_bar() if progress else nullcontext() as bar:
        task = None if bar is None else bar.add_task("auditing", total=len(collection))
        found = run_audit(
            collection,
            plan,
            out,
            engine=engine,
            skip_bad=skip_bad,
            ray_address=ray_address,
            tick=lambda n: None if bar is None or task is None else bar.advance(task, n),
            each=sketch.add,
        )
    if page:
        write_page(found.path, collection, sketch)
    return found
