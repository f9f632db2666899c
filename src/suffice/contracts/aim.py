"""Where the centred contract uses up its budgets: Newton's method on a few sums, which aims and certifies nothing.

Written for rows in which one class w has nearly everything: of the contract's bounds this takes those with movements
t_j towards w. With E_j = pi_j e^{b t_j} for the other classes, sum E_j rho_j - sum pi_j rho_j is the redistribution and
sum E_j a_j nearly the ratio term, so that value, slope and curvature are sums over E. Two rounds in float32 leave 1e-6
of the budget, and one value in float64, by the contract's own formulas, 1e-12.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.aim_by_secants import aim_by_secants, picked
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.dominated_sums import DominatedSums, sums_of
from suffice.contracts.space import Space, kept_space
from suffice.numerics.arrays import Flags, Scalars, TorchArrays, quiet

__all__ = ["centered_aim"]

# log of the share of the budget that is aimed at: what is above 1 is lost, below 1 - 1e-9 no bracket is closed.
_AIM = -4e-10
# Rounds in float32.
_ROUNDS = 2
# The step in float64 is off by its error times what slopes are off: by the square of the last error in float32, and by
# roundings of logarithms in float32. Right to this.
_CLOSE, _OFF = 3e-11, 1e-5
# Up to this movement d itself may give the smaller bound.
_SMALL = 3.0


class _Limits(NamedTuple):
    """What S, and the gradient's bound without its scale, may be at most, before they are raised."""

    loss: Scalars | None
    gradient: Scalars | None


@torch.no_grad()
@quiet
def centered_aim(head: SoftmaxHead, unit: Allowances, limits: dict[str, Tensor]) -> Float[Tensor, " queries"] | None:
    """A b at which budgets on loss and gradient are used up to 4e-10, or about so; NaN or anything where none is found.

    None for other budgets, and without matched gaps.
    """
    if head.distances is None or unit.to_top is None or head.log_probabilities.dtype != torch.float64:
        return None
    if not limits or not limits.keys() <= {"loss", "gradient"}:
        return None
    given, at_most = sums_of(head, unit), _limits(head, limits)
    first = _first(_given(given, head.log_probabilities, at_most))
    b, close = _stepped(given, at_most, first)
    own = given.top == head.target.numpy(force=True)
    rows = (~(own & close & (b * first.largest > _SMALL))).nonzero()[0]
    if len(rows):
        # where the target is not the top class there is no start
        start, power = np.where(own, b, np.nan)[rows], first.power[rows]
        loss, gradient = (None if limit is None else limit[rows] for limit in at_most)
        some = picked(head, unit, given.t, torch.from_numpy(rows))
        b[rows] = aim_by_secants(some, loss, gradient, start, power)
    return torch.from_numpy(b).to(unit.d.device)


def _limits(head: SoftmaxHead, limits: dict[str, Tensor]) -> _Limits:
    # before they are raised and scaled
    raised = (1 + head.slack) * (1 + head.roundings)
    loss, gradient = limits.get("loss"), limits.get("gradient")
    return _Limits(
        None if loss is None else torch.expm1(loss / raised).numpy(force=True),
        None if gradient is None else (gradient / (raised * head.gradient_scale)).numpy(force=True),
    )


class _First(NamedTuple):
    """What float32 leaves: b, the power of b that loads grow with there, how that changes with log b, the last load's
    logarithm, and the largest movement at 1."""

    b: Scalars
    power: Scalars
    bend: Scalars
    error: Scalars
    largest: Scalars


class _Load(NamedTuple):
    """A bound over its budget, and its first and second derivative in b."""

    value: Scalars
    slope: Scalars
    bend: Scalars


class _Given(NamedTuple):
    """In float32 and in units of the budget, that on the gradient if there is one: movements, log pi, distances and
    a_j + a_w, what has to be taken off the sums, and how much larger a loss is in units of its own."""

    t: Tensor
    logs: Tensor
    rho: Tensor | None
    a: Tensor | None
    mass: Scalars
    rho_mean: Scalars
    loss: Scalars | None
    arrays: TorchArrays
    space: Space


def _given(sums: DominatedSums, log_pi: Tensor, limits: _Limits) -> _Given:
    limit = limits.loss if limits.gradient is None else limits.gradient
    assert limit is not None
    space, arrays = kept_space(), TorchArrays(log_pi.device)
    t = space("aim-t", sums.t, torch.float32).copy_(sums.t)
    logs = space("aim-logs", t).copy_(log_pi).sub_(arrays.column(np.log(limit)).to(t))
    arrays.put(logs, sums.top, -math.inf)
    rho = a = None
    if limits.gradient is not None:
        rho = space("aim-rho", t).copy_(sums.rho)
        a = space("aim-a", t).copy_(sums.unit.a).add_(arrays.column(sums.a_top).to(t))
    loss = None if limits.loss is None else limit / limits.loss
    return _Given(t, logs, rho, a, sums.mass / limit, sums.rho_mean / limit, loss, arrays, space)


def _first(given: _Given) -> _First:
    """For rows whose target is the top class."""
    t = given.t
    # no class alone has more than a part of the budget, or all have movements below 1
    alone = torch.sub(0.7 - 0.4 * math.log(t.shape[1]), given.logs, out=given.space("aim-u", t))
    b: Scalars = given.arrays.least(alone.clamp_min_(0.7).div_(t)).astype(np.float64)
    power = bend = error = step = b
    for _ in range(_ROUNDS):
        load = _load(given, b)
        error, power = np.log(load.value), b * load.slope / load.value
        bend = power * (1 - power) + b * b * load.bend / load.value
        step = _parabola(error, power, bend)
        b = b * np.exp(step)
    return _First(b, power + bend * step, bend, error, given.arrays.most(t))


def _parabola(error: Scalars, power: Scalars, bend: Scalars) -> Scalars:
    """The step in log b to an error of nothing, along the parabola."""
    found: Scalars = -2 * error / (power + np.sqrt(np.maximum(power * power - 2 * error * bend, 0)))
    return found


def _load(given: _Given, b: Scalars) -> _Load:
    """The larger one of the loads: sums over E, weighted by rho_j + b (a_j + a_w) for the gradient."""
    t, arrays, space = given.t, given.arrays, given.space
    column = torch.from_numpy(b).to(t)[:, None]
    e = torch.addcmul(given.logs, t, column, out=space("aim-u", t)).exp_()
    tilted = torch.mul(e, t, out=space("aim-tilted", t))
    of_loss = None if given.loss is None else given.loss * (arrays.total(e) - given.mass)

    def losses(value: Scalars) -> _Load:
        assert given.loss is not None
        return _Load(value, given.loss * arrays.total(tilted), given.loss * arrays.dot(tilted, t))

    if given.rho is None or given.a is None:
        assert of_loss is not None
        return losses(of_loss)
    weights = torch.addcmul(given.rho, given.a, column, out=space("aim-weights", t))
    value = arrays.dot(e, weights) - given.rho_mean
    # of the loss no more where it is nowhere the larger one
    larger = None if of_loss is None or not (of_loss > value).any() else losses(of_loss)
    slope, twice = arrays.dot(tilted, weights) + arrays.dot(e, given.a), arrays.dot(tilted, given.a)
    found = _Load(value, slope, arrays.dot(tilted.mul_(t), weights) + 2 * twice)
    if larger is None:
        return found
    return _Load(*(np.where(larger.value > value, *each) for each in zip(larger, found, strict=True)))


def _stepped(given: DominatedSums, limits: _Limits, first: _First) -> tuple[Scalars, Flags]:
    """One step by the contract's own formulas in float64, and whether it was right to what matters."""
    b = first.b
    sums = given.at(torch.from_numpy(b).to(given.t.device))
    load = np.zeros_like(b) if limits.loss is None else sums.size / limits.loss
    if limits.gradient is not None:
        load = np.maximum(load, given.gradient(sums, sums.size, b) / limits.gradient)
    error = np.log(load) - _AIM
    close: Flags = np.abs(error) * (first.error**2 + _OFF) <= _CLOSE
    return b * np.exp(_parabola(error, first.power, first.bend)), close
