"""Scope execution (docs/theory.md, 8): bounds on what was executed, rounding as one more allowance, and inverses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.bounds import Allowances, Bounds
from suffice.numerics.compensated import squared_radius
from suffice.numerics.rounding import smallest_normal
from suffice.objectives.contrastive import radial_slopes
from suffice.pairs.base import Pair
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import Prepared, own_allowances, prepared_from, uniform_allowances, zeroed
from suffice.realizations.distances import class_distances
from suffice.realizations.executed.outputs import Rounding, rounding_after
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.scores import rounding_allowances
from suffice.realizations.geometry_error import OUTWARD, GeometryError, geometry_error
from suffice.states import Geometry, States
from suffice.tolerances.bracket import Inverse
from suffice.tolerances.solving import Contract, invert_contract, invert_directly, with_one

__all__ = [
    "INSIDE",
    "SCOPES",
    "ExecutedErrors",
    "Execution",
    "executed_errors",
    "execution_of",
    "invert_executed",
    "invert_uniform",
    "unit_beside_rounding",
]

SCOPES = ("analytic", "execution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a pair is executed, and by which model its rounding is bounded."""

    pair: DebyePair
    dtype: torch.dtype
    compiled: bool
    model: str

    @property
    def words(self) -> str:
        """For people: the model is always named."""
        how = "compiled" if self.compiled else "eager"
        return f"{str(self.dtype).removeprefix('torch.')}, {how}, model {self.model}"

    def run(self, states: States) -> Executed:
        """Execute."""
        return execute(states, self.pair.order, self.dtype, compiled=self.compiled)

    def errors(self, states: States, *, distances: bool) -> ExecutedErrors:
        """Execute, and allow for all errors of that."""
        return executed_errors(states, self.run(states), self.pair, distances=distances, model=self.model)


def execution_of(
    scope: str, pair: Pair, dtype: torch.dtype = torch.float64, compiled: bool = False, model: str = "proved"
) -> Execution | None:
    """What is executed in scope "execution", None in scope "analytic"; other scopes and pairs are refused."""
    if scope not in SCOPES:
        raise ValueError(f"Expected scope in {list(SCOPES)}, but got {scope!r}")
    if scope == "analytic":
        return None
    if not isinstance(pair, DebyePair):
        raise TypeError(f"Expected a DebyePair for scope execution, but got {type(pair).__name__}")
    return Execution(pair=pair, dtype=dtype, compiled=compiled, model=model)


def executed_geometry(states: States, executed: Executed) -> Geometry:
    """What was executed on the way to the radii, as exact float64 numbers."""
    # one that is larger, or infinite in the executed dtype, leaves every row outside of the model
    k, gaps = executed.concentrations.double().clamp_max(1e150), executed.squared_gaps.double()
    # the clamp was at the rounded square: -k^2 itself is the smallest that there is
    gaps = torch.maximum(gaps, -(k * k))
    return Geometry(nu=states.bank.nu, concentrations=k, squared_gaps=gaps, radii=squared_radius(k, gaps).sqrt_())


INSIDE = "inside"


def departures(states: States, executed: Executed) -> np.ndarray[Any, Any]:
    """Where the execution stayed inside of the model of rounding, and elsewhere the first number that left it."""
    # a temperature that became infinite or subnormal leaves finite numbers behind, and wrong ones
    temperature = states.temperature.to(executed.dtype)
    usual = {
        "temperature": torch.isfinite(temperature) & (temperature >= smallest_normal(executed.dtype)),
        "geometry": torch.isfinite(executed.squared_gaps).all(dim=1),
        "scores": torch.isfinite(executed.scores).all(dim=1),
        "probabilities": torch.isfinite(executed.log_probabilities).all(dim=1),
        "gradient": torch.isfinite(executed.gradient).all(dim=1),
    }
    status = np.full(len(states), INSIDE, dtype="<U16")
    for name, rows in reversed(usual.items()):
        if not bool(rows.all()):
            status[(~rows).numpy(force=True)] = name
    return status


def _masked(executed: Executed, fine: Tensor) -> Executed:
    if bool(fine.all()):
        return executed

    def kept(values: Tensor) -> Tensor:
        return torch.where(fine[:, None], values, 0.0)

    return replace(
        executed,
        squared_gaps=kept(executed.squared_gaps),
        scores=kept(executed.scores),
        log_probabilities=kept(executed.log_probabilities),
        weights=kept(executed.weights),
        slopes=kept(executed.slopes),
        gradient=kept(executed.gradient),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedErrors:
    """What was executed, and allowances for all of its errors: `extra` is rounding's part of those of the scores.

    `off` is how far the executed geometry may be from the exact one.
    `status` is "inside" or names what left the model of rounding: by overflow or NaN, or a temperature that is no
    normal number of the executed dtype.
    """

    executed: Executed
    prepared: Prepared
    allowances: Allowances
    extra: Allowances
    off: GeometryError
    rounding: Rounding
    status: np.ndarray[Any, Any]
    fine: Bool[Tensor, " queries"]

    def bounds(self, contract: Contract) -> Bounds:
        """A contract at the executed scores, plus what comes after them.

        Infinite where a number is not finite: the execution left the model there.
        """
        return _with(contract(self.prepared.head, self.allowances), self.rounding, self.fine)

    def rounding_alone(self, contract: Contract) -> Bounds:
        """The bounds of a formula without error: no order has smaller ones."""
        return _with(contract(self.prepared.head, self.extra), self.rounding, self.fine)


def executed_errors(
    states: States,
    executed: Executed,
    pair: DebyePair,
    *,
    distances: bool,
    model: str = "proved",
    allowances_of: Callable[[Prepared], Allowances] | None = None,
) -> ExecutedErrors:
    """Allowances for the formula, for rounding on the way to the scores, and for what comes after them.

    The formula's are the pair's own, by its envelope, unless `allowances_of` gives others.
    """
    status = departures(states, executed)
    fine = torch.from_numpy(status == INSIDE).to(states.features.device)
    # rows outside of the model are computed on as zeros, and judged infinite
    masked = _masked(executed, fine)
    states = states if bool(fine.all()) else zeroed(states, ~fine)
    geometry = executed_geometry(states, masked)
    off = geometry_error(states, geometry, executed.dtype, executed.inputs, model)
    scores = masked.scores.double()
    # the executed scores are the ones that are meant: only their softmax is computed here
    prepared = prepared_from(states, geometry, scores, torch.zeros_like(scores))
    if distances:
        slopes, slope_error = radial_slopes(geometry, pair), pair.slope_rounding(geometry.nu, geometry.radii)
        rho = class_distances(states, geometry, off, slopes, slope_error, prepared.head)
        prepared = replace(prepared, head=replace(prepared.head, distances=rho))
    own = pair.allowance(geometry.nu, geometry.radii)
    extra = rounding_allowances(states, masked, prepared, off, own, matched_gaps=distances)
    formula = (
        own_allowances(prepared, pair, matched_gaps=distances) if allowances_of is None else allowances_of(prepared)
    )
    return ExecutedErrors(
        executed=executed,
        prepared=prepared,
        allowances=formula.plus(extra),
        extra=extra,
        off=off,
        rounding=rounding_after(states, masked, prepared, off, own, model),
        status=status,
        fine=fine,
    )


def _with(bounds: Bounds, rounding: Rounding, fine: Tensor) -> Bounds:
    def total(bound: Tensor, added: Tensor) -> Tensor:
        return torch.where(fine, (bound + added) * OUTWARD, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf)

    return Bounds(
        loss=total(bounds.loss, rounding.loss),
        probability=total(bounds.probability, rounding.probability),
        gradient=total(bounds.gradient, rounding.gradient),
        margin_use=torch.where(fine, bounds.margin_use, torch.inf),
    )


def invert_executed(
    made: ExecutedErrors, contract: Contract, budgets: Budgets, start: int, at_one: Bounds | None = None
) -> Inverse:
    """How many times the allowances could grow, with what comes after the scores unchanged: the headroom.

    The contract is inverted at what is left of the budgets; nothing is left where that part alone is over one.
    `at_one`, the bounds at 1, makes 1 a bracket point.
    """
    like = made.prepared.head.gradient_scale
    own, some = _left(made, budgets, start)
    inverse = invert_contract(contract, made.prepared.head, made.allowances, own, 0)
    if at_one is not None:
        inverse = with_one(inverse, at_one, budgets, start, like)
    return _nowhere_else(inverse, some)


def invert_uniform(made: ExecutedErrors, contract: Contract, budgets: Budgets, start: int) -> Inverse:
    """The largest b such that b g + delta, b |v|/r + the change of slope and what comes after keep the budgets: b*.

    Zero is not always accepted: where rounding alone is over a budget, nothing is.
    """
    unit = unit_beside_rounding(made)
    own, some = _left(made, budgets, start)
    return _nowhere_else(invert_directly(contract, made.prepared.head, unit, own, 0, extra=made.extra), some)


def unit_beside_rounding(made: ExecutedErrors) -> Allowances:
    """The uniform family at b = 1: gaps at the exact geometry's place, and a = |v|/r.

    A primitive that is off by b at the executed radius makes its vector off by b |v|/r, with the exact vector's length.
    """
    prepared, off = made.prepared, made.off
    at_exact = replace(
        prepared,
        geometry=replace(prepared.geometry, concentrations=prepared.states.bank.concentrations),
        of_gap=off.of_gap,
        low=off.low,
        high=off.high,
    )
    unit = uniform_allowances(at_exact, matched_gaps=made.extra.to_top is not None)
    r = prepared.geometry.radii
    return replace(unit, a=torch.where(r > 0, off.high / r.clamp_min(1e-300), 1.0))


def _left(made: ExecutedErrors, budgets: Budgets, start: int) -> tuple[Budgets, Bool[Tensor, " queries"]]:
    """What is left of the budgets for the contract, rounded down, and where anything is."""
    like = made.prepared.head.gradient_scale
    left: dict[str, Tensor] = {}
    some = made.fine.clone()
    for name in budgets.names:
        if name == "prediction":
            continue
        rest = budgets.rows(name, start, like) * (1 - 1e-12) / OUTWARD - getattr(made.rounding, name)
        some &= rest > 0
        left[name] = torch.where(rest > 0, rest, 1.0)
    own = Budgets(
        loss=left.get("loss"),
        probability=left.get("probability"),
        gradient=left.get("gradient"),
        prediction=budgets.prediction,
    )
    return own, some


def _nowhere_else(inverse: Inverse, some: Tensor) -> Inverse:
    """Zero, accepted and rejected, in all other rows."""
    return Inverse(
        accepted=torch.where(some, inverse.accepted, 0.0),
        rejected=torch.where(some, inverse.rejected, 0.0),
        binding=inverse.binding,
        evaluations=inverse.evaluations,
    )
