"""From feature gradients to parameters, and from updates to budgets (sec:discussion)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.compensated import safe_length

__all__ = [
    "budget_for_update",
    "budget_relative_to_gradient",
    "jacobian",
    "jacobian_norm_bound",
    "jacobian_norm_estimate",
    "jacobian_spectral_norm",
    "parameter_gradient_bound",
]

Encoder = Callable[[Tensor], Tensor]


def jacobian(encoder: Encoder, parameters: Float[Tensor, " parameters"]) -> Float[Tensor, "dim parameters"]:
    """d f/d theta of one feature vector at one flat parameter vector."""
    matrix: Tensor = torch.func.jacrev(encoder)(parameters)
    if matrix.ndim != 2:
        raise ValueError(
            f"Expected encoder to map a flat parameter vector to one feature vector, got {matrix.ndim} axes"
        )
    return matrix


def jacobian_spectral_norm(encoder: Encoder, parameters: Float[Tensor, " parameters"]) -> Float[Tensor, ""]:
    """|J| in the 2-norm, by a singular value decomposition: exact up to rounding, for small encoders."""
    norm: Tensor = torch.linalg.matrix_norm(jacobian(encoder, parameters), ord=2)
    return norm


def jacobian_norm_bound(encoder: Encoder, parameters: Float[Tensor, " parameters"]) -> Float[Tensor, ""]:
    """The Frobenius norm of J, an upper bound on its 2-norm, rounded outward."""
    entries = jacobian(encoder, parameters).flatten()
    return safe_length(entries[None])[0] * (1 + (len(entries) + 8) * torch.finfo(entries.dtype).eps)


def jacobian_norm_estimate(
    encoder: Encoder, parameters: Float[Tensor, " parameters"], *, steps: int = 20, seed: int = 0
) -> Float[Tensor, ""]:
    """Power iteration on J^T J without forming J: an *estimate* from below, never a bound. For large encoders."""
    generator = torch.Generator(device=parameters.device).manual_seed(seed)
    v = torch.randn(parameters.shape, generator=generator, dtype=parameters.dtype, device=parameters.device)
    size = torch.zeros((), dtype=parameters.dtype, device=parameters.device)
    for _ in range(steps):
        v = v / torch.linalg.vector_norm(v)
        forward = torch.func.jvp(encoder, (parameters,), (v,))[1]
        pull = torch.func.vjp(encoder, parameters)[1]
        size = torch.linalg.vector_norm(forward)
        (v,) = pull(forward)
    return size


def parameter_gradient_bound(feature_bound: Float[Tensor, ...], jacobian_norm: Tensor | float) -> Float[Tensor, ...]:
    """|d grad_theta L| <= |J| |d grad_f L|: the feature-gradient bound carried to the parameters."""
    return feature_bound * jacobian_norm


def budget_relative_to_gradient(gradient: Float[Tensor, "queries dim"], share: float) -> Float[Tensor, " queries"]:
    """A gradient budget for each state: a share of its current gradient norm."""
    if not share > 0:
        raise ValueError(f"Expected share > 0, but got {share}")
    # the gradient of a saturated state may be 1e-175: its squares underflow
    return share * safe_length(gradient)


def budget_for_update(learning_rate: float, perturbation: float) -> float:
    """The gradient budget under which one gradient step moves by at most `perturbation` more or less than it should."""
    if not (learning_rate > 0 and perturbation > 0):
        raise ValueError(f"Expected learning_rate and perturbation > 0, but got {learning_rate} and {perturbation}")
    return perturbation / learning_rate
