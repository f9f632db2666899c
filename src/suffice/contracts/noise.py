"""How noisy the mean gradient of a batch is anyway: the trace of the covariance, estimated (docs/theory, 11.5)."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

__all__ = ["budget_below_noise", "covariance_trace", "outer_covariance_trace"]


def covariance_trace(gradients: Float[Tensor, "samples ..."]) -> float:
    """S, the sum of the variances of all coordinates over at least two samples: an estimate, not a bound.

    >>> from torch import tensor
    >>> covariance_trace(tensor([[1.0, 0.0], [-1.0, 0.0]]))
    2.0
    """
    if gradients.ndim < 1 or len(gradients) < 2:
        raise ValueError(
            f"Expected gradients of at least two samples, one row each, but got shape {tuple(gradients.shape)}: "
            "one sample says nothing about noise"
        )
    rows = gradients.detach().double().flatten(1) if gradients.ndim > 1 else gradients.detach().double()[:, None]
    off = rows - rows.mean(dim=0)
    return float(off.square().sum()) / (len(rows) - 1)


def outer_covariance_trace(left: Float[Tensor, "samples classes"], right: Float[Tensor, "samples dim"]) -> float:
    """The same for samples that are outer products of two vectors, a head's gradients, without forming any of them.

    The inner product of two of them is the product of two inner products, which is all that a variance needs.
    """
    if len(left) < 2 or len(left) != len(right):
        raise ValueError(f"Expected two factors for each of at least two samples, but got {len(left)} and {len(right)}")
    a, b = left.detach().double(), right.detach().double()
    # the Gram matrix of all samples, then centred from both sides
    gram = (a @ a.T) * (b @ b.T)
    centred = gram - gram.mean(dim=0, keepdim=True)
    centred = centred - centred.mean(dim=1, keepdim=True)
    return max(float(centred.diagonal().sum()), 0.0) / (len(a) - 1)


def budget_below_noise(trace: float, batch: int, kappa: float = 0.1) -> float:
    """kappa sqrt(S/n), rounded down: an error that raises the mean square of the mean gradient by (1 + kappa)^2.

    >>> round(budget_below_noise(4.0, 16, 0.1), 9)
    0.05
    """
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 2:
        raise ValueError(
            f"Expected a batch of at least 2 samples, but got {batch}: one sample says nothing about noise"
        )
    if not 0 < trace < math.inf:
        raise ValueError(f"Expected a trace of the gradients' covariance > 0 and finite, but got {trace}")
    if not 0 < kappa < math.inf:
        raise ValueError(f"Expected kappa > 0 and finite, but got {kappa}")
    # down: four roundings of half an ulp each
    return kappa * math.sqrt(trace / batch) * (1 - 2.0**-50)
