"""The Debye ladder as a pair: six orders of (F_n, A_n) with proven allowances. Order 2 is the paper's F_2/A_2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from suffice.numerics.checks import Real
from suffice.numerics.outward import above
from suffice.numerics.rounding import unit_roundoff
from suffice.pairs import ladder
from suffice.pairs.base import Allowance
from suffice.pairs.constants import check_order
from suffice.pairs.domain import gap_arguments, pointwise_arguments
from suffice.pairs.envelopes import BestAllowance, ClosedForm, StateEnvelope, Uniform
from suffice.pairs.integral_envelope import IntegralEnvelope
from suffice.pairs.roundings import formula_roundings, ratio_roundings, slope_sizes

__all__ = ["DebyePair"]


@dataclass(frozen=True, slots=True)
class DebyePair:
    """(F_n, A_n) of order n = 1..6 with F_n' = A_n (sec:primitive), right to a proven allowance.

    Domain: nu >= 10/9 for orders 1 to 3, nu >= 3/2 for 4 to 6; nu = dim/2 - 1, so every dim >= 5. The allowance is
    for the formula in exact arithmetic. Executed in float64, `difference` adds a relative error below 1e-14, in
    float32 below 1e-6 (measured against high precision in the tests, not proved).

    `envelope` chooses another allowance than the best one: `ClosedForm(n)`, or at order 2 `Uniform(...)`,
    `StateEnvelope(...)` and, slowly, `IntegralEnvelope()`, the paper's.

    >>> pair = DebyePair(order=2)
    >>> pair.ratio(63.0, 10.0).item(), pair.allowance(63.0, 10.0).item()  # doctest: +ELLIPSIS
    (0.0776612..., 2.9727...e-07)
    """

    order: int = 2
    envelope: Allowance | None = None

    def __post_init__(self) -> None:
        check_order(self.order)
        known = isinstance(self.envelope, BestAllowance | ClosedForm | IntegralEnvelope | StateEnvelope | Uniform)
        if self.envelope is not None and not known:
            raise TypeError(f"Expected envelope to be one of the ladder's, but got {type(self.envelope).__name__}")
        if known and self.envelope.order != self.order:  # type: ignore[union-attr]
            raise ValueError(
                f"Expected an envelope proved for order {self.order}, but got {self.envelope!r}, "
                f"which bounds order {self.envelope.order}"  # type: ignore[union-attr]
            )

    @property
    def name(self) -> str:
        """Such as "debye2"."""
        return f"debye{self.order}"

    @property
    def simple_envelope(self) -> Allowance | None:
        """At order 2 the uniform quarter of thm:a2: no envelope of that order is anywhere above it but the paper's
        preliminary one (docs/theory, 3.6)."""
        return Uniform("quarter") if self.order == 2 and self.envelope != Uniform("preliminary") else None

    @property
    def allowances(self) -> Allowance:
        """The envelope in use."""
        return BestAllowance(self.order) if self.envelope is None else self.envelope

    def ratio(self, nu: Real, x: Real) -> Tensor:
        """A_n(x), the realization of I_{nu+1}(x)/I_nu(x). x >= 0; A_n(0) = 0."""
        nu, x = pointwise_arguments(self.order, nu, x)
        return _in_working_precision(lambda n, y: ladder.ratio(self.order, n, y), nu, x)

    def potential(self, nu: Real, x: Real) -> Tensor:
        """F_n(x), the realization of log I_nu(x) - nu log x + log(2 pi)/2."""
        nu, x = pointwise_arguments(self.order, nu, x)
        return _in_working_precision(lambda n, y: ladder.potential(self.order, n, y), nu, x)

    def difference(self, nu: Real, r: Real, k: Real, squared_gap: Real | None = None) -> Tensor:
        """F_n(r) - F_n(k) in the stable form (eq:stable-f2-app), for every order.

        With `squared_gap` = r^2 - k^2, k and squared_gap are taken as exact, r is formed from them and the
        argument r is only checked. Gradients: A_n(r) in r and -A_n(k) in k, or through squared_gap A_n(r)/(2r).
        """
        nu, r, k, gap, r_squared = gap_arguments(self.order, nu, r, k, squared_gap)
        if gap is None or r_squared is None:
            return _in_working_precision(lambda n, a, b: ladder.difference(self.order, n, a, b), nu, r, k)
        if k.dtype == torch.float64:
            return ladder.difference(self.order, nu, r, k, gap, r_squared)
        return _in_working_precision(lambda n, a, b, d: ladder.difference(self.order, n, a, b, d), nu, r, k, gap)

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """a(x) with |R_nu(x) - A_n(x)| <= a(x): proved, and rounded outward."""
        return self.allowances.allowance(nu, x)

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """At least a(x) all over [low, high]: proved, and rounded outward."""
        return self.allowances.allowance_over(nu, low, high)

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """d with |Phi(r) - Phi(k) - (F_n(r) - F_n(k))| <= d: proved, and rounded outward."""
        return self.allowances.score_allowance(nu, k, r, squared_gap)

    def slope_change(self, nu: float, low: Tensor, high: Tensor) -> Tensor:
        """A_n/x = 1/(nu + s) - 1/(2 s^2) + V(theta)/s^3 has a slope in s of at most the sum of its terms' slopes.

        They are 1/(nu + s)^2, 1/s^3, 3|V|/s^4 and nu |V'|/s^5, all largest at low; s changes by
        (high - low)(high + low)/(s(high) + s(low)).
        """
        size, steep = slope_sizes(self.order, nu)
        s, s_high = (torch.hypot(x, torch.as_tensor(nu, dtype=x.dtype, device=x.device)) for x in (low, high))
        apart = (high - low) * ((high + low) / (s + s_high))
        steepest = 1 / (nu + s) ** 2 + (1 + (3 * size + steep) / s) / s**3
        # some thirty roundings of positive numbers
        return above(apart * steepest, 126)

    def rounding(self, nu: float, k: Tensor, r: Tensor, squared_gap: Tensor) -> Tensor:
        """A count of roundings of the size of |s(r) - s(k)| (docs/theory, 8.3)."""
        s_k, s_r = (torch.hypot(x, torch.as_tensor(nu, dtype=x.dtype, device=x.device)) for x in (k, r))
        return formula_roundings(self.order, nu) * unit_roundoff(k.dtype) * 1.001 * squared_gap.abs() / (s_r + s_k)

    def slope_rounding(self, nu: float, x: Tensor) -> Tensor:
        """u (N_0/(nu + s) + N_1/s^2) (docs/theory, 8.4)."""
        first, second = ratio_roundings(self.order, nu)
        s = torch.hypot(x, torch.as_tensor(nu, dtype=x.dtype, device=x.device))
        return unit_roundoff(x.dtype) * 1.001 * (first / (nu + s) + second / (s * s))


def _in_working_precision(function: Callable[..., Tensor], nu: float | Tensor, *tensors: Tensor) -> Tensor:
    """function(nu, *tensors); float32 below nu = 2 is worked in float64 and rounded once.

    There (only dim = 5 among the dimensions) neighbouring orders cancel up to fortyfold: harmless in float64,
    the whole error budget in float32.
    """
    if tensors[0].dtype == torch.float64:
        return function(nu, *tensors)
    # the values of a tensor are not known while a graph is traced: then the wide way is taken
    low = torch.compiler.is_compiling() or bool((nu < 2).any()) if isinstance(nu, Tensor) else nu < 2
    if not low:
        return function(nu, *tensors)
    wide = nu.double() if isinstance(nu, Tensor) else nu
    return function(wide, *(t.double() for t in tensors)).to(tensors[0].dtype)
