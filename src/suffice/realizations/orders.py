"""Every order of the ladder at some states, at once: the orders share radii and logarithms, and differ in polynomials.

With t = nu/s the orders' potentials are one leading term plus polynomials in t, and their closed-form allowances are
c_n times sums of powers of 1/s(r) and 1/s(k) that go from one order to the next by a product (docs/theory, 6.10e).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.family import SoftmaxFamily
from suffice.numerics.compensated import squared_radius
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import softmax
from suffice.pairs import ladder
from suffice.pairs.base import Pair
from suffice.pairs.constants import UNIFORM, closed_form_constant
from suffice.pairs.roundings import formula_roundings
from suffice.realizations.analytic import AnalyticRealized
from suffice.realizations.class_by_class import softmax_roundings
from suffice.realizations.endpoints import FEW
from suffice.realizations.geometry_error import GeometryError
from suffice.states import Geometry

__all__ = ["Ladder", "ladder_at", "picked"]

_DTYPE = torch.float64


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Some orders at some states, one above the other: every order's head with its own allowances.

    Below them stands one order again with the unit family, the paper's (eq:uniform-allowance-family).
    """

    orders: tuple[int, ...]
    head: SoftmaxHead
    allowances: Allowances

    def family(self, contract: Contract, *, divergence: bool = False) -> SoftmaxFamily:
        """Multiples of all of these, for a contract that needs nothing else; with KL bounds if there is a budget."""
        return SoftmaxFamily(contract=contract, head=replace(self.head, divergence=divergence), unit=self.allowances)

    def rows(self, order: int) -> slice:
        """Where the states of an order are."""
        return self._place(self.orders.index(order))

    @property
    def unit_rows(self) -> slice:
        """Where the states under the unit family are."""
        return self._place(len(self.orders))

    def _place(self, index: int) -> slice:
        count = len(self.head.target) // (len(self.orders) + 1)
        return slice(index * count, (index + 1) * count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What every order needs: s(k) and s(r) of the computed geometry, s(r) - s(k), and the inverses."""

    nu: float
    s_k: Float[Tensor, " classes"]
    inverse_k: Float[Tensor, " classes"]
    inverse_r: Float[Tensor, "queries classes"]
    delta: Float[Tensor, "queries classes"]


def ladder_at(realized: AnalyticRealized, orders: tuple[int, ...], unit: int) -> Ladder:
    """These orders at the geometry of what is realized already, each with its best allowance; and one as the `unit`."""
    states, geometry, off = realized.states, realized.geometry, realized.off
    # from the highest on: at every power the polynomials that have it are the first ones
    falling = tuple(sorted(orders, reverse=True))
    shared, first = _shared(geometry)
    scores = _scores(falling, falling.index(unit), shared, first).add_(states.bank.biases)
    error = _score_error((*falling, unit), shared, off, scores)
    if bool(realized.outside.any()):
        error = torch.where(realized.outside, torch.inf, error)
    count, flat = len(scores), scores.flatten(0, 1)
    log_pi, pi = softmax(flat)
    head = SoftmaxHead(
        log_probabilities=log_pi,
        probabilities=pi,
        target=states.labels.repeat(count),
        gradient_scale=(1 / states.temperature).repeat(count),
        log_error=2 * error.flatten() + softmax_roundings(flat),
    )
    return Ladder(orders=falling, head=head, allowances=_allowances(falling, realized, shared))


def picked(realized: AnalyticRealized, rows: Tensor, pair: Pair) -> AnalyticRealized:
    """Some rows under a pair, at the geometry that there is; nothing else is taken along."""
    return (realized if len(rows) == len(realized) else realized.part(rows)).under(pair)


def _shared(geometry: Geometry) -> tuple[_Shared, Float[Tensor, "queries classes"]]:
    """And the difference of order 1, which is the leading term of all others (eq:stable-f2-app)."""
    nu, k, gaps = geometry.nu, geometry.concentrations, geometry.squared_gaps
    s_k = torch.hypot(k, torch.as_tensor(nu, dtype=k.dtype, device=k.device))
    s_r = squared_radius(k, gaps).add_(nu * nu).sqrt_()
    delta = (s_r + s_k).reciprocal_().mul_(gaps)
    at = ladder.endpoint(1, nu, s_k)
    first = ladder.difference_from_radii(at, s_r, delta)
    return _Shared(nu=nu, s_k=s_k, inverse_k=at.inverse, inverse_r=s_r.reciprocal_(), delta=delta), first


def _scores(
    orders: tuple[int, ...], again: int, shared: _Shared, first: Tensor
) -> Float[Tensor, "all queries classes"]:
    """F_n(r) - F_n(k): the first order's minus (t_r - t_k) times a divided difference, by Horner's scheme.

    The last ones are those at index `again` once more.
    """
    nu, inverse_k, inverse_r = shared.nu, shared.inverse_k, shared.inverse_r
    tables = [ladder.potential_coefficients(order, nu) if order > 1 else [] for order in orders]
    theta_r, theta_k = (inverse_r * nu).sub_(ladder.CENTER), inverse_k * nu - ladder.CENTER
    divided = first.new_zeros(len(orders) + 1, *first.shape)
    at_k = first.new_zeros(len(orders), 1, first.shape[1])
    for power in range(len(tables[0]) - 1, 0, -1):
        some = [table[power] for table in tables if len(table) > power]
        a = torch.tensor(some, dtype=first.dtype, device=first.device)[:, None, None]
        at_k[: len(some)].mul_(theta_k).add_(a)
        divided[: len(some)].mul_(theta_r).add_(at_k[: len(some)])
    # as many roundings as in `ladder.difference_from_radii`, and in another order
    scale = shared.delta * inverse_r * inverse_k
    of_orders = divided[:-1]
    torch.sub(first, of_orders.mul_(scale), out=of_orders)
    divided[-1] = divided[again]
    return divided


def _score_error(
    orders: tuple[int, ...], shared: _Shared, off: GeometryError, scores: Tensor
) -> Float[Tensor, "all queries"]:
    """At least every |computed score - exact-arithmetic score at the exact geometry| of a row (docs/theory, 6.10e).

    As in `AnalyticRealized`, with the largest of each part in place of the largest sum, and s >= nu in what A - R
    integrates to between the radii.
    """
    nu, u = shared.nu, unit_roundoff(_DTYPE)
    moved = (off.of_gap / (off.s_r + nu)).amax(dim=1) / 2
    beyond = (off.of_gap / off.s_r).amax(dim=1) / 2
    formula = 1.001 * u * shared.delta.abs().amax(dim=1)
    bias = u * scores.abs().amax(dim=2) + 4 * smallest_normal(_DTYPE)
    parts = [
        moved + float(closed_form_constant(n, nu)) / nu ** (n + 1) * beyond + formula_roundings(n, nu) * formula
        for n in orders
    ]
    return above(torch.stack(parts) + bias, FEW)


def _allowances(orders: tuple[int, ...], realized: AnalyticRealized, shared: _Shared) -> Allowances:
    """d_n and a_n of `BestAllowance`, from above, and last the unit's: powers of 1/s go from order to order.

    d_n = c_n |delta| sum_{i<n} s_r^-(i+1) s_k^-(n-i)/n, and what A_n - R integrates to between computed and exact
    radius, at most c_n of_gap/(2 s^(n+2)); a_n = c_n high/s^(n+2). Here s is at most every s(x) on the way.
    """
    states, geometry, off = realized.states, realized.geometry, realized.off
    nu, inverse_k, inverse_r = shared.nu, shared.inverse_k, shared.inverse_r
    count, width = shared.delta.shape
    d, a = (shared.delta.new_empty(len(orders) + 1, count, width) for _ in range(2))
    apart = shared.delta.abs().mul_(inverse_r).mul_(inverse_k)
    inverse = off.s_r.reciprocal()
    square = inverse * inverse
    moved, ratio = off.of_gap * square * 0.5, off.high * square
    total, power = torch.ones_like(apart), torch.ones_like(inverse_k)
    for n in range(1, max(orders) + 1):
        moved.mul_(inverse)
        ratio.mul_(inverse)
        if n > 1:
            power = power * inverse_k
            total.mul_(inverse_r).add_(power)
        if n not in orders:
            continue
        # more roundings than any of these products has, n of them by an inverse
        c = above(float(closed_form_constant(n, nu)), 8 * (n + 6))
        at = orders.index(n)
        between = torch.mul(apart, total, out=d[at]).mul_(c / n)
        torch.mul(ratio, c, out=a[at])
        if n == 2:
            uniform = above(float(UNIFORM["eleventh"].value) / nu**3, 16)
            between.copy_(torch.minimum(between, above(geometry.gaps, 8) * uniform))
            a[at].clamp_max_(uniform)
        between.add_(moved, alpha=c)
    # outward: what underflowed is the smallest normal number, unless there is no feature and r is k
    still = (states.features == 0).all(dim=1)
    floor = torch.where(still, 0.0, torch.full_like(states.temperature, smallest_normal(_DTYPE)))[:, None]
    torch.maximum(above(d[:-1], FEW), floor, out=d[:-1])
    a[:-1].clamp_min_(smallest_normal(_DTYPE))
    unit = realized.unit()
    d[-1], a[-1] = unit.d, unit.a
    return Allowances(d=d.flatten(0, 1), a=a.flatten(0, 1))
