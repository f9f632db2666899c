"""Unit samples from von Mises-Fisher distributions, by rejection in the one coordinate that matters."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.checks import finite, finite_nonnegative, real_tensor

__all__ = ["sample_vmf"]

_MOST_ROUNDS = 10_000


def sample_vmf(
    directions: Float[Tensor, "queries dim"],
    concentrations: Float[Tensor, " queries"],
    count: int,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "queries count dim"]:
    """`count` unit vectors for each mean direction, with density proportional to exp(kappa mu.s).

    The cosine w = mu.s has density proportional to exp(kappa w)(1 - w^2)^((p-3)/2); it is drawn by Ulrich's rejection
    from a transformed Beta variate (as corrected by Wood), the rest of s is uniform orthogonal to mu.
    """
    mu, kappa = real_tensor("directions", directions), real_tensor("concentrations", concentrations)
    finite("directions", mu)
    finite_nonnegative("concentrations", kappa)
    if mu.ndim != 2 or kappa.shape != mu.shape[:1] or mu.shape[1] < 2 or count < 1:
        raise ValueError(
            f"Expected directions [N, p] with p >= 2, concentrations [N] and count >= 1, "
            f"but got {tuple(mu.shape)}, {tuple(kappa.shape)} and {count}"
        )
    mu = torch.nn.functional.normalize(mu, dim=1)
    cosine = _cosines(kappa, mu.shape[1], count, generator)
    noise = torch.randn(*mu.shape[:1], count, mu.shape[1], generator=generator, dtype=mu.dtype, device=mu.device)
    along = (noise * mu[:, None]).sum(dim=2, keepdim=True)
    sideways = torch.nn.functional.normalize(noise - along * mu[:, None], dim=2)
    sine = torch.sqrt((1 - cosine) * (1 + cosine))
    return cosine[..., None] * mu[:, None] + sine[..., None] * sideways


def _cosines(kappa: Tensor, dim: int, count: int, generator: torch.Generator | None) -> Tensor:
    half = (dim - 1) / 2
    k = kappa[:, None].expand(-1, count)
    # b = (sqrt(4 kappa^2 + (p-1)^2) - 2 kappa)/(p-1), without cancellation
    b = (2 * half) / (2 * k + torch.sqrt(4 * k * k + (2 * half) ** 2))
    x = (1 - b) / (1 + b)
    c = k * x + 2 * half * torch.log1p(-x * x)
    out = torch.empty_like(k)
    open_ = torch.ones_like(k, dtype=torch.bool)
    for _ in range(_MOST_ROUNDS):
        # Beta(half, half) as a ratio of Gamma variates; torch's Gamma sampler takes the generator
        shape = torch.full_like(k, half)
        first, second = (torch._standard_gamma(shape, generator=generator) for _ in range(2))
        z = first / (first + second)
        w = (1 - (1 + b) * z) / (1 - (1 - b) * z)
        u = torch.rand(k.shape, generator=generator, dtype=k.dtype, device=k.device)
        accepted = open_ & (k * w + 2 * half * torch.log1p(-x * w) - c >= torch.log(u))
        out = torch.where(accepted, w, out)
        open_ &= ~accepted
        if not bool(open_.any()):
            return out
    raise RuntimeError(f"vMF rejection did not finish in {_MOST_ROUNDS} rounds for kappa up to {kappa.max().item()}")
