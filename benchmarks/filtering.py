"""Filtered cross-entropy over torch's, in time and memory, and what thresholds do on real states.

`python -m benchmarks.filtering [HEAD.safetensors]`: a file with weight [V, p], hidden [N, p] and labels [N], such as a
language model's head and its inputs; without one, random numbers only. One thread.
"""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import suffice as sf
from benchmarks.memory import peak_of

__all__ = ["compared", "main", "published"]

_ROWS = 1024
_TILE = 128


def compared(weight: Tensor, hidden: Tensor, labels: Tensor, budget: float, repeats: int = 3) -> dict[str, float]:
    """Seconds (of this process) and bytes beyond gradients of one forward and backward, ours over torch's."""
    head = nn.Linear(weight.shape[1], len(weight), bias=False)
    with torch.no_grad():
        head.weight.copy_(weight)
    loss = sf.nn.FilteredCrossEntropy(head, sf.Budgets(gradient=budget))

    def step(ours: bool) -> None:
        h = hidden.detach().requires_grad_()
        head.weight.grad = None
        value = loss(h, labels) if ours else nn.functional.cross_entropy(head(h), labels)
        value.backward()

    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats + 1):
        for ours in (False, True):
            start = time.process_time()
            step(ours)
            times[ours].append(time.process_time() - start)
    returned = 4 * (weight.numel() + hidden.numel())
    bytes_of = {}
    for ours in (False, True):
        head.weight.grad = None
        # what was freed goes back to the system, or it would be there before as well
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        bytes_of[ours] = peak_of(lambda ours=ours: step(ours))[1] - returned  # type: ignore[misc]
    assert loss.last is not None
    assert loss.last.certified
    return {
        "time": min(times[True][1:]) / min(times[False][1:]),
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


def _said(name: str, numbers: dict[str, float]) -> None:
    print(name, {key: float(f"{value:.4g}") for key, value in numbers.items()}, flush=True)


def main() -> None:
    """Everything, as lines."""
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)
    if len(sys.argv) > 1:
        stored = load_file(Path(sys.argv[1]))
        weight, hidden = stored["weight"].float(), stored["hidden"].float()[:_ROWS].contiguous()
        labels = stored["labels"].long()[:_ROWS]
        for budget in (0.1, 0.01):
            _said(f"stored states, budget {budget}", compared(weight, hidden, labels, budget))
        _said("2^-12 on stored states", published(weight, hidden[:256], labels[:256]))
        states = sf.HeadStates(sf.LinearHead(weight), hidden[:128], labels[:128])
        for budget in (0.1, 0.01):
            found = sf.filter_threshold(states, sf.Budgets(gradient=budget), contract="geometry")
            ends = torch.quantile(found.threshold.clamp_max(1.0), torch.tensor([0.05, 0.5, 0.95], dtype=torch.float64))
            numbers = dict(zip(("5%", "50%", "95%"), ends.tolist(), strict=True))
            numbers["kept, mean"] = float(found.kept.double().mean())
            numbers["unbounded"] = float((found.status == "unbounded").mean())
            _said(f"certified thresholds, budget {budget}", numbers)
    weight, hidden = 0.02 * torch.randn(49_152, 576, generator=g), torch.randn(_ROWS, 576, generator=g)
    labels = torch.randint(0, len(weight), (_ROWS,), generator=g)
    _said("random states, budget 0.01", compared(weight, hidden, labels, 0.01))


if __name__ == "__main__":
    main()
