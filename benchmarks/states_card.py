"""The measured tables of docs/states.md: `python -m benchmarks.states_card` writes them between their markers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from rich.progress import track
from torch import Tensor
from torch.nn.functional import cross_entropy

import suffice as sf
from examples.capture_states import FIRST
from suffice.experiments.distribution import PAPER
from suffice.experiments.document import markdown_table
from suffice.experiments.published import miller_difference_and_ratio
from suffice.nn import primitives
from suffice.store.summary import summarize

__all__ = ["card", "counts_table", "loss_table", "runs_table", "tolerance_table"]

ROOT = Path(__file__).resolve().parent.parent
_FIRST_RUNS = {take.run for take in FIRST}
LOGS = ROOT / "docs" / "runs"


# test accuracy that the authors of ProCo report: ResNet-32, 200 epochs, all images of CIFAR-10 and CIFAR-100
REPORTED = {"cifar100-lt-proco": "52.8%", "cifar10-lt-100-proco": "85.9%", "cifar10-lt-10-proco": "91.9%"}


def _logs() -> dict[str, list[dict[str, float]]]:
    return {
        path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in sorted(LOGS.glob("*.jsonl"))
    }


def runs_table() -> str:
    """How each run ended: loss, and test accuracy of the vMF head and of the classifier."""
    rows = []
    for name, records in _logs().items():
        last = records[-1]
        cells = []
        for head in ("vmf", "classifier"):
            if f"{head}_accuracy" not in last:
                cells.append("-")
                continue
            thirds = [last[f"{head}_{word}"] for word in ("head", "middle", "tail") if f"{head}_{word}" in last]
            shown = f"{100 * last[f'{head}_accuracy']:.1f}%"
            cells.append(shown + (f" ({', '.join(f'{100 * third:.1f}' for third in thirds)})" if thirds else ""))
        rows.append([name, str(int(last["epoch"])), f"{last['loss']:.3f}", *cells, REPORTED.get(_method(name), "-")])
    return markdown_table(["run", "epochs", "last loss", "vMF head", "classifier", "authors' larger networks"], rows)


def _method(run: str) -> str:
    """Data and method of a run: its name without the dimension."""
    return run.rsplit("-", 1)[0]


def curves_table() -> str:
    """Mean training loss at some epochs."""
    epochs = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60)
    rows = []
    for name, records in _logs().items():
        losses = {int(record["epoch"]): record["loss"] for record in records}
        rows.append([name, *(f"{losses[epoch]:.2f}" if epoch in losses else "" for epoch in epochs)])
    return markdown_table(["run", *(str(epoch) for epoch in epochs)], rows)


def counts_table(collection: sf.Collection) -> str:
    """How many states come from where: a row a run, and by epoch the largest concentration and the states."""
    rows: dict[str, list[str]] = {}
    steps: dict[str, dict[int, list[float]]] = {}
    for group in summarize(collection).groups:
        numbers = (f"{number:g}" for number in (group.dim, group.temperature, group.classes))
        rows[group.run] = [group.run, group.source, *numbers]
        found = steps.setdefault(group.run, {}).setdefault(group.step, [0.0, 0])
        found[0] = max(found[0], group.largest_concentration or 0.0)
        found[1] += group.states
    table = [
        [
            *cells,
            ", ".join(str(step) for step in steps[run]),
            ", ".join(f"{k:,.0f}" for k, _ in steps[run].values()),
            ", ".join(f"{count:.0f}" for _, count in steps[run].values()),
        ]
        for run, cells in rows.items()
    ]
    return markdown_table(["run", "method", "p", "tau", "classes", "epochs", "largest k", "states"], table)


def tolerance_table(collection: sf.Collection) -> str:
    """Quantiles and spans of b* under the conditioned contract, all states and by (p, tau), beside the paper's."""
    found: dict[tuple[str, str, float], list[Tensor]] = {}
    for batch in collection:
        states = batch.states
        group = f"p = {states.bank.dim}, tau = {float(states.temperature[0]):g}"
        for budget in (1e-4, 1e-5):
            for kind, budgets in (
                ("loss", sf.Budgets(loss=budget)),
                ("joint", sf.Budgets(loss=budget, gradient=budget)),
            ):
                b = sf.tolerance(states, budgets, sf.DebyePair(), "conditioned").b
                for name in ("all", group):
                    found.setdefault((name, kind, budget), []).append(b)
    rows = []
    for (name, kind, budget), parts in sorted(found.items(), key=lambda item: (item[0][0] != "all", item[0][0])):
        values = torch.cat(parts).numpy()
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        numbers = [f"{low:.2e}", f"{middle:.2e}", f"{high:.2e}", f"{np.log10(high / low):.2f}"]
        paper = PAPER[kind, budget] if name == "all" else None
        beside = "" if paper is None else f"{paper[0]:.2e}, {paper[1]:.2e}, {paper[2]:.2e}; {paper[3]}"
        rows.append(
            [
                name,
                f"{budget:g}",
                kind,
                str(len(values)),
                *numbers,
                f"{np.log10(values.max() / values.min()):.2f}",
                beside,
            ]
        )
    headings = ["states", "budget", "quantity", "n", "5%", "median", "95%", "central span", "full span"]
    return markdown_table([*headings, "the paper: 5%, median, 95%; full span"], rows)


def loss_table(collection: sf.Collection, per_group: int = 6) -> str:
    """Worst errors of `ProCoLoss`'s numerics and of the published recurrence against Arb, on real states."""
    picked: dict[tuple[int, str], list[sf.States]] = {}
    for batch in collection:
        bank = batch.states.bank
        kept = batch.run[0] in _FIRST_RUNS
        some = picked.setdefault((bank.dim, "first runs" if kept else "newer runs"), [])
        if bank.num_classes <= 100 and len(some) < per_group:
            some.append(batch.states[:1])
    work = [
        (*group, states, largest)
        for group, states in sorted(picked.items())
        for largest in ((None, 6e3, 1e5) if group[1] == "first runs" else (None,))
        if states
    ]
    rows = []
    for dim, runs, states, largest in track(work, description="Arb"):
        errors = [_errors(_scaled(state, largest)) for state in states]
        shown = f"{runs}, as trained" if largest is None else f"{runs}, scaled to {largest:g}"
        top = max(float(state.bank.concentrations.max()) for state in states) if largest is None else largest
        cells = []
        for way in ("float64", "float32", "miller"):
            loss, gradient = (np.max([error[way][i] for error in errors]) for i in range(2))
            cells.append(f"{loss:.1e}, {gradient:.1e}")
        rows.append([str(dim), shown, f"{top:.0f}", str(len(states)), *cells])
    headings = ["p", "concentrations", "largest k", "states"]
    return markdown_table(
        [*headings, "ProCoLoss, float64", "ProCoLoss, float32", "published recurrence, float64"], rows
    )


def _scaled(state: sf.States, largest: float | None) -> sf.States:
    """The same state with all concentrations multiplied so that the largest is as given."""
    if largest is None:
        return state
    bank = state.bank
    k = bank.concentrations * (largest / float(bank.concentrations.max()))
    return sf.States(sf.ClassBank(bank.directions, k, bank.biases), state.features, state.labels, state.temperature)


def _errors(state: sf.States) -> dict[str, tuple[float, float]]:
    """|loss - exact| and |gradient - exact| of the three ways of computing them."""
    exact = sf.reference(state)
    loss, gradient = float(exact.loss.mid[0]), exact.gradient.mid[0]
    out = {}
    for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
        f = state.features.clone().to(dtype).requires_grad_()
        bank = state.bank
        q = primitives.scores(
            bank.nu, f / state.temperature.to(dtype)[:, None], bank.directions.to(dtype), bank.concentrations.to(dtype)
        )
        value = cross_entropy(q + bank.biases.to(dtype), state.labels)
        value.backward()
        assert f.grad is not None
        out[name] = (abs(float(value.detach()) - loss), float((f.grad[0].double() - gradient).norm()))
    geometry = state.geometry()
    k = state.bank.concentrations.expand_as(geometry.radii)
    difference, ratio = miller_difference_and_ratio(int(geometry.nu), geometry.radii, k)
    q = difference + state.bank.biases
    weights = torch.softmax(q, dim=1)
    weights[0, state.labels[0]] -= 1
    tau = state.temperature[:, None]
    slopes = weights * ratio / geometry.radii
    vector = (slopes * k) @ state.bank.directions + slopes.sum() * state.features / tau
    value = cross_entropy(q, state.labels)
    out["miller"] = (abs(float(value) - loss), float((vector[0] / tau[0] - gradient).norm()))
    return out


def card() -> dict[str, str]:
    """Every table by the name of its marker."""
    collection = sf.builtin_collection()
    return {
        "runs": runs_table(),
        "curves": curves_table(),
        "counts": counts_table(collection),
        "tolerance": tolerance_table(collection),
        "losses": loss_table(collection),
    }


def main() -> None:
    """Rewrite the tables in place."""
    path = ROOT / "docs" / "states.md"
    text = path.read_text()
    for name, table in card().items():
        start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        before, rest = text.split(start)
        text = f"{before}{start}{table}\n{end}{rest.split(end)[1]}"
    path.write_text(text)


if __name__ == "__main__":
    main()
