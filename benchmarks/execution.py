"""Rounding included: what it costs, how careful its bounds are, and where states stand on the precision ladder.

`python -m benchmarks.execution` prints the tables of docs/execution.md.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from rich.progress import track

import suffice as sf
from benchmarks.timing import Contender, Ratio, seconds, versus
from suffice.audits.plan import Plan
from suffice.audits.rows import audit_states
from suffice.certificates.climb import climb_by_sums
from suffice.contracts.centered import CENTERED
from suffice.experiments.document import markdown_table, number
from suffice.realizations.endpoints import Endpoints, OwnEnvelope
from suffice.realizations.executed.by_sums import summed_bounds
from suffice.realizations.executed.program import execute
from suffice.realizations.executed.realization import Execution
from suffice.verify.columns import Said
from suffice.verify.digests import read_manifest
from suffice.verify.judging import Verdict, judge_exactly
from suffice.verify.layout import wanted_files
from suffice.verify.plan import read_header
from suffice.verify.report import Tally
from suffice.verify.rows import read_rows

__all__ = ["execution_ratios", "projection"]

_BUDGETS = sf.Budgets(loss=1e-3, gradient=1e-3)
_SIZES = {150: "a: below 150", 400: "b: 150 to 400", 1000: "c: 400 to 1000", math.inf: "d: above 1000"}


def _builtin(per_bank: int) -> list[sf.States]:
    """Some states of every bank."""
    return [batch.states[:per_bank] for batch in sf.builtin_collection()]


def execution_ratios() -> dict[str, Ratio | None]:
    """The audit in scope execution over analytic; always float64 at order 6 over adaptive."""
    threads = torch.get_num_threads()
    states = _builtin(64)

    def audit(plan: Plan) -> None:
        for some in states:
            audit_states(some, plan)

    analytic = Contender(
        name="audit, analytic", run=seconds(lambda: audit(Plan(loss=1e-5, gradient=1e-5))), threads=threads
    )
    executed = Contender(
        name="audit, execution",
        run=seconds(lambda: audit(Plan(loss=1e-5, gradient=1e-5, scope="execution"))),
        threads=threads,
    )
    # in a process of its own: what other benchmarks did to the heap counts as much as the arithmetic
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        adaptive = pool.submit(_adaptive_ratio).result()
    return {"execution_overhead": versus(analytic, executed, repeats=3), "adaptive_vs_float64": adaptive}


def _adaptive_ratio() -> Ratio:
    threads = torch.get_num_threads()
    everything = [batch.states for batch in sf.builtin_collection()]
    sf.rungs()

    # what is returned is dropped at once, as in a training loop: kept, it would measure the allocator
    def climb() -> None:
        for some in everything:
            sf.adaptive(some, _BUDGETS)

    def stay() -> None:
        for some in everything:
            for part in some.chunks():
                execute(part, 6, torch.float64)

    adaptive = Contender(name="adaptive, joint 1e-3", run=seconds(climb), threads=threads, dtype="float32 and float64")
    return versus(adaptive, Contender(name="order 6 always", run=seconds(stay), threads=threads), repeats=25)


def projection(factor: float = 32.0) -> dict[str, float]:
    """A projection, not a measurement: adaptive evaluation where float32 costs 1/factor of float64.

    Evaluation alone, by the evaluations that there are in either dtype, with no cost for the certificate.
    """
    evaluations: dict[torch.dtype, int] = defaultdict(int)
    certified = total = 0
    for some in _builtin(128):
        total += len(some)
        for step in climb_by_sums(some, _BUDGETS, "proved"):
            evaluations[step.rung.dtype] += len(step.rows)
            certified += int(step.certified.sum()) if step.rung.dtype == torch.float32 else 0
    cost = evaluations[torch.float32] / factor + evaluations[torch.float64]
    return {"share_in_float32": certified / total, "evaluation_alone": total / cost}


def _terms() -> str:
    """Median gradient bound at order 6 by what it is made of."""
    rows = []
    for dtype in (torch.float32, torch.float64):
        for some in _builtin(64):
            parts: dict[str, list[float]] = defaultdict(list)
            for part in some.chunks():
                pair = sf.DebyePair(order=6)
                made = Execution(pair, dtype).at(part)
                own = OwnEnvelope(Endpoints.computed(made.geometry), pair).matched((part.labels, made.top))
                head = made.head(CENTERED.needs)
                parts["formula"] += CENTERED.bounds(head, own).gradient.tolist()
                parts["scores"] += CENTERED.bounds(head, made.own(CENTERED.needs)).gradient.tolist()
                parts["after"] += [] if made.after is None else made.after.gradient.tolist()
                parts["all"] += made.bounds(CENTERED).gradient.tolist()
            middle = {name: statistics.median(values) for name, values in parts.items()}
            bank = some.bank
            k = bank.concentrations.max().item()
            cells = [number(middle["all"]), *(f"{100 * x / middle['all']:.1f}%" for x in _shares(middle))]
            rows.append([str(dtype).removeprefix("torch."), str(bank.dim), str(bank.num_classes), f"{k:.0f}", *cells])
    kept = sorted({tuple(row[:3]): row for row in rows}.values())
    return markdown_table(
        ["dtype", "p", "classes", "largest k", "gradient bound", "formula", "rounding of scores", "after the scores"],
        kept,
    )


def _shares(middle: dict[str, float]) -> tuple[float, float, float]:
    return middle["formula"], middle["scores"] - middle["formula"], middle["after"]


def _conservative(sample: int = 2) -> str:
    """Bound over actual error, judged by `verify` in Arb on some states of every part, by p and by k."""
    rows = []
    collection = sf.builtin_collection()
    groups = {name: _group(batch.states.bank) for batch in collection for name in batch.ids}
    step = len(collection) // (sample * 32)
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("float32", "float64"):
            out = Path(folder) / dtype
            sf.audit(collection, sf.Budgets(loss=1e-3, gradient=1e-3), out=out, order=6, scope="execution", dtype=dtype)
            found: dict[tuple[int, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
            wrong = 0
            states = _judged(out, collection.path, step)
            for said, verdict in track(states, f"{dtype} in Arb", total=len(collection) // step):
                wrong += sum(int(each.wrong.sum()) for each in verdict.judged)
                for name, ratios in verdict.ratios.items():
                    found[groups[said["id"][0]]][name] += ratios[~np.isnan(ratios)].tolist()
            for (dim, k), by_name in sorted(found.items()):
                for name, values in by_name.items():
                    quantiles = [number(float(np.quantile(values, q))) for q in (0.0, 0.5, 0.95)]
                    rows.append([dtype, str(dim), k, name, str(len(values)), *quantiles, str(wrong)])
    return markdown_table(["dtype", "p", "median k", "quantity", "states", "smallest", "median", "95%", "wrong"], rows)


def _judged(audit: Path, collection: Path, step: int) -> Iterator[tuple[Said, Verdict]]:
    """Every so many rows of an audit, and what Arb says of each."""
    plan, number = read_header(audit).plan, 0
    for wanted in wanted_files(collection, read_manifest(collection), []):
        rows = read_rows(audit, wanted, plan, Tally())
        for i in range(len(rows)):
            if number % step == 0:
                said = {name: column[i : i + 1] for name, column in rows.said.items()}
                yield said, judge_exactly(wanted, int(rows.index[i]), plan, said)
            number += 1


def _group(bank: sf.ClassBank) -> tuple[int, str]:
    """The dimension, and where the median concentration lies."""
    k = bank.concentrations.median().item()
    return bank.dim, next(words for limit, words in _SIZES.items() if k < limit)


def _ladder() -> str:
    """The share of states certified on each rung, for joint budgets: both models, and the certificate by sums."""
    rows = []
    budgets = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
    batches = list(sf.builtin_collection())
    for rung in sf.rungs():
        worst: dict[str, list[float]] = defaultdict(list)
        for batch in track(batches, rung.name):
            table = rung.table(batch.states, "proved")
            for part in batch.states.chunks():
                executed = rung.execute(part)
                found = {
                    model: rung.realize(part, executed, model).bounds(CENTERED) for model in ("proved", "probabilistic")
                }
                if table is not None:
                    found["proved, by sums"] = summed_bounds(part, executed, table)
                for name, bounds in found.items():
                    worst[name] += torch.maximum(bounds.loss, bounds.gradient).tolist()
        total = len(worst["proved"])
        for name, values in worst.items():
            shares = [f"{100 * sum(x <= budget for x in values) / total:.1f}" for budget in budgets]
            rows.append([rung.name, name, *shares])
    return markdown_table(["rung", "model", *(f"{budget:g}" for budget in budgets)], rows)


def _groups() -> str:
    """The cheapest certified rung by dimension and temperature, joint budgets 1e-3 and 1e-6."""
    counts: dict[tuple[int, float], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for batch in sf.builtin_collection():
        key = (batch.states.bank.dim, batch.states.temperature[0].item())
        for budget in (1e-3, 1e-6):
            for name in sf.cheapest_rungs(batch.states, sf.Budgets(loss=budget, gradient=budget)):
                counts[key][f"{budget:g}: {name}"] += 1
    names = sorted({name for group in counts.values() for name in group})
    rows = [
        [f"p = {p}, tau = {tau:g}", *(str(group[name]) for name in names)] for (p, tau), group in sorted(counts.items())
    ]
    return markdown_table(["states", *names], rows)


def main() -> None:
    """Print every table."""
    for title, table in (
        ("Share of states certified, in percent, by joint budget", _ladder()),
        ("States by the cheapest certified rung", _groups()),
        ("What a gradient bound is made of, medians at order 6", _terms()),
        ("Execution bound over actual error, order 6", _conservative()),
    ):
        print(f"\n## {title}\n\n{table}")
    print(f"\nprojection: {projection()}")


if __name__ == "__main__":
    main()
