"""From feature gradients to parameters, and from updates to budgets (sec:discussion)."""

from __future__ import annotations

import math
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

_EPS, _TINY = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny


def jacobian(encoder: Encoder, parameters: Float[Tensor, " parameters"]) -> Float[Tensor, "dim parameters"]:
    """d f/d theta of one feature vector at one flat parameter vector, as autograd computes it."""
    matrix: Tensor = torch.func.jacrev(encoder)(parameters)
    if matrix.ndim != 2:
        raise ValueError(
            f"Expected encoder to map a flat parameter vector to one feature vector, got {matrix.ndim} axes"
        )
    return matrix


def jacobian_spectral_norm(encoder: Encoder, parameters: Float[Tensor, " parameters"]) -> Float[Tensor, ""]:
    """|J| in the 2-norm, by a singular value decomposition, for small encoders. Not a bound.

    It is exact up to the rounding of the decomposition, which may leave it below the norm: `jacobian_norm_bound` is
    what `parameter_gradient_bound` should be given where a proof is wanted.

    >>> round(jacobian_spectral_norm(lambda theta: 3 * theta, torch.ones(2, dtype=torch.float64)).item(), 12)
    3.0
    """
    norm: Tensor = torch.linalg.matrix_norm(jacobian(encoder, parameters), ord=2)
    return norm


def jacobian_norm_bound(encoder: Encoder, parameters: Float[Tensor, " parameters"]) -> Float[Tensor, ""]:
    """The Frobenius norm of J, an upper bound on its 2-norm, rounded outward.

    J is taken as autograd computes it: the rounding of its entries, which depends on the encoder, is not covered.

    >>> jacobian_norm_bound(lambda theta: 3 * theta, torch.ones(2, dtype=torch.float64)).item()  # doctest: +ELLIPSIS
    4.2426406871...
    """
    matrix = jacobian(encoder, parameters)
    entries = matrix.flatten().double()
    # outward: past the roundings of a sum of squares and its root, and never a subnormal number that lost its digits
    length = safe_length(entries[None])[0] * (1 + (len(entries) + 8) * _EPS)
    return _rounded_up(torch.where(entries.any(), length.clamp_min(_TINY), 0.0), matrix.dtype)


def jacobian_norm_estimate(
    encoder: Encoder, parameters: Float[Tensor, " parameters"], *, steps: int = 20, seed: int = 0
) -> Float[Tensor, ""]:
    """Power iteration on J^T J without forming J: an *estimate* from below, never a bound. For large encoders.

    >>> theta = torch.tensor([3.0, 1.0], dtype=torch.float64)
    >>> round(jacobian_norm_estimate(lambda x: x * x, theta, steps=50).item(), 9)
    6.0
    """
    if steps < 1:
        raise ValueError(f"Expected steps >= 1, but got {steps}")
    generator = torch.Generator(device=parameters.device).manual_seed(seed)
    v = torch.randn(parameters.shape, generator=generator, dtype=parameters.dtype, device=parameters.device)
    size = torch.zeros((), dtype=parameters.dtype, device=parameters.device)
    for _ in range(steps):
        v = v / torch.linalg.vector_norm(v)
        forward = torch.func.jvp(encoder, (parameters,), (v,))[1]
        pull = torch.func.vjp(encoder, parameters)[1]
        size = torch.linalg.vector_norm(forward)
        if not bool(size > 0):
            break
        (v,) = pull(forward)
    return size


def parameter_gradient_bound(
    feature_bound: Float[Tensor, "*shape"], jacobian_norm: Tensor | float
) -> Float[Tensor, "*shape"]:
    """|d grad_theta L| <= |J| |d grad_f L|: the feature-gradient bound carried to the parameters, rounded outward.

    A bound if `jacobian_norm` is one (`jacobian_norm_bound`); with an estimate of |J| the result is an estimate. The
    parameters are those of the encoder of f, with class statistics and temperature held fixed. What is not known is
    infinite: a bound of infinity stays one, whatever it is multiplied by.

    >>> bound = parameter_gradient_bound(torch.tensor([1e-5, torch.inf], dtype=torch.float64), 2.0)
    >>> bool(bound[0] > 2e-5), round(bound[0].item(), 12), bound[1].item()
    (True, 2e-05, inf)
    """
    norm = torch.as_tensor(jacobian_norm, dtype=torch.float64, device=feature_bound.device)
    bound = feature_bound.double()
    if bool((norm < 0).any()) or bool((bound < 0).any()):
        raise ValueError("Expected feature_bound and jacobian_norm >= 0, but got a negative value")
    # outward: a product that underflows is the smallest normal number, unless a factor is zero
    product = (bound * norm * (1 + 4 * _EPS)).clamp_min(_TINY)
    product = torch.where((bound == 0) | (norm == 0), 0.0, product)
    unknown = ~(torch.isfinite(bound) & torch.isfinite(norm))
    return _rounded_up(torch.where(unknown, torch.inf, product), feature_bound.dtype)


def budget_relative_to_gradient(gradient: Float[Tensor, "queries dim"], share: float) -> Float[Tensor, " queries"]:
    """A gradient budget for each state: a share of its current gradient norm, rounded down.

    `Budgets` refuses the budget 0 of a state without gradient: clamp it to what may be ignored.

    >>> budget_relative_to_gradient(torch.tensor([[3.0, 4.0]]), 0.01).tolist()  # doctest: +ELLIPSIS
    [0.0499999...]
    """
    if not 0 < share < math.inf:
        raise ValueError(f"Expected share > 0 and finite, but got {share}")
    # the gradient of a saturated state may be 1e-175: its squares underflow
    budget = share * safe_length(gradient.double()) * (1 - (gradient.shape[1] + 12) * _EPS)
    # below the normal numbers digits are lost upward as well
    return -_rounded_up(-torch.where(budget < 2 * _TINY, 0.0, budget), gradient.dtype)


def budget_for_update(learning_rate: float, perturbation: float) -> float:
    """The gradient budget under which one gradient step moves by at most `perturbation` more or less than it should.

    The step is -learning_rate times the gradient; the quotient is rounded down.

    >>> budget_for_update(0.5, 1e-6)  # doctest: +ELLIPSIS
    1.999999...e-06
    """
    if not (0 < learning_rate < math.inf and 0 < perturbation < math.inf):
        raise ValueError(
            f"Expected learning_rate and perturbation > 0 and finite, but got {learning_rate} and {perturbation}"
        )
    return math.nextafter(perturbation / learning_rate, 0.0)


def _rounded_up(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Float64 values in another dtype, never below them."""
    rounded = values.to(dtype)
    above = torch.nextafter(rounded, torch.full_like(rounded, torch.inf))
    return torch.where(rounded.double() < values, above, rounded)
