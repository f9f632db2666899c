"""The formulas of the Debye ladder as pure tensor code: ratio, its derivative, potential, stable difference.

Nothing here checks its arguments; `DebyePair` and `suffice.special` do. Every function takes nu as a float or as a
tensor that broadcasts, and runs unchanged in eager mode and under `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from suffice.numerics.compensated import squared_radius
from suffice.numerics.compiling import traced_constant
from suffice.numerics.derivatives import with_derivative
from suffice.pairs.coefficients import (
    derivative_polynomial,
    potential_polynomial,
    ratio_polynomial,
)
from suffice.pairs.constants import concrete
from suffice.pairs.polynomials import Polynomial, shift_center

__all__ = [
    "CENTER",
    "Endpoint",
    "correction",
    "difference",
    "difference_from_radii",
    "endpoint",
    "potential",
    "ratio",
    "ratio_complement",
    "ratio_derivative",
    "slope",
    "slope_difference",
    "slope_from_radii",
    "tail_divided",
    "tail_polynomial",
]

# The polynomials alternate with large coefficients: in powers of t the terms of order 6 at nu = 3/2 add up to 900
# times their sum. In powers of t - 3/4 it is 14 times, for one subtraction more.
_CENTER = Fraction(3, 4)
CENTER = float(_CENTER)

# table[j][m - 2] multiplies nu^-(m-2) (t - 3/4)^j
_Table = tuple[tuple[float, ...], ...]


@cache
def _exact_table(kind: str, order: int) -> _Table:
    polynomials: dict[str, Callable[[int], Polynomial]] = {
        "ratio": lambda m: ratio_polynomial(m)[3:],
        "derivative": lambda m: derivative_polynomial(m)[3:],
        "potential": potential_polynomial,
    }
    shifted = [shift_center(polynomials[kind](m), _CENTER) for m in range(2, order + 1)]
    size = max(len(p) for p in shifted)
    return tuple(tuple(float(p[j]) if j < len(p) else 0.0 for p in shifted) for j in range(size))


@traced_constant
def _constant_table(kind: str, order: int) -> _Table:
    return _exact_table(kind, order)


def _table(kind: str, order: int) -> _Table:
    """The coefficients of a sum over m = 2..order. torch.compile takes them as constants, untraced."""
    table: _Table = _constant_table(kind, concrete(order))
    return table


def _coefficients(table: _Table, nu: float | Tensor) -> list[Any]:
    """The coefficient of each power of t - 3/4 at this nu: sum over m of table[j][m-2] nu^-(m-2)."""
    eps = 1 / nu
    out = []
    for row in table:
        total: float | Tensor = 0.0
        for c in reversed(row):
            total = total * eps + c
        out.append(total)
    return out


def potential_coefficients(order: int, nu: float) -> list[float]:
    """The coefficients of the potential's polynomial part by powers of t - 3/4: `difference_from_radii` uses them."""
    return _coefficients(_table("potential", order), nu)


def ratio_coefficients(order: int, nu: float) -> list[float]:
    """Likewise of the ratio's."""
    return _coefficients(_table("ratio", order), nu)


def _tail(kind: str, order: int, last: int, nu: float) -> list[float]:
    """The coefficients of the terms after `order` up to `last` alone, by powers of t - 3/4."""
    table = _table(kind, last)
    # column m - 2 of a row is the m-th term's
    return _coefficients(tuple(tuple(0.0 if m < order - 1 else c for m, c in enumerate(row)) for row in table), nu)


def tail_polynomial(kind: str, order: int, last: int, nu: float, theta: Tensor) -> tuple[Tensor, Tensor]:
    """The terms after `order` at t = theta + 3/4, and the sum of their absolute values."""
    value, size, distance = torch.zeros_like(theta), torch.zeros_like(theta), theta.abs()
    for a in reversed(_tail(kind, order, last, nu)):
        value.mul_(theta).add_(a)
        size.mul_(distance).add_(abs(a))
    return value, size


def tail_divided(order: int, last: int, nu: float, theta_k: Tensor, theta_r: Tensor) -> tuple[Tensor, Tensor]:
    """The divided difference of the potential's terms after `order`, as in `difference_from_radii`, and its size."""
    at_k, divided = torch.zeros_like(theta_k), torch.zeros_like(theta_r * theta_k)
    size_k, size = torch.zeros_like(theta_k), torch.zeros_like(divided)
    distance_k, distance_r = theta_k.abs(), theta_r.abs()
    for a in reversed(_tail("potential", order, last, nu)[1:]):
        at_k = at_k * theta_k + a
        divided.mul_(theta_r).add_(at_k)
        size_k = size_k * distance_k + abs(a)
        size.mul_(distance_r).add_(size_k)
    return divided, size


def _evaluate(coefficients: list[Any], theta: Tensor) -> Tensor:
    """Horner's scheme; every table has at least three coefficients."""
    total: Tensor = theta * coefficients[-1]
    for a in reversed(coefficients[1:-1]):
        # in place unless autograd will need what would be overwritten
        total = (total + a) * theta if theta.requires_grad else total.add_(a).mul_(theta)
    return total + coefficients[0] if theta.requires_grad else total.add_(coefficients[0])


def _radius(nu: float | Tensor, x: Tensor) -> Tensor:
    """s(x) = sqrt(nu^2 + x^2), without overflow."""
    return torch.hypot(x, nu if isinstance(nu, Tensor) else torch.zeros((), dtype=x.dtype, device=x.device) + nu)


def _corrected(order: int, nu: float | Tensor, s: Tensor, lead: Tensor, h: Tensor, per_s: Tensor) -> Tensor:
    """The order-n ratio from its leading term, in the units of `lead` and `per_s` (x/s for A, 1/s for A/x).

    h = s - nu. The first correction is -x/(2 s^2). Near nu = 1 it takes away nearly all of x/(nu + s) at small x
    (nine tenths at nu = 10/9), so there the two are combined exactly: x/(nu+s) - x/(2s^2)
    = x/(nu+s) * (2s(nu - 1 + h) + h)/(2 s^2), a product of positive numbers. From nu = 2 or h = 1 on the sum loses
    less than the product's extra roundings.
    """
    tail: float | Tensor = 0.0
    if order >= 2:
        tail = _evaluate(_coefficients(_table("ratio", order), nu), nu / s - float(_CENTER)) / s
    apart = lead + per_s * (tail - 0.5) / s
    if isinstance(nu, float) and nu >= 2:
        return apart
    joined = lead * ((nu - 1) + h * (1 + 0.5 / s)) / s + per_s * tail / s
    near = h < 1 if isinstance(nu, float) else (h < 1) & (nu < 2)
    return torch.where(near, joined, apart)


def _ratio_value(order: int, nu: float | Tensor, x: Tensor) -> Tensor:
    s = _radius(nu, x)
    lead = x / (s + nu)
    if not (isinstance(nu, float) and nu >= 2):
        return _corrected(order, nu, s, lead, x * lead, x / s)
    # the same sum as in `_corrected`, on two buffers: at large sizes fresh memory costs more than arithmetic
    inverse = s.reciprocal_()
    if order == 1:
        return lead.add_(inverse.mul_(inverse).mul_(x), alpha=-0.5)
    theta = (inverse * nu).sub_(float(_CENTER))
    tail = _evaluate(_coefficients(_table("ratio", order), nu), theta)
    tail.mul_(inverse).sub_(0.5).mul_(inverse).mul_(inverse).mul_(x)
    return lead.add_(tail)


def slope(order: int, nu: float | Tensor, x_squared: Tensor) -> Tensor:
    """A_n(x)/x as a function of x^2, smooth at zero."""
    s = torch.sqrt(nu * nu + x_squared)
    lead = 1 / (nu + s)
    return _corrected(order, nu, s, lead, x_squared * lead, 1 / s)


def slope_from_radii(order: int, nu: float, s: Tensor, inverse: Tensor) -> Tensor:
    """A_n(x)/x from s(x) and 1/s(x) at nu >= 2: 1/(nu + s) + (V(theta)/s - 1/2)/s^2."""
    lead = (s + nu).reciprocal_()
    if order == 1:
        return lead.addcmul_(inverse, inverse, value=-0.5)
    tail = _evaluate(_coefficients(_table("ratio", order), nu), (inverse * nu).sub_(float(_CENTER)))
    return lead.add_(tail.mul_(inverse).sub_(0.5).mul_(inverse).mul_(inverse))


def ratio_complement(order: int, nu: float | Tensor, x: Tensor) -> Tensor:
    """1 - A_n(x) at nu >= 2, right in relative terms where A_n is near 1: 1 - x/(nu+s) = (nu + nu^2/(s+x))/(nu+s)."""
    s = _radius(nu, x)
    tail: float | Tensor = 0.0
    if order >= 2:
        tail = _evaluate(_coefficients(_table("ratio", order), nu), nu / s - float(_CENTER)) / s
    return (nu + nu * (nu / (s + x))) / (nu + s) + (x / s) * (0.5 - tail) / s


def slope_difference(order: int, nu: float | Tensor, k: Tensor, squared_gap: Tensor) -> Tensor:
    """slope(r^2) - slope(k^2) at r^2 = k^2 + squared_gap, as a multiple of s_r - s_k: the two are not subtracted."""
    s_k = torch.sqrt(nu * nu + k * k)
    s_r = torch.sqrt(nu * nu + squared_radius(k, squared_gap))
    total, product = s_r + s_k, s_r * s_k
    per_delta = 0.5 * total / product / product - 1 / ((nu + s_r) * (nu + s_k))
    if order >= 2:
        # V(t)/s^3 with V the polynomial of the corrections: V_r - V_k = (t_r - t_k) V[t_r, t_k]
        coefficients = _coefficients(_table("ratio", order), nu)
        theta_k, theta_r = nu / s_k - float(_CENTER), nu / s_r - float(_CENTER)
        at_k = torch.zeros_like(theta_k) + coefficients[-1]
        divided = torch.zeros_like(theta_r * theta_k)
        for a in reversed(coefficients[:-1]):
            divided = divided * theta_r + at_k
            at_k = at_k * theta_k + a
        cubes = (total * total - product) / product**3
        per_delta = per_delta - nu * divided / product / s_r**3 - at_k * cubes
    return squared_gap / total * per_delta


def ratio_derivative(order: int, nu: float | Tensor, x: Tensor) -> Tensor:
    """A_n'(x) = nu/(s(nu+s)) + sum_m nu^-(m+1) (V_m - t(1-t^2) V_m'), with no cancellation at large x."""
    s = _radius(nu, x)
    t = nu / s
    # m = 1: V_1 - t(1-t^2) V_1' = t^2/2 - t^4
    bracket = 0.5 - t * t
    if order >= 2:
        bracket = bracket + _evaluate(_coefficients(_table("derivative", order), nu), t - float(_CENTER)) / s
    return t / (nu + s) + bracket / s / s


def ratio(order: int, nu: float | Tensor, x: Tensor) -> Tensor:
    """A_n(x), differentiable twice through `ratio_derivative`."""
    return with_derivative(_ratio_value, ratio_derivative, order, nu, x=x)


def _ratio_in_backward() -> Callable[..., Tensor]:
    """The ratio for use inside a backward pass: twice differentiable in eager mode, its values alone when compiled.

    torch.compile has no second derivatives, and refuses an autograd function inside another's backward pass.
    """
    return _ratio_value if torch.compiler.is_compiling() else ratio


def correction(order: int, nu: float | Tensor, s: Tensor) -> Tensor:
    """sum_{m=2}^n nu^(1-m) U_m(nu/s), the polynomial part of the potential."""
    if order < 2:
        return torch.zeros_like(s)
    return _evaluate(_coefficients(_table("potential", order), nu), nu / s - float(_CENTER)) / nu


def _potential_value(order: int, nu: float | Tensor, x: Tensor) -> Tensor:
    s = _radius(nu, x)
    return s - nu * torch.log(nu + s) - 0.5 * torch.log(s) + correction(order, nu, s)


def potential(order: int, nu: float | Tensor, x: Tensor) -> Tensor:
    """F_n(x) = s - nu log(nu+s) - log(s)/2 + sum_{m=2}^n nu^(1-m) U_m(nu/s); its derivative is the ratio."""
    return with_derivative(_potential_value, _ratio_in_backward(), order, nu, x=x)


class Endpoint(NamedTuple):
    """What a difference needs of nu and its fixed end k alone: made once, used for every r."""

    nu: float | Tensor
    coefficients: tuple[Any, ...]
    radius: Tensor
    inverse: Tensor
    inverse_sum: Tensor
    theta: Tensor


def endpoint(order: int, nu: float | Tensor, s_k: Tensor) -> Endpoint:
    """The terms of s(k) in `difference_from_radii`."""
    coefficients = () if order == 1 else tuple(_coefficients(_table("potential", order), nu))
    inverse = 1 / s_k
    return Endpoint(nu, coefficients, s_k, inverse, 1 / (s_k + nu), nu * inverse - float(_CENTER))


def difference_from_radii(at: Endpoint, s_r: Tensor, delta: Tensor, inverse: Tensor | None = None) -> Tensor:
    """F_n(r) - F_n(k) from s(k), s(r) and delta = s(r) - s(k): eq:stable-f2-app for every order.

    `inverse` is 1/s(r), if it is at hand.

    The polynomial part is (t_r - t_k) times its divided difference, which Horner's scheme carries along;
    t_r - t_k = -nu delta/(s_r s_k), so that nothing is subtracted.
    """
    value = delta * at.inverse_sum
    value = value.log1p_().mul_(-at.nu).add_(delta)
    scratch = delta * at.inverse
    value.sub_(scratch.log1p_(), alpha=0.5)
    if not at.coefficients:
        return value
    inverse_r = scratch.copy_(s_r).reciprocal_() if inverse is None else inverse
    theta_r = (inverse_r * at.nu).sub_(float(_CENTER))
    at_k = at.theta * at.coefficients[-1] + at.coefficients[-2]
    divided = (theta_r * at.coefficients[-1]).add_(at_k)
    for a in reversed(at.coefficients[1:-2]):
        at_k = at_k * at.theta + a
        divided.mul_(theta_r).add_(at_k)
    return value.sub_(divided.mul_(delta).mul_(inverse_r).mul_(at.inverse))


def difference(
    order: int,
    nu: float | Tensor,
    r: Tensor,
    k: Tensor,
    squared_gap: Tensor | None = None,
    r_squared: Tensor | None = None,
) -> Tensor:
    """F_n(r) - F_n(k), stable for close endpoints. Its derivatives are the pair's own ratio (app:numerics-endpoint).

    With squared_gap, k and squared_gap are exact and r = sqrt(k^2 + squared_gap) is formed here: gradients
    flow to k and squared_gap, never to r. Without it, they are A_n(r) in r and -A_n(k) in k. Who has
    `squared_radius(k, squared_gap)` already may give it away as r_squared: it is overwritten.
    """
    differentiable = any(t.requires_grad for t in (r if squared_gap is None else squared_gap, k))
    if squared_gap is None:
        return _tracked(_Difference, order, nu, r, k) if differentiable else _between(order, nu, r, k)
    if r_squared is None:
        r_squared = squared_radius(k.detach(), squared_gap.detach())
    if not differentiable:
        return _across(order, nu, k, squared_gap, r_squared)
    return _tracked(_GapDifference, order, nu, k, squared_gap, r_squared)


def _tracked(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    out: Tensor = function.apply(*arguments)
    return out


def _between(order: int, nu: float | Tensor, r: Tensor, k: Tensor) -> Tensor:
    s_r, s_k = _radius(nu, r), _radius(nu, k)
    # halves, so that the sums do not overflow where their terms do not
    delta = (r / 2 + k / 2) / (s_r / 2 + s_k / 2)
    return difference_from_radii(endpoint(order, nu, s_k), s_r, delta.mul_(r - k))


def _across(order: int, nu: float | Tensor, k: Tensor, squared_gap: Tensor, r_squared: Tensor) -> Tensor:
    s_k = _radius(nu, k)
    # a tensor nu may broadcast the result to a larger shape
    s_r = (r_squared + nu * nu if isinstance(nu, Tensor) else r_squared.add_(nu * nu)).sqrt_()
    return difference_from_radii(endpoint(order, nu, s_k), s_r, (s_r + s_k).reciprocal_().mul_(squared_gap))


def _to_shape(grad: Tensor, like: Tensor) -> Tensor:
    return grad if grad.shape == like.shape else grad.sum_to_size(like.shape)


class _Difference(torch.autograd.Function):
    @staticmethod
    def forward(order: int, nu: float | Tensor, r: Tensor, k: Tensor) -> Tensor:
        return _between(order, nu, r, k)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        ctx.order, ctx.nu, r, k = inputs
        ctx.save_for_backward(r, k)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        r, k = ctx.saved_tensors
        at = _ratio_in_backward()
        grad_r = _to_shape(grads[0] * at(ctx.order, ctx.nu, r), r) if ctx.needs_input_grad[2] else None
        grad_k = _to_shape(-grads[0] * at(ctx.order, ctx.nu, k), k) if ctx.needs_input_grad[3] else None
        return None, None, grad_r, grad_k


class _GapDifference(torch.autograd.Function):
    @staticmethod
    def forward(order: int, nu: float | Tensor, k: Tensor, squared_gap: Tensor, r_squared: Tensor) -> Tensor:
        return _across(order, nu, k, squared_gap, r_squared)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        ctx.order, ctx.nu, k, squared_gap, _ = inputs
        ctx.save_for_backward(k, squared_gap)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        k, squared_gap = ctx.saved_tensors
        # r dr = dD/2 at fixed k, r dr = k dk at fixed D, and A(x) = x slope(x^2)
        at_r = slope(ctx.order, ctx.nu, squared_radius(k, squared_gap))
        grad_gap = _to_shape(grads[0] * (0.5 * at_r), squared_gap) if ctx.needs_input_grad[3] else None
        grad_k = None
        if ctx.needs_input_grad[2]:
            grad_k = _to_shape(grads[0] * k * slope_difference(ctx.order, ctx.nu, k, squared_gap), k)
        return None, None, grad_k, grad_gap, None
