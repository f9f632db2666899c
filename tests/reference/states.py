"""Random and adversarial learning states, and worst-case errors whose exact side is known by construction."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import SoftmaxHead
from suffice.contracts.coupling import loss_change
from suffice.objectives.contrastive import combine
from suffice.realizations.analytic import Prepared

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


def piecewise_errors(prepared: Prepared, b: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Score errors and ratio errors of an error function that is +b or -b between any two neighbouring endpoints.

    Such functions are the extreme points of all error functions bounded by b, as far as the endpoints see them.
    """
    geometry = prepared.geometry
    k = geometry.concentrations.expand_as(geometry.radii)
    ends = torch.cat([k, geometry.radii], dim=1)
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
    states: sf.States, prepared: Prepared, slopes: Tensor, e: Tensor, ratio_errors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss error, TV and gradient error when the exact scores are q = qhat - e and the exact ratio is A - ratio_error.

    Differences of probabilities come from expm1, never from a subtraction.
    """
    head: SoftmaxHead = prepared.head
    log_pi, y = head.log_probabilities, states.labels
    loss = loss_change(log_pi, -e, y).abs()
    # P_j = pi_j exp(-e_j)/Z; in units of the top class' error, so that log Z is small
    shift = e.gather(1, prepared.top[:, None])
    moves = torch.expm1(shift - e)
    log_z = torch.log1p((log_pi.exp() * moves).sum(dim=1, keepdim=True))
    change = log_pi.exp() * torch.expm1(shift - e - log_z)
    tv = 0.5 * change.abs().sum(dim=1)
    exact = (log_pi + (shift - e) - log_z).exp()
    weights = exact.scatter(1, y[:, None], 0.0)
    weights = weights.scatter(1, y[:, None], -weights.sum(dim=1, keepdim=True))
    radii = prepared.geometry.radii
    error_slopes = torch.where(radii > 0, ratio_errors / torch.where(radii > 0, radii, 1.0), 0.0)
    vector = combine(states, -change * slopes) + combine(states, weights * error_slopes)
    return loss, tv, torch.linalg.vector_norm(vector, dim=1) / states.temperature
