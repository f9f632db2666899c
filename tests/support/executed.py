"""States that make rounding as bad as they can, and their exact outputs with more digits than one float has."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from tests.reference.exact import exact_outputs

__all__ = ["Exact", "adversarial", "exact_of"]


@dataclass(frozen=True)
class Exact:
    """Exact outputs of some states as sums of two floats, which have a hundred bits."""

    loss: tuple[Tensor, Tensor]
    pi: tuple[Tensor, Tensor]
    gradient: tuple[Tensor, Tensor]


def _halves(rows: list[list[arb]]) -> tuple[Tensor, Tensor]:
    with ctx.workprec(900):
        high = [[float(x.mid()) for x in row] for row in rows]
        low = [
            [float((x - arb(h)).mid()) for x, h in zip(row, first, strict=True)]
            for row, first in zip(rows, high, strict=True)
        ]
    return torch.tensor(high, dtype=torch.float64), torch.tensor(low, dtype=torch.float64)


def exact_of(states: sf.States) -> Exact:
    """The outputs of every state, by Arb from the stored inputs."""
    rows = [exact_outputs(states[i : i + 1]) for i in range(len(states))]
    for row in rows:
        assert all(x.rad() < 1e-60 * (1 + abs(x)) for x in (row.loss, *row.probabilities, *row.gradient))
    return Exact(
        loss=_halves([[row.loss] for row in rows]),
        pi=_halves([row.probabilities for row in rows]),
        gradient=_halves([row.gradient for row in rows]),
    )


def adversarial(seed: int, queries: int, classes: int, dim: int) -> sf.States:
    """Inputs that make rounding as bad as they can: cancelling products, huge k, nearly equal radii, odd scales."""
    g = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=g, dtype=torch.float64)

    mu = torch.nn.functional.normalize(normal(classes, dim), dim=1)
    k = 10 ** (6 * torch.rand(classes, generator=g, dtype=torch.float64) - 1)
    f = torch.nn.functional.normalize(normal(queries, dim), dim=1)
    tau = 10 ** (2 * torch.rand(queries, generator=g, dtype=torch.float64) - 2)
    labels = torch.randint(0, classes, (queries,), generator=g)
    kind = seed % 7
    if kind == 0:
        # products that cancel: f orthogonal to every direction but for the last digits
        q, _ = torch.linalg.qr(mu[: min(classes, dim - 1)].T)
        f = f - (f @ q) @ q.T
        f = torch.nn.functional.normalize(f, dim=1)
    if kind == 1:
        # alternating signs of equal size: sums of terms that all cancel
        mu = torch.sign(normal(classes, dim)) / dim**0.5
        f = torch.sign(normal(queries, dim)) / dim**0.5
    if kind == 2:
        k = torch.full_like(k, 1e5)
    if kind == 3:
        # nearly equal radii
        mu = torch.nn.functional.normalize(mu[:1] + 1e-7 * normal(classes, dim), dim=1)
        k = 300 * (1 + 1e-8 * normal(classes))
    if kind == 4:
        # f = -tau k mu for the first query: zero radius
        k = k.clamp_max(100.0)
        f[0] = -tau[0] * k[labels[0]] * mu[labels[0]]
    if kind == 5:
        # radii of the size of their own rounding: the executed one may be zero where the exact one is not
        k = k.clamp(1.0, 100.0)
        size = 10 ** (-5 + 4 * torch.rand(queries, 1, generator=g, dtype=torch.float64))
        f = tau[:, None] * (
            -k[labels][:, None] * mu[labels] + size * torch.nn.functional.normalize(normal(queries, dim), dim=1)
        )
    biases = normal(classes) * (0.0, 1.0, 20.0)[seed % 3]
    return sf.States(sf.ClassBank(mu, k, biases), f, labels, tau)
