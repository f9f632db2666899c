"""Scope execution (docs/theory.md, 8): bounds on what was executed, rounding as one more allowance, and inverses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from suffice.compensated import squared_radius
from suffice.contracts.bounds import Allowances, Bounds
from suffice.objectives.contrastive import radial_slopes
from suffice.objectives.executed import Executed, execute
from suffice.pairs.base import Pair
from suffice.pairs.debye import DebyePair
from suffice.states import Geometry, States
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.heads import Prepared, own_allowances, prepared_from, uniform_allowances
from suffice.tolerances.inversion import Inverse, Judged, invert
from suffice.tolerances.rounding_terms import (
    OUTWARD,
    GeometryError,
    Rounding,
    geometry_error,
    rounding_after,
    rounding_allowances,
)
from suffice.tolerances.solving import Contract, accepts, invert_contract, loads, with_one

__all__ = [
    "SCOPES",
    "ExecutedBounds",
    "Execution",
    "executed_bounds",
    "execution_of",
    "invert_executed",
    "invert_uniform",
]

SCOPES = ("analytic", "execution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How an order is executed, and by which model its rounding is bounded."""

    order: int
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
        return execute(states, self.order, self.dtype, compiled=self.compiled)

    def bounds(self, states: States, contract: Contract, *, distances: bool) -> ExecutedBounds:
        """Execute, and bound how far that is from the exact objective."""
        return executed_bounds(states, self.run(states), contract, distances=distances, model=self.model)


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
    return Execution(order=pair.order, dtype=dtype, compiled=compiled, model=model)


def executed_head(states: States, executed: Executed, *, distances: bool) -> Prepared:
    """What a contract takes, at the executed scores and the executed geometry, both now exact float64 numbers."""
    k, gaps = executed.concentrations.double(), executed.squared_gaps.double()
    # the clamp was at the rounded square: -k^2 itself is the smallest that there is
    gaps = torch.maximum(gaps, -(k * k))
    geometry = Geometry(nu=states.bank.nu, concentrations=k, squared_gaps=gaps, radii=squared_radius(k, gaps).sqrt_())
    pair = DebyePair(order=executed.order)
    return prepared_from(states, geometry, executed.scores.double(), pair, distances=distances)


def _finite(executed: Executed) -> Bool[Tensor, " queries"]:
    """Where every number that was computed is finite: the model's assumption. Elsewhere nothing is certified."""
    rows = [executed.scores, executed.log_probabilities, executed.squared_gaps, executed.gradient]
    return torch.stack([torch.isfinite(x).all(dim=1) for x in rows]).all(dim=0)


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
        gradient=kept(executed.gradient),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedBounds:
    """Bounds on the executed numbers, and what they were made of: `extra` is rounding's part of the allowances."""

    executed: Executed
    prepared: Prepared
    allowances: Allowances
    extra: Allowances
    rounding: Rounding
    bounds: Bounds
    fine: Bool[Tensor, " queries"]

    def rounding_alone(self, contract: Contract) -> Bounds:
        """The bounds of a formula without error: no order has smaller ones."""
        return _with(contract(self.prepared.head, self.extra), self.rounding, self.fine)


def executed_bounds(
    states: States,
    executed: Executed,
    contract: Contract,
    *,
    distances: bool,
    model: str = "proved",
    allowances_of: Callable[[Prepared], Allowances] | None = None,
) -> ExecutedBounds:
    """A contract at the executed scores with allowances for formula and rounding, plus what comes after the scores.

    The formula's allowances are the pair's own unless `allowances_of` gives others. Infinite where a number is not
    finite: the execution left the model there.
    """
    fine = _finite(executed)
    # rows outside of the model are computed on as zeros, and judged infinite
    masked = _masked(executed, fine)
    prepared = executed_head(states, masked, distances=distances)
    off = geometry_error(states, masked, prepared, model)
    if distances:
        prepared = _widened(prepared, off, DebyePair(order=executed.order))
    extra = rounding_allowances(states, masked, prepared, off, matched_gaps=distances)
    if allowances_of is None:
        own = own_allowances(prepared, DebyePair(order=executed.order), matched_gaps=distances)
    else:
        own = allowances_of(prepared)
    allowances = own.plus(extra)
    rounding = rounding_after(states, masked, prepared, off, model)
    return ExecutedBounds(
        executed=executed,
        prepared=prepared,
        allowances=allowances,
        extra=extra,
        rounding=rounding,
        bounds=_with(contract(prepared.head, allowances), rounding, fine),
        fine=fine,
    )


def _widened(prepared: Prepared, off: GeometryError, pair: DebyePair) -> Prepared:
    """Distances rho_j outward: |hhat_j| is slope_j times the exact radius, whose square may be of_r larger."""
    head = prepared.head
    assert head.distances is not None
    slopes = radial_slopes(prepared.geometry, pair)
    distances = torch.sqrt(head.distances**2 + slopes * slopes * off.of_r) * OUTWARD
    return replace(prepared, head=replace(head, distances=distances))


def _with(bounds: Bounds, rounding: Rounding, fine: Tensor) -> Bounds:
    def total(bound: Tensor, added: Tensor) -> Tensor:
        return torch.where(fine, (bound + added) * OUTWARD, torch.inf)

    return Bounds(
        loss=total(bounds.loss, rounding.loss),
        probability=total(bounds.probability, rounding.probability),
        gradient=total(bounds.gradient, rounding.gradient),
        margin_use=torch.where(fine, bounds.margin_use, torch.inf),
    )


def invert_executed(made: ExecutedBounds, contract: Contract, budgets: Budgets, start: int) -> Inverse:
    """How many times the allowances could grow, with what comes after the scores unchanged: the headroom.

    The contract is inverted at what is left of the budgets; nothing is left where that part alone is over one.
    """
    like = made.prepared.head.gradient_scale
    own, some = _left(made, budgets, start)
    inverse = invert_contract(contract, made.prepared.head, made.allowances, own, 0)
    return _nowhere_else(with_one(inverse, made.bounds, budgets, start, like), some)


def invert_uniform(made: ExecutedBounds, contract: Contract, budgets: Budgets, start: int) -> Inverse:
    """The largest b such that b g + delta, b + the change of slope and what comes after keep the budgets: b*.

    b* without rounding is found first; it is an upper end, and the search goes down from there. Zero is not always
    accepted: where rounding alone is over a budget, nothing is.
    """
    head, extra = made.prepared.head, made.extra
    unit = uniform_allowances(made.prepared, matched_gaps=extra.to_top is not None)
    own, some = _left(made, budgets, start)
    first = invert_contract(contract, head, unit, own, 0)
    like = head.gradient_scale
    bounded = torch.isfinite(first.rejected)

    def shares(rows: Tensor, scale: Tensor) -> dict[str, Tensor]:
        bounds = contract(head[rows], unit[rows].scaled(scale).plus(extra[rows]))
        return loads(bounds, own, rows, 0, like)

    everywhere = torch.arange(len(like), device=like.device)
    at_zero = shares(everywhere, torch.zeros_like(like))

    def judge(rows: Tensor, scale: Tensor) -> Judged:
        found = shares(rows, scale)
        # the same crossing, but zero at zero, as the search wants it
        steps = {name: (share - at_zero[name][rows]) / (1 - at_zero[name][rows]) for name, share in found.items()}
        load, binding = torch.stack(list(steps.values())).max(dim=0)
        return Judged(load=load, accepted=accepts(found), binding=binding)

    cap = torch.where(bounded, first.rejected, first.accepted)
    inverse = invert(judge, [first.accepted.clamp_min(torch.finfo(like.dtype).tiny)], cap)
    found = Inverse(
        accepted=inverse.accepted,
        # accepted at the cap of a bounded row cannot be: its upper end is rejected without rounding
        rejected=torch.where(bounded, torch.minimum(inverse.rejected, first.rejected), inverse.rejected),
        binding=torch.where(inverse.binding >= 0, inverse.binding, first.binding),
        evaluations=first.evaluations + inverse.evaluations + 1,
    )
    return _nowhere_else(found, some & accepts(at_zero))


def _left(made: ExecutedBounds, budgets: Budgets, start: int) -> tuple[Budgets, Bool[Tensor, " queries"]]:
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
