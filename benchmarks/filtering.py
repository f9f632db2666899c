"""Filtered cross-entropy over torch's, in time and memory, and what thresholds do on real states.

`python -m benchmarks.filtering capture STATES` writes SmolLM2's head and 1,024 of its states, and
`python -m benchmarks.filtering speed|memory|thresholds [STATES]` is about them, random numbers and the built-in vMF
states; without a file, about the last two only. One thread.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import suffice as sf
from benchmarks.memory import peak_of
from examples.audit_language_model import capture as captured

__all__ = ["app", "bound_over_actual", "certified_thresholds", "floor", "published", "ratio_of_bytes", "ratio_of_times"]

app = typer.Typer(add_completion=False)
Stored = Annotated[Path | None, typer.Argument(help="Captured states; none for random numbers only.")]

_ROWS = 1024
_TILE = 128
_BUDGETS = (0.1, 0.01)


def _steps(
    weight: Tensor, hidden: Tensor, labels: Tensor, budget: float
) -> tuple[sf.nn.FilteredCrossEntropy, Callable[[bool], None]]:
    """A loss, and one forward and backward pass: by it, or by torch's own."""
    head = nn.Linear(weight.shape[1], len(weight), bias=False)
    with torch.no_grad():
        head.weight.copy_(weight)
    loss = sf.nn.FilteredCrossEntropy(head, sf.Budgets(gradient=budget))

    def step(ours: bool) -> None:
        h = hidden.detach().requires_grad_()
        head.weight.grad = None
        value = loss(h, labels) if ours else nn.functional.cross_entropy(head(h), labels)
        value.backward()

    return loss, step


def ratio_of_times(weight: Tensor, hidden: Tensor, labels: Tensor, budget: float, repeats: int = 5) -> dict[str, float]:
    """Seconds of this process of one forward and backward, ours over torch's: interleaved, the best of each."""
    loss, step = _steps(weight, hidden, labels, budget)
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats + 1):
        for ours in (False, True):
            start = time.process_time()
            step(ours)
            times[ours].append(time.process_time() - start)
    assert loss.last is not None
    assert loss.last.certified
    return {
        "time": min(times[True][1:]) / min(times[False][1:]),
        "seconds": min(times[True][1:]),
        "kept": loss.last.kept_share,
    }


def ratio_of_bytes(weight: Tensor, hidden: Tensor, labels: Tensor, budget: float) -> dict[str, float]:
    """Peak bytes beyond inputs and returned gradients of one forward and backward, ours over torch's."""
    loss, step = _steps(weight, hidden, labels, budget)
    for ours in (False, True):
        step(ours)
    returned = 4 * (weight.numel() + hidden.numel())
    bytes_of = {}
    for ours in (False, True):
        loss.head.weight.grad = None
        # what was freed goes back to the system, or it would be there before as well
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        bytes_of[ours] = peak_of(lambda ours=ours: step(ours))[1] - returned  # type: ignore[misc]
    assert loss.last is not None
    assert loss.last.certified
    return {
        "memory": bytes_of[True] / bytes_of[False],
        "megabytes": bytes_of[True] / 1e6,
        "kept": loss.last.kept_share,
    }


def published(weight: Tensor, hidden: Tensor, labels: Tensor, threshold: float = 2**-12) -> dict[str, float]:
    """What a fixed threshold leaves out of real gradients: by element, and by tiles of 128 x 128 as kernels do."""
    logits = (hidden.double() @ weight.double().T).log_softmax(dim=1)
    g = logits.exp()
    rows = torch.arange(len(g))
    g[rows, labels] -= 1
    small = g.abs() < threshold
    out = torch.where(small, g, 0.0)
    exact = g @ weight.double()
    lost = out @ weight.double()
    bound = out.abs() @ weight.double().norm(dim=1)
    height, width = len(g) // _TILE * _TILE, g.shape[1] // _TILE * _TILE
    tiles = small[:height, :width].unflatten(0, (-1, _TILE)).unflatten(2, (-1, _TILE)).all(dim=3).all(dim=1)
    whole = tiles.repeat_interleave(_TILE, dim=0).repeat_interleave(_TILE, dim=1)
    by_tile = torch.where(whole, g[:height, :width], 0.0)
    relative = lost.norm(dim=1) / exact.norm(dim=1)
    relative_tile = (by_tile @ weight[:width].double()).norm(dim=1) / exact[:height].norm(dim=1)
    return {
        "mass left out, mean": float(out.abs().sum(dim=1).mean()),
        "mass left out, most": float(out.abs().sum(dim=1).max()),
        "of the gradient in h, mean": float(relative.mean()),
        "of the gradient in h, most": float(relative.max()),
        "bound over actual, median": float((bound / lost.norm(dim=1)).median()),
        "tiles left out": float(tiles.double().mean()),
        "mass left out by tiles, mean": float(by_tile.abs().sum(dim=1).mean()),
        "mass left out by tiles, most": float(by_tile.abs().sum(dim=1).max()),
        "of the gradient in h by tiles, most": float(relative_tile.max()),
    }


def floor(weight: Tensor, hidden: Tensor, labels: Tensor, repeats: int = 5) -> float:
    """The three bare products over torch's forward and backward: no loss that leaves nothing out can be below."""
    h, w = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    logits = hidden @ weight.T

    def bare() -> None:
        torch.mm(hidden, weight.T, out=logits)
        _ = logits @ weight
        _ = logits.T @ hidden

    def whole() -> None:
        h.grad = w.grad = None
        nn.functional.cross_entropy(h @ w.T, labels).backward()

    times: dict[str, list[float]] = {"bare": [], "whole": []}
    for _ in range(repeats + 1):
        for name, run in (("bare", bare), ("whole", whole)):
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return min(times["bare"][1:]) / min(times["whole"][1:])


def certified_thresholds(parts: list[Any], budget: float, contract: str = "centered") -> dict[str, float]:
    """Quantiles of the certified threshold, residuals that reach it, and what share of states may leave out all."""
    found = [sf.filter_threshold(states, sf.Budgets(gradient=budget), contract=contract) for states in parts]
    each = torch.cat([one.threshold for one in found]).clamp_max(1.0)
    status = np.concatenate([one.status for one in found])
    ends = torch.quantile(each, torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64))
    return {
        "states": len(each),
        **dict(zip(("5%", "50%", "95%"), ends.tolist(), strict=True)),
        "kept, mean": float(torch.cat([one.kept for one in found]).double().mean()),
        "unbounded": float((status == "unbounded").mean()),
        "zero": float((status == "zero").mean()),
    }


def bound_over_actual(parts: list[sf.States], threshold: float) -> dict[str, float]:
    """What a threshold leaves out of the gradients of vMF states, and the filter's bound over it."""
    quotients = []
    for states in parts:
        pair = sf.DebyePair()
        geometry, tau = states.geometry(), states.temperature[:, None]
        g = sf.evaluate(states, pair).log_probabilities.exp()
        g[torch.arange(len(g)), states.labels] -= 1
        slopes = pair.ratio(geometry.nu, geometry.radii) / geometry.radii
        along = torch.where(g.abs() < threshold, g, 0.0) * slopes
        pulls = (along * geometry.concentrations) @ states.bank.directions
        lost = ((pulls + along.sum(dim=1, keepdim=True) * states.features / tau) / tau).norm(dim=1)
        after = sf.Filtered(threshold).at(states).after
        assert after is not None
        quotients.append((after.gradient / lost)[lost > 0])
    every = torch.cat(quotients)
    return {"states": len(every), "median": float(every.median()), "least": float(every.min())}


def _vmf() -> None:
    by_classes: dict[int, list[sf.States]] = {}
    for batch in sf.builtin_collection():
        by_classes.setdefault(batch.states.num_classes, []).append(batch.states)
    for classes, parts in sorted(by_classes.items()):
        _said(f"vMF states of {classes} classes, bound over actual at 2^-12", bound_over_actual(parts, 2**-12))
        for budget in _BUDGETS:
            found = certified_thresholds(parts, budget)
            _said(f"vMF states of {classes} classes, certified thresholds, budget {budget}", found)


def _said(name: str, numbers: dict[str, float]) -> None:
    print(name, {key: float(f"{value:.4g}") for key, value in numbers.items()}, flush=True)


def _stored(states: Path) -> tuple[Tensor, Tensor, Tensor]:
    found = load_file(states)
    hidden, labels = found["hidden"].float()[:_ROWS].contiguous(), found["labels"].long()[:_ROWS]
    return found["weight"].float(), hidden, labels


def _random() -> tuple[Tensor, Tensor, Tensor]:
    """Of the same sizes: softmaxes are flat, and there is nothing to leave out."""
    g = torch.Generator().manual_seed(0)
    weight, hidden = 0.02 * torch.randn(49_152, 576, generator=g), torch.randn(_ROWS, 576, generator=g)
    return weight, hidden, torch.randint(0, len(weight), (_ROWS,), generator=g)


def _both(states: Path | None) -> Iterator[tuple[str, tuple[Tensor, Tensor, Tensor]]]:
    if states is not None:
        yield "stored states", _stored(states)
    yield "random states", _random()


@app.command()
def capture(states: Annotated[Path, typer.Argument(help="Where to write them, as safetensors.")]) -> None:
    """SmolLM2's head, and hidden vectors over Python's reference with the tokens that follow."""
    torch.set_num_threads(1)
    found = captured(_ROWS)
    save_file({"weight": found.weight, "hidden": found.hidden, "labels": found.labels}, states)


@app.command()
def speed(states: Stored = None) -> None:
    """Time of forward and backward over torch's, and that of the three bare products."""
    torch.set_num_threads(1)
    for name, batch in _both(states):
        for budget in _BUDGETS:
            _said(f"{name}, budget {budget}", ratio_of_times(*batch, budget))
        _said(f"{name}, three bare products over torch's", {"time": floor(*batch)})


@app.command()
def memory(states: Stored = None) -> None:
    """Peak memory of forward and backward beyond inputs and gradients, over torch's."""
    torch.set_num_threads(1)
    for name, batch in _both(states):
        for budget in _BUDGETS:
            _said(f"{name}, budget {budget}", ratio_of_bytes(*batch, budget))


@app.command()
def thresholds(states: Stored = None) -> None:
    """What 2^-12 leaves out, and the certified thresholds: of 256 stored states, and of the built-in vMF ones."""
    torch.set_num_threads(1)
    if states is not None:
        weight, hidden, labels = _stored(states)
        _said("2^-12 on stored states", published(weight, hidden[:256], labels[:256]))
        some = sf.HeadStates(sf.LinearHead(weight), hidden[:256], labels[:256])
        for budget in _BUDGETS:
            _said(f"certified thresholds, budget {budget}", certified_thresholds([some], budget, "geometry"))
    _vmf()


if __name__ == "__main__":
    app()
