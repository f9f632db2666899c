"""Heads and hidden vectors that screening finds hard: ties, duplicates, outliers, zeros, huge and tiny numbers."""

from __future__ import annotations

import torch
from torch import Tensor

import suffice as sf
from suffice.realizations.screening.search import Approximate
from suffice.realizations.screening.units import Batch, ScaledHead

__all__ = ["KINDS", "hard_head", "made_at"]

KINDS = (
    "gaussian",
    "duplicated rows",
    "outliers",
    "zero rows",
    "two classes",
    "one ulp",
    "one ulp of float64",
    "cancelling",
    "half precision's end",
    "huge",
    "tiny",
    "huge rows, tiny vectors",
    "mixed rows",
    "small integers",
    "biases and masks",
    "tiny biases",
    "bfloat16 rows",
    "one channel",
)


def hard_head(kind: str, seed: int, states: int = 4) -> tuple[sf.LinearHead, Tensor]:
    """A head of some dozens of classes, and hidden vectors."""
    g = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=g, dtype=torch.float64)

    classes = int(torch.randint(3, 90, (1,), generator=g))
    dim = int(torch.randint(1, 24, (1,), generator=g))
    w, h, bias = normal(classes, dim), normal(states, dim), None
    single = True
    if kind == "duplicated rows":
        w[torch.randint(0, classes, (classes // 2,), generator=g)] = w[0].clone()
        h[1:] = w[:1] + 0.1 * h[1:]
    elif kind == "outliers":
        h[:, 0] *= 1e4
    elif kind == "zero rows":
        w[::2] = 0
        h[0] = 0
        h[1:] = -w[1:2].abs() * h[1:].abs()
    elif kind == "two classes":
        w = w[:2]
    elif kind == "one ulp":
        w = w[:1].float().expand(classes, -1).clone().double()
        step = torch.randint(-1, 2, w.shape, generator=g)
        ends = torch.where(step > 0, torch.inf, -torch.inf).float()
        w = torch.where(step == 0, w.float(), torch.nextafter(w.float(), ends)).double()
    elif kind == "one ulp of float64":
        single = False
        w = w[:1].expand(classes, -1).clone()
        step = torch.randint(-1, 2, w.shape, generator=g)
        w = torch.where(step == 0, w, torch.nextafter(w, torch.where(step > 0, torch.inf, -torch.inf).double()))
    elif kind == "cancelling":
        single = False
        w[:, -1] = 2.0**-60 * torch.randint(-2, 3, (classes,), generator=g)
        w[:, :-1] = 1.0
        h[:, :] = 1.0
    elif kind == "half precision's end":
        w, h = w * 3e4, h * 3e4
    elif kind == "huge":
        single = False
        w, h = w * 1e200, h * 1e300
    elif kind == "tiny":
        single = False
        w, h = w * 1e-300, h * 1e-305
    elif kind == "huge rows, tiny vectors":
        single = False
        w, h = w * 1e300, h * 1e-308
    elif kind == "mixed rows":
        w = w * 10.0 ** torch.randint(-30, 30, (classes, 1), generator=g)
    elif kind == "small integers":
        w, h = w.round(), h.round()
    elif kind == "biases and masks":
        bias = normal(classes).round()
        bias[torch.randint(1, classes, (1,), generator=g)] = -torch.inf
    elif kind == "tiny biases":
        bias = normal(classes) * 1e-310
        w[1:] = w[:1]
    elif kind == "bfloat16 rows":
        return sf.LinearHead(w.bfloat16()), h.float()
    elif kind == "one channel":
        h[:, 1:] = 0
    if single:
        w, h = w.float(), h.float()
    return sf.LinearHead(w, bias), h


def made_at(head: sf.LinearHead, hidden: Tensor, seed: int, size: float) -> tuple[Batch, Approximate]:
    """Scores that are off by anything within d, which is of this size and differs from class to class."""
    batch = Batch(ScaledHead(head), hidden.double())
    every = torch.arange(head.num_classes).repeat(len(hidden))
    states = torch.arange(len(hidden)).repeat_interleave(head.num_classes)
    exact = batch.exact(states, every).value.view(len(hidden), -1)
    g = torch.Generator().manual_seed(seed)
    d = size * torch.rand(exact.shape, generator=g, dtype=torch.float64)
    ends = 2 * torch.randint(0, 2, exact.shape, generator=g) - 1
    masked = head.masked.expand_as(d)
    return batch, Approximate(
        scores=torch.where(masked, exact, exact + 0.999 * ends * d), d=torch.where(masked, 0.0, d + 1e-12)
    )
