"""Softmax heads in which one class has all but 1e-3 to 1e-270 of the mass, with allowances that may be nothing."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.centered import CENTERED
from suffice.contracts.family import SoftmaxFamily
from suffice.numerics.softmax import log_softmax

__all__ = ["saturated_family"]

_CLASSES = (2, 3, 5, 17, 60, 200)


def saturated_family(seed: int, rows: int = 16) -> SoftmaxFamily:
    """Some with ties, classes that do not move, rows in which nothing does, targets that are not the top class."""
    g = torch.Generator().manual_seed(seed)
    classes = _CLASSES[seed % len(_CLASSES)]

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    scores = -(10 ** (0.9 + 1.9 * uniform(rows, 1))) - 10 ** (3 * uniform(rows, 1) - 2) * uniform(rows, classes)
    scores.scatter_(1, torch.randint(0, classes, (rows, 1), generator=g), 0.0)
    if seed % 7 == 0:
        scores[:2, 0] = scores[:2, -1] = 0.0
    log_pi = log_softmax(scores)
    top = log_pi.argmax(dim=1)
    target = torch.where(uniform(rows) < 0.8, top, torch.randint(0, classes, (rows,), generator=g))
    d = 10 ** (8 * uniform(rows, 1) - 5) * (uniform(rows, classes) + 0.01)
    if seed % 5 == 0:
        d[::4] = 0.0
    if seed % 5 == 1:
        d[:, ::2] = 0.0
    part = uniform(rows, classes) if seed % 3 else 1.0
    mass = log_pi.scatter(1, top[:, None], -math.inf).logsumexp(dim=1).exp()
    distances = (2 * uniform(rows, classes)).scatter(1, top[:, None], (mass * uniform(rows))[:, None]).clamp_min(1e-300)
    head = sf.SoftmaxHead(
        log_probabilities=log_pi,
        target=target,
        gradient_scale=10 ** (4 * uniform(rows) - 2),
        distances=distances,
        log_error=10 ** (6 * uniform(rows) - 17),
    )
    unit = sf.Allowances(
        d=d,
        a=10 ** (4 * uniform(rows, 1) - 3) * (uniform(rows, classes) if seed % 2 else torch.ones_like(d)),
        to_target=_towards(d, part, target),
        to_top=_towards(d, part, top),
    )
    return SoftmaxFamily(contract=CENTERED, head=head, unit=unit)


def _towards(d: Tensor, part: Tensor | float, index: Tensor) -> Tensor:
    return (part * (d + d.gather(1, index[:, None]))).scatter(1, index[:, None], 0.0)
