"""Where the centred contract uses up its budgets: Newton's method on a few sums, which aims and certifies nothing.

Written for rows in which one class w has nearly everything: of the contract's bounds this takes those with movements
t_j towards w. With E_j = pi_j e^{b t_j} for the other classes, sum E_j rho_j - sum pi_j rho_j is the redistribution and
sum E_j a_j nearly the ratio term, so that value, slope and curvature are sums over E. Some rounds in float32 come
first, since exponentials are what costs; the last ones are in float64 and have the contract's own formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.moved import towards
from suffice.contracts.space import Space, kept_space
from suffice.numerics.softmax import at_class, without

__all__ = ["centered_aim"]

# log of the share of the budget that is aimed at: what is above 1 is lost, below 1 - 1e-9 no bracket is closed.
_AIM = -4e-10
# Rounds in float32, and at most so many in float64.
_FIRST_ROUNDS, _MOST_ROUNDS = 3, 6
# A round ends the search if its step, by what slopes may be off, is right to this.
_CLOSE = 1e-10
# What slopes are off at least.
_OFF = 1e-5
# Up to this movement d itself may give the smaller bound.
_SMALL = 3.0


@torch.no_grad()
def centered_aim(head: SoftmaxHead, unit: Allowances, limits: dict[str, Tensor]) -> Float[Tensor, " queries"] | None:
    """A b at which budgets on loss and gradient are used up to 4e-10, or about so; NaN or anything where none is found.

    None for other budgets, and without matched gaps.
    """
    if head.distances is None or unit.to_top is None or head.log_probabilities.dtype != torch.float64:
        return None
    if not limits or not limits.keys() <= {"loss", "gradient"}:
        return None
    top = head.top
    given, own = _given(head, unit, limits, top), head.target == top
    b = _first(given)
    small = ~(b * given.t.amax(dim=1) > _SMALL)
    b, power = _solved(given, b, own & ~small)
    # where the target is not the top class: from where the first step is that of first order
    b = torch.where(own, b, 1e-6 / unit.d.amax(dim=1))
    power = torch.where(own, power, 1.0)
    rows = (small | ~own).nonzero().squeeze(1)
    return b.index_put((rows,), _by_secants(given[rows], b[rows], power[rows])) if len(rows) else b


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """Movements t towards the top class, log pi of all others (-inf for it), and what the sums may be at most."""

    head: SoftmaxHead
    unit: Allowances
    top: Tensor
    t: Float[Tensor, "queries classes"]
    logs: Float[Tensor, "queries classes"]
    loss: Float[Tensor, " queries"] | None
    gradient: Float[Tensor, " queries"] | None
    space: Space

    def __getitem__(self, rows: Tensor) -> _Given:
        """That of some rows."""
        return _Given(
            head=self.head[rows],
            unit=self.unit[rows],
            top=self.top[rows],
            t=self.t[rows],
            logs=self.logs[rows],
            loss=None if self.loss is None else self.loss[rows],
            gradient=None if self.gradient is None else self.gradient[rows],
            space=self.space,
        )


def _given(head: SoftmaxHead, unit: Allowances, limits: dict[str, Tensor], top: Tensor) -> _Given:
    space, log_pi = kept_space(), head.log_probabilities
    # before they are raised and scaled
    raised = (1 + head.slack) * (1 + head.roundings)
    return _Given(
        head=head,
        unit=unit,
        top=top,
        t=towards(unit.d, unit.to_top, top, space("aim-t", log_pi)),
        logs=space("aim-logs", log_pi).copy_(log_pi).scatter_(1, top[:, None], -torch.inf),
        loss=torch.expm1(limits["loss"] / raised) if "loss" in limits else None,
        gradient=limits["gradient"] / (raised * head.gradient_scale) if "gradient" in limits else None,
        space=space,
    )


def _first(given: _Given) -> Float[Tensor, " queries"]:
    """In float32 and in units of the budget, for rows whose target is the top class."""
    limit = given.loss if given.gradient is None else given.gradient
    assert limit is not None
    assert given.head.distances is not None
    space = given.space
    t = space("aim-t", given.t, torch.float32).copy_(given.t)
    logs = space("aim-logs", t).copy_(torch.sub(given.logs, torch.log(limit)[:, None], out=space("aim-e", given.t)))
    rho, a = space("aim-rho", t).copy_(given.head.distances), space("aim-a", t).copy_(given.unit.a)
    a.add_(at_class(given.unit.a, given.head.target).float()[:, None])
    other = None if given.loss is None or given.gradient is None else (given.gradient / given.loss).float()
    # no class alone has more than a part of the budget, or all have movements below 1
    b = torch.sub(0.7 - 0.4 * math.log(t.shape[1]), logs, out=space("aim-u", t)).clamp_min_(0.7).div_(t).amin(dim=1)
    for _ in range(_FIRST_ROUNDS):
        column = b[:, None]
        u = torch.mul(t, -column, out=space("aim-u", t))
        e = torch.sub(logs, u, out=space("aim-e", t)).exp_()
        moved = u.expm1_().mul_(e).neg_()
        size = moved.sum(dim=1)
        if given.gradient is None:
            load, slope = size, e.mul_(t).sum(dim=1)
        else:
            grown = torch.mul(e, a, out=space("aim-grown", t))
            ratio = grown.sum(dim=1)
            load = moved.mul_(rho).sum(dim=1) + b * ratio
            tilted = e.mul_(t)
            first = tilted.sum(dim=1)
            slope = tilted.mul_(rho).add_(grown.mul_(t).mul_(column)).sum(dim=1) + ratio
            if other is not None:
                over = size * other > load
                load, slope = torch.where(over, size * other, load), torch.where(over, first * other, slope)
        b = b * torch.exp(-torch.log(load) * load / (b * slope))
    return b.double()


class _Values(NamedTuple):
    """For one vector v: E_j and u_j a_j of all classes but the top one, sums over these, and the redistribution."""

    e: Tensor
    ratios: Tensor
    total: Tensor
    size: Tensor
    rest: Tensor
    redistributed: Tensor


def _values(given: _Given, v: Tensor, b: Tensor, v_top: Tensor | None = None) -> _Values:
    """The contract's own formulas; `v_top` is the top class's own part, if there is one."""
    space, rho = given.space, given.head.distances
    assert rho is not None
    peak = at_class(given.head.log_probabilities, given.top).exp()
    u = torch.mul(v, -b[:, None], out=space("aim-u", v))
    e = torch.sub(given.logs, u, out=space("aim-e", v)).exp_()
    fallen = u.expm1_().neg_()
    moved = torch.mul(e, fallen, out=space("aim-moved", v))
    total, size = e.sum(dim=1), moved.sum(dim=1)
    vanishing = torch.sub(e, moved, out=space("aim-kept", v)).mul_(fallen.neg_().add_(1))
    rest = vanishing.sum(dim=1)
    whole = rest + (peak if v_top is None else peak * torch.exp(-b * v_top))
    # u_j = E_j/(Z + E_j - pi_j z_j)
    ratios = torch.sub(e, vanishing, out=vanishing).add_(whole[:, None]).reciprocal_().mul_(e).mul_(given.unit.a)
    redistributed = moved.mul_(rho).sum(dim=1)
    if v_top is not None:
        redistributed = redistributed + peak * torch.expm1(b * v_top) * at_class(rho, given.top)
    return _Values(e, ratios, total, size, rest, redistributed / whole)


def _ratio(given: _Given, upper: Tensor, away: Tensor) -> Tensor:
    """The ratio term over b."""
    a, target = given.unit.a, given.head.target
    a_max = without(a, target, 0.0).amax(dim=1)
    return torch.minimum(upper, away * a_max) + away * at_class(a, target)


class _Point(NamedTuple):
    """The log of a bound over its budget at some b, and first and second derivative of the bound in b over it."""

    log_load: Tensor
    slope: Tensor
    bend: Tensor


def _solved(given: _Given, b: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """For rows whose target is the top class: steps along the parabola in (log b, log load), until all are close.

    With the power of b that loads grow with.
    """
    b, power, close = _stepped(given, b)
    open_rows = (wanted & ~close).nonzero().squeeze(1)
    if len(open_rows):
        some, at, to = given[open_rows], b[open_rows], power[open_rows]
        for _ in range(_MOST_ROUNDS):
            at, to, close = _stepped(some, at)
            if bool(close.all()):
                break
        b, power = b.index_put((open_rows,), at), power.index_put((open_rows,), to)
    return b, power


def _stepped(given: _Given, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One step, the power, and whether the step was right to what matters (or there is none)."""
    at, off = _at(given, b)
    error = at.log_load - _AIM
    power = b * at.slope
    bend = power * (1 - power) + b * b * at.bend
    root = torch.sqrt((power * power - 2 * error * bend).clamp_min(0))
    close = (error.abs() * off <= _CLOSE) | ~torch.isfinite(error)
    return b * torch.exp(-2 * error / (power + root)), power, close


def _at(given: _Given, b: Float[Tensor, " queries"]) -> tuple[_Point, Tensor]:
    """The loads of the bounds with movements t, with derivatives, and what those may be off."""
    t, column, rho = given.t, b[:, None], given.head.distances
    assert rho is not None
    values = _values(given, t, b)
    e, size = values.e, values.size
    tilted = torch.mul(e, t, out=given.space("aim-moved", t))
    first = tilted.sum(dim=1)
    points = []
    if given.loss is not None:
        second = torch.mul(tilted, t, out=given.space("aim-u", t)).sum(dim=1)
        points.append(_Point(torch.log(size / given.loss), first / size, second / size))
    if given.gradient is not None:
        ratio = _ratio(given, values.ratios.sum(dim=1), values.total / (1 + size))
        load = values.redistributed + b * ratio
        # weights of E: rho_j + b (a_j + a_y)
        a_y = at_class(given.unit.a, given.head.target)
        linear = torch.add(given.unit.a, a_y[:, None], out=given.space("aim-u", t))
        twice = torch.mul(tilted, linear, out=given.space("aim-kept", t)).sum(dim=1)
        grown = e.mul_(linear).sum(dim=1)
        tilted.mul_(linear.mul_(column).add_(rho))
        slope = tilted.sum(dim=1) + grown
        bend = tilted.mul_(t).sum(dim=1) + 2 * twice
        points.append(_Point(torch.log(load / given.gradient), slope / load, bend / load))
    off = size + values.rest + _OFF
    if len(points) == 1:
        return points[0], off
    over = points[0].log_load > points[1].log_load
    return _Point(*(torch.where(over, one, other) for one, other in zip(*points, strict=True))), off


def _by_secants(given: _Given, b: Tensor, power: Tensor) -> Float[Tensor, " queries"]:
    """Where movements are small, and both vectors count, from a power of b that loads about grow with.

    The load is nearly proportional to e^{vb} - 1 with some v in the middle of the movements: secants are laid through
    its logarithm over that of this, of which the power is v b/(1 - e^{-vb}), about 1 + vb/2.
    """
    v = 2 * (power - 1).clamp(1e-12, 5.0) / b
    load, slope, before = _Load(given), torch.ones_like(b), None
    for _ in range(_MOST_ROUNDS):
        x = torch.log(torch.expm1(v * b))
        error = torch.log(load(b)) - _AIM
        off = torch.ones_like(error)
        if before is not None:
            apart = x - before[0]
            steeper = torch.where(apart.abs() > 1e-9, (error - before[1]) / apart, slope).clamp(0.25, 4)
            off, slope = (steeper / slope - 1).abs(), steeper
        before = (x, error)
        b = torch.log1p(torch.exp(x - error / slope)) / v
        # the next slope would be nearer to this one than this one was to the last
        if bool(((error.abs() * off <= 10 * _CLOSE) | ~torch.isfinite(error)).all()):
            break
    return b


class _Load:
    """The largest share of a budget, with the smaller of the bounds with movements t and with d, for any target."""

    def __init__(self, given: _Given) -> None:
        head, unit, top = given.head, given.unit, given.top
        self.given = given
        self.others = without(head.pi, head.target, 0.0)
        self.mass = self.others.sum(dim=1)
        self.movement = towards(unit.d, unit.to_target, head.target)
        self.d_top = at_class(unit.d, top)
        self.better: tuple[Tensor, Tensor] | None = None
        self.peak, self.a_top = at_class(head.log_probabilities, top).exp(), at_class(unit.a, top)
        self.own = head.target == top

    def __call__(self, b: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """At b, with both vectors at the first call, and later with that which was then the better one."""
        given = self.given
        grown = torch.mul(self.movement, b[:, None], out=given.space("aim-u", self.movement))
        size = grown.expm1_().mul_(self.others).sum(dim=1)
        loads = []
        if given.loss is not None:
            loads.append(size / given.loss)
        if given.gradient is not None:
            away = (size + self.mass) / (1 + size)
            if self.better is None:
                with_t = self._gradient(given.t, torch.zeros_like(b), b, away)
                load = torch.minimum(with_t, self._gradient(given.unit.d, self.d_top, b, away))
                other = load < with_t
                self.better = (torch.where(other[:, None], given.unit.d, given.t), torch.where(other, self.d_top, 0.0))
            else:
                load = self._gradient(*self.better, b, away)
            loads.append(load / given.gradient)
        return torch.stack(loads).amax(dim=0)

    def _gradient(self, v: Tensor, v_top: Tensor, b: Tensor, away: Tensor) -> Tensor:
        given = self.given
        values = _values(given, v, b, v_top)
        # sum_{j != y} u_j a_j, with 1 + S_w^- = pi_w + z_w Z_w for the top class
        top = self.peak / (self.peak + torch.exp(-b * v_top) * values.rest) * self.a_top
        upper = values.ratios.sum(dim=1)
        upper = torch.where(self.own, upper, upper - at_class(values.ratios, given.head.target) + top)
        return values.redistributed + b * _ratio(given, upper, away)
