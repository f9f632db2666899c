"""log I_nu, the ratio I_{nu+1}/I_nu, the vMF log-normaliser and the concentration fit, for every nu >= 0 and x >= 0.

For people who only want the functions. From nu = 64 on they are the ladder's order 8, whose proven error there is below
3e-14 in log I and 6e-15 relative in the ratio; below, nu is lifted by the recurrence R_nu = 1/(2(nu+1)/x + R_{nu+1}),
which contracts errors. All are worked in float64 and returned in the dtype of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from suffice.numerics.checks import Real, broadcastable, finite_nonnegative, nonnegative_order, real_tensor
from suffice.numerics.compensated import log as compensated_log
from suffice.numerics.compensated import quotient, two_product, two_sum
from suffice.numerics.derivatives import with_derivative
from suffice.pairs import ladder

__all__ = [
    "bessel_i_ratio",
    "bessel_i_ratio_complement",
    "bessel_i_ratio_derivative",
    "fit_concentration",
    "log_bessel_i",
    "vmf_log_normalizer",
]

_ORDER = 8
# order 8 is accurate from nu = 64 on for every x, and from nu = 10 on where x >= 256
_FAR = 64
_LARGE_X = 256.0
_LEAST_NU = 10
_TWO_PI_LOW = 2.4492935982947064e-16


def log_bessel_i(nu: Real, x: Real) -> Tensor:
    """log I_nu(x), finite for every x > 0 (no underflow at large nu, no overflow at large x).

    The derivative in x is R_nu(x) + nu/x. In nu none is provided: a nu that requires a gradient raises.

    >>> log_bessel_i(511, 10.0).item()  # where scipy.special.ive underflows to 0  # doctest: +ELLIPSIS
    -1857.350547...
    """
    index, point = _arguments(nu, x)
    return _as_float64(lambda n, y: with_derivative(_log_bessel, _log_bessel_derivative, n, x=y), index, point)


def bessel_i_ratio(nu: Real, x: Real) -> Tensor:
    """R_nu(x) = I_{nu+1}(x)/I_nu(x), increasing from 0 to 1, with its derivative in x.

    >>> abs(bessel_i_ratio(0.5, 1.0).item() - (1 / math.tanh(1.0) - 1)) < 1e-15
    True
    """
    index, point = _arguments(nu, x)
    return _as_float64(_ratio, index, point)


def bessel_i_ratio_complement(nu: Real, x: Real) -> Tensor:
    """1 - R_nu(x), not by a subtraction from 1: right in relative terms also where R rounds to 1.

    >>> round(bessel_i_ratio_complement(0.0, 1e20).item() * 2e20, 12)
    1.0
    """
    index, point = _arguments(nu, x)
    return _as_float64(_complement, index, point)


def bessel_i_ratio_derivative(nu: Real, x: Real) -> Tensor:
    """R_nu'(x) = 1 - R^2 - (2 nu + 1) R/x > 0, without that cancellation: the variance of mu.x under a vMF density.

    >>> bessel_i_ratio_derivative(2.0, 0.0).item() == 1 / 6
    True
    """
    index, point = _arguments(nu, x)
    return _as_float64(_ratio_derivative, index, point)


def vmf_log_normalizer(dim: Real, kappa: Real, *, scaled: bool = False) -> Tensor:
    """log C_p(kappa) of the density C_p(kappa) exp(kappa mu.x) on the unit sphere of R^p, p = dim >= 2.

    log C_p = nu log kappa - (p/2) log(2 pi) - log I_nu(kappa) with nu = p/2 - 1, finite also at kappa = 0, where the
    density is uniform. Its derivative is -R_nu(kappa).

    `scaled` gives log C_p(kappa) + kappa, the logarithm of the density at its mode, with the digits that the sum would
    lose at large kappa; its derivative is 1 - R_nu(kappa).

    >>> abs(math.exp(vmf_log_normalizer(3, 0.0).item()) * 4 * math.pi - 1) < 1e-14
    True
    """
    index, point = _arguments(_index_of(dim, kappa), kappa, name="kappa")
    value, slope = (_log_at_mode, _complement) if scaled else (_log_normalizer, _minus_ratio)
    return _as_float64(lambda n, y: with_derivative(value, slope, n, x=y), index, point)


def fit_concentration(dim: Real, mean_resultant_length: Real) -> Tensor:
    """The kappa >= 0 with R_nu(kappa) = mean_resultant_length, nu = dim/2 - 1: the maximum-likelihood concentration.

    Newton's method to the last digits, where the usual p R/(1 - R^2)-type formulas are off by percents. Past 1/2 it
    solves for 1 - R, which is exact there: as R tends to 1 kappa grows like (p-1)/(2(1 - R)).

    >>> round(fit_concentration(512, bessel_i_ratio(255, 1000.0)).item(), 9)
    1000.0
    """
    index, length = _arguments(_index_of(dim, mean_resultant_length), mean_resultant_length, "mean_resultant_length")
    if not torch.compiler.is_compiling() and bool((length >= 1).any()):
        where = tuple((length >= 1).nonzero()[0].tolist())
        place = f" at index {where}" if where else ""
        raise ValueError(
            f"Expected mean_resultant_length < 1 (at 1 the concentration is infinite), "
            f"but got {length[where].item()}{place}"
        )
    return _as_float64(lambda n, y: with_derivative(_solve, _solution_derivative, n, x=y), index, length)


def _index_of(dim: Real, like: Real) -> float | Tensor:
    """nu = dim/2 - 1, with dim checked under its own name."""
    anchor = like if isinstance(like, Tensor) else torch.zeros((), dtype=torch.float64)
    checked = nonnegative_order(dim, like=anchor, name="dim", like_name="the other argument")
    smallest = float(checked.min().item()) if isinstance(checked, Tensor) and checked.numel() else checked
    if not isinstance(smallest, Tensor) and smallest < 2:
        raise ValueError(f"Expected dim >= 2, but got {smallest}")
    return checked / 2 - 1


def _arguments(nu: Real, x: Real, name: str = "x") -> tuple[float | Tensor, Tensor]:
    point = real_tensor(name, x, like=nu if isinstance(nu, Tensor) else None)
    index = nonnegative_order(nu, like=point, like_name=name)
    if isinstance(index, Tensor):
        broadcastable(**{"nu": index, name: point})
    finite_nonnegative(name, point)
    return index, point


def _as_float64(function: Callable[[float | Tensor, Tensor], Tensor], nu: float | Tensor, x: Tensor) -> Tensor:
    return function(nu.double() if isinstance(nu, Tensor) else nu, x.double()).to(x.dtype)


def _by_size(function: Callable[[float | Tensor, Tensor, int], Tensor], nu: float | Tensor, x: Tensor) -> Tensor:
    """function(nu, x, steps) with as many steps of lifting as the size of x asks for: at x >= 256 nu >= 10 is enough.

    Few steps matter at large x, where each loses digits of 1 - R and of R'. Both ways are taken and selected from.
    """
    smallest = float(nu.min().item()) if isinstance(nu, Tensor) and nu.numel() else nu
    smallest = 0.0 if isinstance(smallest, Tensor) else smallest
    near, far = (max(0, math.ceil(goal - smallest)) for goal in (_FAR, _LEAST_NU))
    if near == far:
        return function(nu, x, near)
    large = x >= _LARGE_X
    # arguments of the branch that is not selected are kept where it is finite, for the gradient's sake
    at_large = function(nu, torch.where(large, x, _LARGE_X), far)
    return torch.where(large, at_large, function(nu, torch.where(large, _LARGE_X, x), near))


def _chain(nu: float | Tensor, x: Tensor, steps: int) -> tuple[float | Tensor, list[Tensor], list[Tensor]]:
    """The lifted nu, the ratios R at nu + steps, ..., nu, and R/x for all but the first.

    R_nu/x = 1/(2(nu+1) + x R_{nu+1}) has no division by x, so x = 0 needs no branch.
    """
    top = nu + steps
    ratios = [ladder.ratio(_ORDER, top, x)]
    slopes: list[Tensor] = []
    for j in range(steps - 1, -1, -1):
        slopes.append(1 / (2 * (nu + j + 1) + x * ratios[-1]))
        ratios.append(x * slopes[-1])
    return top, ratios, slopes


def _ratio_value(nu: float | Tensor, x: Tensor) -> Tensor:
    return _by_size(lambda n, y, steps: _chain(n, y, steps)[1][-1], nu, x)


def _complement(nu: float | Tensor, x: Tensor) -> Tensor:
    return with_derivative(_complement_value, _minus_derivative, nu, x=x)


def _minus_derivative(nu: float | Tensor, x: Tensor) -> Tensor:
    return -_ratio_derivative(nu, x)


def _complement_value(nu: float | Tensor, x: Tensor) -> Tensor:
    """1 - R_nu(x), without subtracting R from 1: from the top, 1 - R_nu = (2(nu+1) - x(1 - R_{nu+1})) R_nu/x."""

    def lifted(n: float | Tensor, y: Tensor, steps: int) -> Tensor:
        top, _, slopes = _chain(n, y, steps)
        value = ladder.ratio_complement(_ORDER, top, y)
        for j, slope in zip(range(steps - 1, -1, -1), slopes, strict=True):
            value = slope * (2 * (n + j + 1) - y * value)
        return value

    return _by_size(lifted, nu, x)


def _ratio_derivative(nu: float | Tensor, x: Tensor) -> Tensor:
    """R' from the top: R_nu' = (R_nu/x)^2 (2(nu+1) - x^2 R_{nu+1}')."""

    def lifted(n: float | Tensor, y: Tensor, steps: int) -> Tensor:
        top, _, slopes = _chain(n, y, steps)
        derivative = ladder.ratio_derivative(_ORDER, top, y)
        for j, slope in zip(range(steps - 1, -1, -1), slopes, strict=True):
            derivative = slope * slope * (2 * (n + j + 1) - y * (y * derivative))
        return derivative

    return _by_size(lifted, nu, x)


def _ratio(nu: float | Tensor, x: Tensor) -> Tensor:
    return with_derivative(_ratio_value, _ratio_derivative, nu, x=x)


def _minus_ratio(nu: float | Tensor, x: Tensor) -> Tensor:
    return -_ratio(nu, x)


def _growth(nu: float | Tensor, x: Tensor) -> Tensor:
    """Phi_nu(x) - Phi_nu(0) = log 0F1(; nu+1; x^2/4) >= 0: the ladder's difference plus the lift's factors.

    R_nu/x at 0 is 1/(2(nu+1)), and the step's factor relative to it is 1 + x R_{nu+1}/(2(nu+1)). The ladder's
    difference starts at 0, so nu must be large there: it is always lifted to 64.
    """
    smallest = float(nu.min().item()) if isinstance(nu, Tensor) and nu.numel() else nu
    steps = 0 if isinstance(smallest, Tensor) else max(0, math.ceil(_FAR - smallest))
    top, ratios, slopes = _chain(nu, x, steps)
    total = ladder.difference(_ORDER, top, x, torch.zeros_like(x))
    for j, above in zip(range(len(slopes) - 1, -1, -1), ratios[:-1], strict=True):
        total = total + torch.log1p(x * above / (2 * (nu + j + 1)))
    return total


def _log_gamma(nu: float | Tensor) -> float | Tensor:
    return torch.lgamma(nu + 1) if isinstance(nu, Tensor) else math.lgamma(nu + 1)


def _log_bessel(nu: float | Tensor, x: Tensor) -> Tensor:
    def low() -> Tensor:
        factor = nu if isinstance(nu, Tensor) else torch.full_like(x, nu)
        return _growth(nu, x) + torch.xlogy(factor, x) - (nu * math.log(2) + _log_gamma(nu))

    def high() -> Tensor:
        index = torch.as_tensor(nu, dtype=x.dtype, device=x.device)
        s = torch.hypot(x, index)
        smooth = ladder.correction(_ORDER, nu, s) - 0.5 * (torch.log(s) + math.log(2 * math.pi))
        # where x/(nu + s) underflows, the quotient is taken of the logarithms instead
        plain = s + nu * (torch.log(x) - torch.log(nu + s))
        return _exponent(index, x, 0.0, x, s, plain) + smooth

    return _either_side(nu, low, high)


def _log_normalizer(nu: float | Tensor, kappa: Tensor) -> Tensor:
    """-Phi_nu(kappa) - (nu+1) log(2 pi); from 64 on with 2 pi taken into the compensated logarithm."""

    def low() -> Tensor:
        return nu * math.log(2) + _log_gamma(nu) - (nu + 1) * math.log(2 * math.pi) - _growth(nu, kappa)

    def high() -> Tensor:
        index = torch.as_tensor(nu, dtype=kappa.dtype, device=kappa.device)
        s = torch.hypot(kappa, index)
        two_pi = torch.full_like(s, 2 * math.pi)
        plain = s + nu * (math.log(2 * math.pi) - torch.log(nu + s))
        large = _exponent(index, two_pi, _TWO_PI_LOW, kappa, s, plain)
        return -large + (0.5 * (torch.log(s) - math.log(2 * math.pi)) - ladder.correction(_ORDER, nu, s))

    return _either_side(nu, low, high)


def _log_at_mode(nu: float | Tensor, kappa: Tensor) -> Tensor:
    """log C_p + kappa. Of s - kappa nothing is lost from 64 on; below, from kappa = 256 on, Phi - kappa is lifted."""

    def low() -> Tensor:
        large = kappa >= _LARGE_X
        near = _log_normalizer(nu, torch.where(large, _LARGE_X, kappa)) + kappa
        far = -(_lifted_excess(nu, torch.where(large, kappa, _LARGE_X)) + (nu + 1) * math.log(2 * math.pi))
        return torch.where(large, far, near)

    def high() -> Tensor:
        index = torch.as_tensor(nu, dtype=kappa.dtype, device=kappa.device)
        s = torch.hypot(kappa, index)
        two_pi = torch.full_like(s, 2 * math.pi)
        plain = nu * (nu / (s + kappa)) + nu * (math.log(2 * math.pi) - torch.log(nu + s))
        large = _exponent(index, two_pi, _TWO_PI_LOW, kappa, s, plain, less=kappa)
        return -large + (0.5 * (torch.log(s) - math.log(2 * math.pi)) - ladder.correction(_ORDER, nu, s))

    return _either_side(nu, low, high)


def _lifted_excess(nu: float | Tensor, x: Tensor) -> Tensor:
    """Phi_nu(x) - x for x >= 256: at the first nu >= 10 from F_8 with s - x = nu^2/(s + x), then down.

    Phi_nu = Phi_{nu+1} + log(2(nu+1) + x R_{nu+1}).
    """
    smallest = float(nu.min().item()) if isinstance(nu, Tensor) and nu.numel() else nu
    steps = 0 if isinstance(smallest, Tensor) else max(0, math.ceil(_LEAST_NU - smallest))
    top, ratios, _ = _chain(nu, x, steps)
    s = torch.hypot(x, torch.as_tensor(top, dtype=x.dtype, device=x.device))
    total = top * (top / (s + x) - torch.log(top + s)) - 0.5 * (torch.log(s) + math.log(2 * math.pi))
    total = total + ladder.correction(_ORDER, top, s)
    for j, above in zip(range(steps - 1, -1, -1), ratios[:-1], strict=True):
        total = total + torch.log(2 * (nu + j + 1) + x * above)
    return total


def _exponent(
    nu: Tensor, a: Tensor, a_low: float, x: Tensor, s: Tensor, plain: Tensor, less: Tensor | None = None
) -> Tensor:
    """s + nu log((a + a_low)/(nu + s)), two large terms that cancel where I_nu(x) or C_p is near 1.

    Worked to twice the digits: otherwise a rounding of either, nu 1e-16, would be the error of the result. `plain` is
    the same in ordinary arithmetic, for where squares overflow or the quotient underflows. `less` is taken away from s.
    """
    usable = (s < 1e100) & (a > 1e-280)
    filler = torch.hypot(nu, torch.ones_like(nu))
    a, x, s = torch.where(usable, a, 1.0), torch.where(s < 1e100, x, 1.0), torch.where(s < 1e100, s, filler)
    (squares, lost_sum), (square, lost) = _sum_of_squares(nu, x), two_product(s, s)
    s_low = ((squares - square) + (lost_sum - lost)) / (2 * s)
    total, total_low = two_sum(nu, s)
    largest, middle, rest = compensated_log(quotient(a, (total, total_low + s_low)))
    (first, first_low), (second, second_low) = two_product(nu, largest), two_product(nu, middle)
    start, start_low = (s, torch.zeros_like(s)) if less is None else two_sum(s, torch.where(s < 1e100, -less, 0.0))
    high, high_low = two_sum(start, first)
    high, more_low = two_sum(high, second)
    rest = rest + a_low / a
    compensated = high + (start_low + (high_low + more_low) + (first_low + second_low) + (s_low + nu * rest))
    return torch.where(usable, compensated, plain)


def _sum_of_squares(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    (a_square, a_lost), (b_square, b_lost) = two_product(a, a), two_product(b, b)
    high, low = two_sum(a_square, b_square)
    return high, low + (a_lost + b_lost)


def _either_side(nu: float | Tensor, low: Callable[[], Tensor], high: Callable[[], Tensor]) -> Tensor:
    """Below 64 the form that is anchored at x = 0, above it the one anchored at infinity."""
    if not isinstance(nu, Tensor):
        return low() if nu < _FAR else high()
    return torch.where(nu < _FAR, low(), high())


def _log_bessel_derivative(nu: float | Tensor, x: Tensor) -> Tensor:
    """R_nu + nu/x; where nu is 0 the second term is 0, also at x = 0."""
    if isinstance(nu, Tensor):
        return _ratio(nu, x) + nu / torch.where(nu == 0, 1.0, x)
    return _ratio(nu, x) + nu / x if nu else _ratio(nu, x)


def _excess(nu: float | Tensor, kappa: Tensor, length: Tensor) -> Tensor:
    """R_nu(kappa) - length; past 1/2 as (1 - length) - (1 - R), where the first is exact and the second accurate."""
    near = _ratio_value(nu, kappa) - length
    return torch.where(length > 0.5, (1 - length) - _complement(nu, kappa), near)


def _solve(nu: float | Tensor, length: Tensor) -> Tensor:
    """Newton for R_nu(kappa) = length from Banerjee's estimate."""
    p = 2 * nu + 2
    kappa = length * (p - length * length) / ((1 - length) * (1 + length))
    for _ in range(60):
        step = _excess(nu, kappa, length) / _ratio_derivative(nu, kappa)
        # a tangent taken too far to the right may point below 0: halving keeps the iterate positive
        following = torch.maximum(kappa - step, kappa / 2)
        settled = (following - kappa).abs() <= 4 * torch.finfo(kappa.dtype).eps * kappa
        kappa = following
        if bool(settled.all()):
            break
    return kappa


def _solution_derivative(nu: float | Tensor, length: Tensor) -> Tensor:
    """1/R'(kappa) at the solution, which is made differentiable in the length by one Newton step from it."""
    kappa = _solve(nu, length.detach())
    if length.requires_grad:
        kappa = kappa - _excess(nu, kappa, length) / _ratio_derivative(nu, kappa)
    return 1 / _ratio_derivative(nu, kappa)
