"""The centred contract where most classes are known by groups only: sums over a few hundred numbers a state.

With d_j alone (no matched gaps) every bound is a sum of convex or concave functions of d_j, weighted by probabilities.
A group of classes is kept by its mass, the range of its d_j and their mean: a convex function is then at most its chord
over the range, a concave one at most its value at the mean (docs/theory, 9.6). The classes that have most of the mass
stand singly, and their sums are the contract's own. So an inversion costs nothing beside the pass that forms the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.base import Estimate, Series
from suffice.contracts.bounds import Bounds
from suffice.contracts.divergence import uniform_divergence
from suffice.contracts.sensitivity import Sensitivity
from suffice.numerics.softmax import at_class, exclusive, without

__all__ = ["LARGEST_DIFFERENCE", "LEAST_BUDGET", "Grouped", "GroupedFamily", "Groups", "Singles"]

# Differences of errors that the groups are used for: 2 b max d.
LARGEST_DIFFERENCE = 300.0
# What underflows on the way is below this times e^{2 (2 b max d)}, for 1 and for the largest distance or ratio
# allowance (9.6c).
_UNDERFLOWN = 1e-300
# Budgets that the groups are used for: far above what is added for underflow.
LEAST_BUDGET = 1e-30
# Of these movements the bounds are nearly their first orders.
_SMALL = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Singles:
    """Classes that stand singly: probability, d, a, distance, and the gap to the top score (rounding taken off).

    The gap of the top class itself is infinite.
    """

    pi: Float[Tensor, "queries singles"]
    d: Float[Tensor, "queries singles"]
    a: Float[Tensor, "queries singles"]
    distance: Float[Tensor, "queries singles"]
    gap: Float[Tensor, "queries singles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of the others: their mass, the range `low` to `high` of d_j, the largest a_j, the least gap.

    `mean` is that of d_j by mass, `share` the same as a share of the range; `far` is sum pi_j rho_j, `far_share` the
    mean of d_j by that weight, again as a share of the range.
    """

    pi: Float[Tensor, "queries groups"]
    low: Float[Tensor, "queries groups"]
    high: Float[Tensor, "queries groups"]
    mean: Float[Tensor, "queries groups"]
    share: Float[Tensor, "queries groups"]
    far: Float[Tensor, "queries groups"]
    far_share: Float[Tensor, "queries groups"]
    a: Float[Tensor, "queries groups"]
    gap: Float[Tensor, "queries groups"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """A softmax head and its allowances by singles and groups. `target` and `top` are places among the singles.

    `slack` and `roundings` are those of the head with all of its classes (6.6), `largest_ratio` is max a_j.
    """

    singles: Singles
    groups: Groups
    target: Int[Tensor, " queries"]
    top: Int[Tensor, " queries"]
    gradient_scale: Float[Tensor, " queries"]
    slack: Float[Tensor, " queries"]
    largest: Float[Tensor, " queries"]
    largest_ratio: float
    farthest: Float[Tensor, " queries"]
    h_bound: float
    roundings: float
    divergence: bool = False

    def __len__(self) -> int:
        return len(self.slack)

    def __getitem__(self, rows: Tensor) -> Grouped:
        """That of some rows."""
        part: dict[str, Any] = {each.name: _some(getattr(self, each.name), rows) for each in fields(self)}
        return Grouped(**part)

    def bounds(self, b: Float[Tensor, " queries"]) -> Bounds:
        """Bounds that are nowhere below the centred contract's at b times the allowances; infinite past their domain.

        The domain is 2 b max d <= 300. A bound at b = 0 is zero, but for a tie of the two best scores.
        """
        s, g = _Moved.of_singles(self, b), _MovedGroups.of(self.groups, b)
        rest = _rest(self, s, g)
        up, down, left = rest.up, rest.down, rest.left
        size = at_class(up, self.target)
        top_d = b * self.largest
        single = (self.singles.pi * torch.maximum(up / (1 + up), down / left)).sum(dim=1)
        tv = torch.minimum(torch.tanh(top_d / 2), 0.5 * (single + _deviation(g, rest)))
        others = without(self.singles.pi, self.target, 0.0)
        mass = others.sum(dim=1) + rest.mass
        a_y = b * at_class(self.singles.a, self.target)
        away = (size + mass) / (1 + size)
        plain = b * ((others * self.singles.a).sum(dim=1) + (g.pi * self.groups.a).sum(dim=1)) + mass * a_y
        upper = (others * self.singles.a / left).sum(dim=1) + (self.groups.a * g.risen).sum(dim=1) / rest.kept
        ratio = torch.minimum(b * upper, away * (b * self.largest_ratio)) + away * a_y
        moved = (self.singles.pi * s.x * self.singles.distance).sum(dim=1) + g.far
        gradient = torch.minimum(2 * self.h_bound * tv + plain, moved / rest.kept + ratio)
        kl = _divergence(self, s, g, rest, top_d) if self.divergence else None
        return self._outward(b, torch.log1p(size), tv, gradient, kl)

    def _outward(self, b: Tensor, loss: Tensor, tv: Tensor, gradient: Tensor, kl: Tensor | None) -> Bounds:
        """Raised as plain bounds are (6.12b), past what underflows."""
        factor = (1 + self.slack) * (1 + self.roundings) ** 2
        moving = (b > 0) & ((self.largest > 0) | (self.largest_ratio > 0))
        lost = moving.to(b.dtype) * (_UNDERFLOWN * torch.exp(4 * b * self.largest))
        inside = (2 * b * self.largest <= LARGEST_DIFFERENCE) & torch.isfinite(self.slack)

        def raised(bound: Tensor) -> Tensor:
            found = torch.where(moving, bound, 0.0) * factor
            return torch.where(inside, found + lost, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf)

        size = self.farthest.clamp_min(max(1.0, self.h_bound, self.largest_ratio))
        return Bounds(
            loss=raised(loss),
            # no two distributions are further apart than 1
            probability=torch.where(inside, raised(tv).clamp_max(1), torch.inf),
            gradient=raised((gradient + lost * size) * self.gradient_scale),
            margin_use=torch.where(inside, self._margin(b), torch.inf),
            kl=None if kl is None else raised(kl),
        )

    def _margin(self, b: Tensor) -> Tensor:
        """max over j other than the top class of (d_j + d_top)/gap_j, times b; a gap that is not known is a tie."""
        at_top = at_class(self.singles.d, self.top)[:, None]
        single = torch.where(self.singles.gap > 0, (self.singles.d + at_top) / self.singles.gap, torch.inf)
        group = torch.where(self.groups.gap > 0, (self.groups.high + at_top) / self.groups.gap, torch.inf)
        use = torch.maximum(single.amax(dim=1), group.amax(dim=1))
        return torch.where(torch.isinf(use), torch.inf, b * use * (1 + self.roundings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """x = e^v - 1, z = e^-v and y = 1 - e^-v for the singles' v = b d."""

    v: Tensor
    x: Tensor
    z: Tensor
    y: Tensor

    @staticmethod
    def of_singles(grouped: Grouped, b: Tensor) -> _Moved:
        v = grouped.singles.d * b[:, None]
        x = torch.expm1(v)
        z = (1 + x).reciprocal_()
        return _Moved(v=v, x=x, z=z, y=x * z)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MovedGroups:
    """Sums of a group's classes, from above: `grown` of pi_j x_j, `risen` of pi_j e^{v_j}, `far` of pi_j rho_j x_j.

    `fallen` is y at the mean, of which pi times it is no less than sum pi_j y_j; `kept` is sum pi_j z_j from below.
    `low`, `high` and `x_low`, `x_high` are v and x at both ends.
    """

    pi: Tensor
    share: Tensor
    low: Tensor
    high: Tensor
    x_low: Tensor
    x_high: Tensor
    fallen: Tensor
    kept: Tensor
    grown: Tensor
    risen: Tensor
    far: Tensor

    @staticmethod
    def of(groups: Groups, b: Tensor) -> _MovedGroups:
        factor = b[:, None]
        low, high = groups.low * factor, groups.high * factor
        x_low, x_high = torch.expm1(low), torch.expm1(high)
        fallen = torch.expm1(groups.mean * -factor).neg_()
        grown = groups.pi * _chord(x_low, x_high, groups.share)
        return _MovedGroups(
            pi=groups.pi,
            share=groups.share,
            low=low,
            high=high,
            x_low=x_low,
            x_high=x_high,
            fallen=fallen,
            # not 1 - fallen, which has no digits left where fallen is nearly 1: this is a divisor, from below
            kept=(groups.pi * torch.exp(groups.mean * -factor)).sum(dim=1),
            grown=grown,
            risen=groups.pi + grown,
            far=(groups.far * _chord(x_low, x_high, groups.far_share)).sum(dim=1),
        )


def _chord(low: Tensor, high: Tensor, share: Tensor) -> Tensor:
    """The chord's value at a share of the range; no less than a convex function's mean."""
    return torch.addcmul(low, share, high - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """S^+, -S^- and 1 + S^- of the singles; sums over all classes: of pi x and pi y from above, of pi z from below.

    `mass` is that of all groups.
    """

    up: Tensor
    down: Tensor
    left: Tensor
    grown: Tensor
    fallen: Tensor
    kept: Tensor
    mass: Tensor


def _rest(grouped: Grouped, s: _Moved, g: _MovedGroups) -> _Rest:
    """Sums that leave a single out are formed without it; nothing is left out for a class of a group."""
    pi = grouped.singles.pi
    mass, grown = g.pi.sum(dim=1), g.grown.sum(dim=1)
    fallen = (g.pi * g.fallen).sum(dim=1)
    grows, falls, keeps = pi * s.x, pi * s.y, pi * s.z
    besides = exclusive(pi) + mass[:, None]
    return _Rest(
        up=torch.addcmul(s.x * besides, 1 + s.x, exclusive(grows) + grown[:, None]),
        down=torch.addcmul(s.y * besides, s.z, exclusive(falls) + fallen[:, None]),
        left=torch.addcmul(pi, s.z, exclusive(keeps) + g.kept[:, None]),
        grown=grows.sum(dim=1) + grown,
        fallen=falls.sum(dim=1) + fallen,
        kept=keeps.sum(dim=1) + g.kept,
        mass=mass,
    )


def _deviation(g: _MovedGroups, rest: _Rest) -> Tensor:
    """Sum over the groups' classes of max(pi_j - l_j, u_j - pi_j): A concave, and (B - A)^+ convex, in d_j."""
    grown, fallen, kept = rest.grown[:, None], rest.fallen[:, None], rest.kept[:, None]

    def over(x: Tensor) -> Tensor:
        rise, fall = (x + fallen) / kept, (grown + x / (1 + x)) / (1 + grown)
        return (rise - fall).clamp_min_(0)

    fall = (grown + g.fallen) / (1 + grown)
    return (g.pi * (fall + _chord(over(g.x_low), over(g.x_high), g.share))).sum(dim=1)


def _divergence(grouped: Grouped, s: _Moved, g: _MovedGroups, rest: _Rest, largest: Tensor) -> Tensor:
    """The least of 6.14a for v_j = d_j and for v_j = d_j + d_top, which is 0 at the top class."""
    upper = grouped.singles.pi / rest.left
    own = (upper * _phi(s.v, s.x)).sum(dim=1)
    own = own + _of_groups(g, _phi(g.low, g.x_low), _phi(g.high, g.x_high)) / rest.kept
    v, x = at_class(s.v, grouped.top)[:, None], at_class(s.x, grouped.top)[:, None]
    apart = _phi(s.v + v, s.x * (1 + x) + x)
    apart = (upper * without(apart, grouped.top, 0.0)).sum(dim=1)
    ends = [_phi(low + v, of_low * (1 + x) + x) for low, of_low in ((g.low, g.x_low), (g.high, g.x_high))]
    apart = apart + _of_groups(g, *ends) / rest.kept
    uniform = torch.minimum(uniform_divergence(largest), uniform_divergence(largest + v.squeeze(1)))
    return torch.minimum(torch.minimum(own, apart), uniform)


def _of_groups(g: _MovedGroups, low: Tensor, high: Tensor) -> Tensor:
    """sum pi_j e^{v_j} phi_j from above: a product of increasing convex functions is one."""
    return (g.pi * _chord((1 + g.x_low) * low, (1 + g.x_high) * high, g.share)).sum(dim=1)


def _phi(v: Tensor, x: Tensor) -> Tensor:
    """v (2 (e^v - 1) + v)/6."""
    return v * torch.add(v, x, alpha=2) / 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedFamily:
    """Multiples of a `Grouped`'s allowances, for rows whose budgets break inside of its domain: no cap is needed."""

    grouped: Grouped

    def __len__(self) -> int:
        return len(self.grouped)

    def __getitem__(self, rows: Tensor) -> GroupedFamily:
        """The family of some rows."""
        return GroupedFamily(grouped=self.grouped[rows])

    def direct(self) -> GroupedFamily:
        """Itself."""
        return self

    def at(self, b: Float[Tensor, " queries"], names: frozenset[str] | None = None) -> Bounds:
        """All bounds at b times the unit."""
        del names
        return self.grouped.bounds(b)

    def alone(self) -> Bounds | None:
        """Nothing is beside the family."""
        return None

    def slopes(self) -> Sensitivity:
        """By the bounds where they are nearly straight: a guess to begin with."""
        b = _SMALL / self.grouped.largest.clamp_min(torch.finfo(torch.float64).tiny)
        b = b.clamp_max(1 / _SMALL)
        at = self.at(b)
        kl = None if at.kl is None else at.kl / (b * b)
        return Sensitivity(loss=at.loss / b, probability=at.probability / b, gradient=at.gradient / b, kl=kl)

    def saturated_start(self, loss: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """Not known."""
        return torch.full_like(loss, torch.inf)

    def reach(self) -> Float[Tensor, " queries"]:
        """Past the domain, where nothing is accepted."""
        return LARGEST_DIFFERENCE / self.grouped.largest

    def log_tail(self) -> Float[Tensor, " queries"]:
        """No slope is claimed: past the domain no b is tried."""
        return torch.full_like(self.grouped.slack, torch.inf)

    def known(self) -> Bool[Tensor, " queries"]:
        """Where anything is known of the log-probabilities."""
        return torch.isfinite(self.grouped.slack)

    def estimate(self) -> Estimate | None:
        """None: the bounds are cheap."""
        return None

    def series(self) -> Series | None:
        """None: as above."""
        return None

    def dominated(self) -> Bool[Tensor, " queries"]:
        """None: there are no series to keep rows from."""
        return torch.zeros_like(self.grouped.slack, dtype=torch.bool)

    def aim(self, limits: dict[str, Float[Tensor, " queries"]]) -> Float[Tensor, " queries"] | None:
        """None: the bounds are cheap."""
        del limits
        return None

    def slack(self) -> Float[Tensor, " queries"]:
        """The head's."""
        return self.grouped.slack

    def roundings(self) -> float:
        """The largest slack of a row, of which they are a part."""
        return self.grouped.slack.amax().item()


def _some(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[rows]
    if isinstance(value, Singles | Groups):
        return replace(value, **{each.name: getattr(value, each.name)[rows] for each in fields(value)})
    return value
