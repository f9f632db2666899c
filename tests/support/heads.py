"""Small softmax heads with explicit class-gradient vectors, and what errors of scores and vectors really do to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

import suffice as sf

__all__ = ["Vectors", "actual_changes", "corner_errors", "random_head", "stressed_head"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """One head, its approximate class-gradient vectors hhat [classes, dim] and allowances for its errors."""

    head: sf.SoftmaxHead
    vectors: Tensor
    allowances: sf.Allowances


def random_head(seed: int, classes: int = 4, *, largest: float = 0.3) -> Vectors:
    """Scores over several magnitudes, vectors of length at most 1 - a_j, so that every |h_j| is at most 1."""
    g = torch.Generator().manual_seed(seed)

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    scores = (uniform(1, classes) - 0.5) * (1.0, 6.0, 20.0)[seed % 3]
    log_pi = scores - scores.logsumexp(dim=1, keepdim=True)
    size = largest * 10 ** (-4 * uniform(1, 1))
    d, a = size * uniform(1, classes), size * uniform(1, classes)
    vectors = torch.nn.functional.normalize(torch.randn(classes, 6, generator=g, dtype=torch.float64), dim=1)
    vectors = vectors * (1 - a[0])[:, None] * uniform(classes, 1)
    mean = (log_pi[0].exp()[:, None] * vectors).sum(dim=0)
    head = sf.SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.tensor([seed % classes]),
        gradient_scale=10 ** (2 * uniform(1) - 1),
        distances=torch.linalg.vector_norm(vectors - mean, dim=1)[None],
    )
    return Vectors(head=head, vectors=vectors, allowances=sf.Allowances(d=d, a=a))


def stressed_head(seed: int, classes: int) -> tuple[sf.SoftmaxHead, sf.Allowances]:
    """Where each of the terms is the largest: sparse vectors, ratio allowances and distances of one class only."""
    g = torch.Generator().manual_seed(seed)
    rows = 24

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    scores = 4 * uniform(rows, classes)
    d = uniform(rows, classes) * (uniform(rows, classes) < 0.5)
    a = uniform(rows, classes) * (uniform(rows, classes) < 0.5) * 10 ** (4 * uniform(rows, 1) - 2)
    rho = uniform(rows, classes) * (uniform(rows, classes) < 0.5) * 10 ** (-4 * uniform(rows, 1))
    log_pi = torch.log_softmax(scores, dim=1)
    head = sf.SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.randint(0, classes, (rows,), generator=g),
        gradient_scale=10 ** (2 * uniform(rows)),
        distances=rho,
    )
    top = log_pi.argmax(dim=1)

    def matched(index: Tensor) -> Tensor:
        share = uniform(rows, 1) * uniform(rows, classes)
        return ((d + d.gather(1, index[:, None])) * share).scatter(1, index[:, None], 0.0)

    return head, sf.Allowances(d=d, a=a, to_target=matched(head.target), to_top=matched(top))


def corner_errors(d: Tensor) -> Iterator[Tensor]:
    """All corners of the box |e_j| <= d_j, for one row."""
    for signs in product((-1.0, 1.0), repeat=d.shape[1]):
        yield d[0] * torch.tensor(signs, dtype=d.dtype)


def actual_changes(made: Vectors, e: Tensor, moved: Tensor) -> dict[str, float]:
    """Loss error, TV and gradient error where the exact scores are qhat - e and the exact vectors are hhat - moved."""
    log_pi, y = made.head.log_probabilities[0], int(made.head.target)
    exact = log_pi - e
    log_p = exact - exact.logsumexp(dim=0)
    target = torch.zeros_like(log_pi)
    target[y] = 1.0
    gradients = [
        ((p.exp() - target)[:, None] * h).sum(dim=0) for p, h in ((log_pi, made.vectors), (log_p, made.vectors - moved))
    ]
    return {
        "loss": abs(float(log_p[y] - log_pi[y])),
        "probability": 0.5 * float((log_p.exp() - log_pi.exp()).abs().sum()),
        "gradient": float(torch.linalg.vector_norm(gradients[0] - gradients[1]) * made.head.gradient_scale[0]),
    }
