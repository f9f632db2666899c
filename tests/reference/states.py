"""Random and adversarial learning states, and worst-case errors whose exact side is known by construction."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

import suffice as sf

SHAPES = [(2, 5), (2, 128), (3, 7), (5, 16), (7, 64), (20, 33), (50, 128), (100, 512), (400, 1024), (2000, 64)]


def random_states(seed: int, queries: int, shapes: list[tuple[int, int]] = SHAPES) -> sf.States:
    """One bank and some queries: concentrations 0..1e5, temperatures 0.01..10, features short and long, odd cases."""
    g = torch.Generator().manual_seed(seed)

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    classes, dim = shapes[seed % len(shapes)]
    mu = torch.nn.functional.normalize(torch.randn(classes, dim, generator=g, dtype=torch.float64), dim=1)
    k = 10 ** (6 * uniform(classes) - 1)
    kind = seed % 7
    if kind == 1:
        k[: classes // 2] = 0.0
    if kind == 2:
        # clusters: nearly equal classes, exact ties among them
        mu[1::2] = mu[0]
        k[1::2] = k[0]
    if kind == 3:
        k = k.clamp_max(50.0)
    labels = torch.randint(0, classes, (queries,), generator=g)
    tau = 10 ** (3 * uniform(queries) - 2)
    noise = torch.randn(queries, dim, generator=g, dtype=torch.float64) / dim**0.5
    f = torch.nn.functional.normalize(mu[labels] * uniform(queries, 1) * 2 + noise, dim=1)
    f = f * 10 ** (2 * uniform(queries, 1) - 1)
    biases = torch.randn(classes, generator=g, dtype=torch.float64) * (0.0, 1.0, 30.0)[seed % 3]
    if kind == 4:
        # saturation: the target of the first query far above or below the rest, 1e-200 and beyond
        biases[labels[0]] += (460.0, -460.0)[seed % 2]
    if kind == 5:
        f[0] = 0.0
    if kind == 6:
        # zero radius: f = -tau k mu for the first query
        k[labels[0]] = k[labels[0]].clamp_max(100.0)
        f[0] = -tau[0] * k[labels[0]] * mu[labels[0]]
    return sf.States(sf.ClassBank(mu, k, biases), f, labels, tau)


def many_states(count: int, queries: int = 20, shapes: list[tuple[int, int]] = SHAPES) -> Iterator[sf.States]:
    """At least `count` states in banks of `queries`."""
    for seed in range((count + queries - 1) // queries):
        yield random_states(seed, queries, shapes)


def piecewise_errors(k: Tensor, radii: Tensor, b: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Score errors and ratio errors of an error function that is +b or -b between any two neighbouring endpoints.

    Such functions are the extreme points of all error functions bounded by b, as far as the endpoints k_j and r_j see
    them.
    """
    k = k.expand_as(radii)
    ends = torch.cat([k, radii], dim=1)
    order = ends.argsort(dim=1)
    widths = ends.gather(1, order).diff(dim=1, prepend=torch.zeros(len(ends), 1, dtype=ends.dtype))
    share = torch.rand(len(ends), 1, generator=generator, dtype=ends.dtype)
    signs = torch.where(torch.rand(ends.shape, generator=generator, dtype=ends.dtype) < share, 1.0, -1.0)
    primitive = torch.zeros_like(ends).scatter(1, order, (widths * signs).cumsum(dim=1))
    classes = k.shape[1]
    scores = (primitive[:, classes:] - primitive[:, :classes]) * b[:, None]
    ratio_signs = torch.where(torch.rand(k.shape, generator=generator, dtype=k.dtype) < 0.5, 1.0, -1.0)
    return scores, ratio_signs * b[:, None]


def actual_errors(
    states: sf.States, log_pi: Tensor, radii: Tensor, slopes: Tensor, e: Tensor, ratio_errors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss error, TV and gradient error when the exact scores are q = qhat - e and the exact ratio is A - ratio_error.

    `log_pi` are the approximate log-probabilities and `slopes` are A(r_j)/r_j, so that hhat_j is slope_j v_j with
    v_j = k_j mu_j + f/tau. Differences of probabilities come from expm1, never from a subtraction.
    """
    y = states.labels[:, None]
    # -log P_y + log pi_y: the others gain or lose exp(e_y - e_j) against the target
    others = log_pi.exp().scatter(1, y, 0.0)
    loss = torch.log1p((others * torch.expm1(e.gather(1, y) - e)).sum(dim=1)).abs()
    # P_j = pi_j exp(-e_j)/Z; in units of the top class' error, so that log Z is small
    shift = e.gather(1, log_pi.argmax(dim=1, keepdim=True))
    log_z = torch.log1p((log_pi.exp() * torch.expm1(shift - e)).sum(dim=1, keepdim=True))
    change = log_pi.exp() * torch.expm1(shift - e - log_z)
    tv = 0.5 * change.abs().sum(dim=1)
    # P_j - 1_y, the target's as minus the sum of the others
    weights = (log_pi + (shift - e) - log_z).exp().scatter(1, y, 0.0)
    weights = weights.scatter(1, y, -weights.sum(dim=1, keepdim=True))
    # of the vectors v_j = r_j (unit vector); where r_j is 0 so is the vector
    inverse = torch.where(radii > 0, 1 / torch.where(radii > 0, radii, 1.0), 0.0)
    factors = weights * ratio_errors * inverse - change * slopes
    pulled = torch.einsum("qc,c,cp->qp", factors, states.bank.concentrations, states.bank.directions)
    vector = pulled + torch.einsum("qc,qp->qp", factors, states.features) / states.temperature[:, None]
    return loss, tv, torch.linalg.vector_norm(vector, dim=1) / states.temperature
