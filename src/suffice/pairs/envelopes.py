"""Allowances of the ladder: the closed form, the uniform constants, the paper's state-dependent envelope, the best.

Each is a proven bound in exact arithmetic. What is returned is rounded outward: every operation on the way is on
nonnegative numbers and so has a bounded relative error, and the result is enlarged by more than all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from suffice.numerics.checks import Real
from suffice.numerics.outward import above
from suffice.pairs.base import Allowance
from suffice.pairs.constants import UNIFORM, check_order, closed_form_constant
from suffice.pairs.domain import endpoints, pointwise

__all__ = ["BestAllowance", "ClosedForm", "StateEnvelope", "Uniform"]


def _outward(value: Tensor, roundings: int, nonzero: Tensor) -> Tensor:
    """Enlarge a nonnegative value past `roundings` relative errors of one ulp each; exact zeros stay zero.

    One ulp is two roundings. A value that underflowed is raised to the smallest normal number: outward again.
    """
    return torch.where(nonzero, above(value, 2 * roundings + 2, positive=True), 0.0)


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """|R_nu(x) - A_n(x)| <= c_n x/s(x)^(n+2), whose integral is (c_n/n)|s(k)^-n - s(r)^-n| (docs/theory, 3).

    >>> import torch
    >>> ClosedForm(2).allowance(63.0, torch.tensor([0.0, 63.0], dtype=torch.float64))
    tensor([0.0000e+00, 4.9209e-07], dtype=torch.float64)
    """

    order: int = 2

    def __post_init__(self) -> None:
        check_order(self.order)

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """c_n x/s^(n+2), at least that in exact arithmetic."""
        return self.allowance_over(nu, x, x)

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """c_n high/s(low)^(n+2), at least the pointwise allowance all over [low, high]."""
        nu, low, s = pointwise(self.order, nu, low)
        high = torch.as_tensor(high, dtype=s.dtype, device=s.device).expand(s.shape)
        value = closed_form_constant(self.order, nu) * (high / s)
        for _ in range(self.order + 1):
            value = value / s
        return _outward(value, 4 * (self.order + 4), high > 0)

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """(c_n/n)|s_k^-n - s_r^-n| as c_n |s_r - s_k| sum_i s_r^-(i+1) s_k^-(n-i)/n: nothing cancels."""
        ends = endpoints(self.order, nu, k, r, squared_gap)
        value = closed_form_constant(self.order, ends.nu) * self._integral(1 / ends.s_k, 1 / ends.s_r, ends.s_gap)
        return _outward(value, 4 * (self.order + 6), ends.apart)

    def _integral(self, inverse_k: Tensor, inverse_r: Tensor, s_gap: Tensor) -> Tensor:
        """|s_k^-n - s_r^-n|/n = |s_r - s_k| sum_{i<n} s_r^-(i+1) s_k^-(n-i)/n, the sum by Horner in 1/s_r."""
        power = torch.ones_like(inverse_k)
        total: Tensor = power
        for _ in range(self.order - 1):
            power = power * inverse_k
            total = total * inverse_r + power
        return s_gap * inverse_k * inverse_r * total / self.order


@dataclass(frozen=True, slots=True)
class Uniform:
    """|R_nu(x) - A_2(x)| <= B/nu^3 for all x: "preliminary" B = 1, "quarter" 1/4 (thm:a2), "eleventh" 1/11.

    The first two are the paper's; the third is proved by the same constant barrier in exact arithmetic. At x = 0
    both sides vanish, and the allowance returned there is still B/nu^3, as the theorem states it.
    """

    name: str = "quarter"

    def __post_init__(self) -> None:
        if self.name not in UNIFORM:
            raise ValueError(f"Expected name in {sorted(UNIFORM)}, but got {self.name!r}")

    @property
    def order(self) -> int:
        return 2

    def _bound(self, nu: float | Tensor, like: Tensor) -> Tensor:
        value = float(UNIFORM[self.name].value) / (nu * nu * nu)
        return torch.full_like(like, 1.0) * value

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """B/nu^3 in the shape of the arguments."""
        nu, x, s = pointwise(2, nu, x)
        return _outward(self._bound(nu, s), 6, torch.ones_like(s, dtype=torch.bool))

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """B/nu^3: it is the same everywhere."""
        del low
        return self.allowance(nu, high)

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """(B/nu^3) |r - k|."""
        ends = endpoints(2, nu, k, r, squared_gap)
        return _outward(self._bound(ends.nu, ends.gap) * ends.gap, 10, ends.apart)


@dataclass(frozen=True, slots=True)
class StateEnvelope:
    """The paper's envelope (app:realization-state): min of nu^-3/4 and B_alpha, alpha = exp(-c/m), c in `exponents`.

    Score allowances are upper sums over `panels` equal panels (app:realization-score, eq:app-panel-envelope).
    """

    exponents: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    panels: int = 16

    def __post_init__(self) -> None:
        if not self.exponents or not all(math.isfinite(c) and c >= 0 for c in self.exponents):
            raise ValueError(f"Expected exponents to be finite and >= 0 (alpha in (0, 1]), but got {self.exponents}")
        if isinstance(self.panels, bool) or not isinstance(self.panels, int) or self.panels < 1:
            raise ValueError(f"Expected panels >= 1, but got {self.panels}")

    @property
    def order(self) -> int:
        return 2

    def _envelope(self, nu: float | Tensor, low: Tensor, high: Tensor) -> Tensor:
        """A bound for B on [low, high]: x/m is taken at the right end and the decreasing D at the left one."""
        m = 2 * nu + 2
        best = float(UNIFORM["quarter"].value) / (nu * nu * nu) * torch.ones_like(low)
        for c in self.exponents:
            weight = math.exp(-c)
            # alpha = exp(-c/m) exactly, so that alpha^m = exp(-c); both are rounded only here
            alpha = torch.exp(-c / m) if isinstance(m, Tensor) else math.exp(-c / m)
            bracket = _residual_bound(nu, torch.zeros_like(low)) * weight
            bracket = bracket + _residual_bound(nu, alpha * low) * -math.expm1(-c)
            best = torch.minimum(best, high / m * bracket)
        return best

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """min(nu^-3/4, min_alpha B_alpha(x)), eq:app-Balpha."""
        return self.allowance_over(nu, x, x)

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """The envelope of a panel from low to high (eq:app-panel-envelope)."""
        nu, low, s = pointwise(2, nu, low)
        low = low.expand(s.shape)
        high = torch.as_tensor(high, dtype=s.dtype, device=s.device).expand(s.shape)
        return _outward(self._envelope(nu, low, high), 60, high > 0)

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """The upper sum of the envelope over equal panels between k and r."""
        ends = endpoints(2, nu, k, r, squared_gap)
        width = ends.gap / self.panels
        low = torch.minimum(ends.k, ends.r)
        total = torch.zeros_like(width)
        for panel in range(self.panels):
            total = total + self._envelope(ends.nu, low + panel * width, low + (panel + 1) * width) * width
        # an edge is right to 3 roundings and the envelope's relative slope in it is at most 4
        return _outward(total, 100 + self.panels, ends.apart)


def _residual_bound(nu: float | Tensor, t: Tensor) -> Tensor:
    """D_nu(t), eq:app-Dnu."""
    w = 1 / (1 + (t / nu) ** 2)
    return w * (torch.sqrt(w) + w / (4 * nu)) / (nu * nu * nu)


@dataclass(frozen=True, slots=True)
class BestAllowance:
    """The smallest of the allowances that are valid for an order: the default of `DebyePair`.

    The closed form, and at order 2 also 1/(11 nu^3), which is smaller around x = nu/sqrt(3). The paper's
    envelope is nowhere smaller than these two (docs/theory, 3.6), so it is left out.
    """

    order: int = 2

    def __post_init__(self) -> None:
        check_order(self.order)

    def _members(self) -> tuple[Allowance, ...]:
        closed = ClosedForm(self.order)
        return (closed, Uniform("eleventh")) if self.order == 2 else (closed,)

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """The pointwise minimum."""
        return _smallest(member.allowance(nu, x) for member in self._members())

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """The minimum of the bounds over [low, high]."""
        return _smallest(member.allowance_over(nu, low, high) for member in self._members())

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """The minimum of the integrals (each is a complete bound)."""
        return _smallest(member.score_allowance(nu, k, r, squared_gap) for member in self._members())


def _smallest(bounds: Iterable[Tensor]) -> Tensor:
    """The smallest of complete bounds, entry by entry."""
    return reduce(torch.minimum, bounds)
