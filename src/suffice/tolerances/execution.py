"""Rounding as allowances (docs/theory.md, 8): what executing the objective in a dtype adds to every bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.compensated import squared_radius
from suffice.contracts.bounds import Allowances, Bounds
from suffice.objectives.contrastive import objective_weights
from suffice.objectives.executed import Executed, execute
from suffice.objectives.softmax import at_class, log_softmax, without
from suffice.pairs import ladder
from suffice.pairs.base import Pair
from suffice.pairs.debye import DebyePair
from suffice.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.states import Geometry, States
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.heads import Prepared, own_allowances, prepared_from, uniform_allowances
from suffice.tolerances.inversion import Inverse, Judged, invert
from suffice.tolerances.solving import Contract, accepts, invert_contract, loads, with_one

__all__ = [
    "SCOPES",
    "ExecutedBounds",
    "Execution",
    "Rounding",
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
class _Geometry:
    """How far the executed geometry may be from the exact one, in r^2 and in k^2; exact r from above, s from below."""

    of_r: Float[Tensor, "queries classes"]
    of_k: Float[Tensor, " classes"]
    r: Float[Tensor, "queries classes"]
    s_r: Float[Tensor, "queries classes"]
    s_k: Float[Tensor, " classes"]


def _geometry_error(states: States, executed: Executed, prepared: Prepared, model: str) -> _Geometry:
    """D = 2 k mu.u + |u|^2 with u = f/tau: p + 6 roundings of each part, one of the sum (docs/theory.md, 8.2)."""
    dtype, bank = executed.dtype, states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    k, k_hat = bank.concentrations, executed.concentrations.double()
    length = torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / states.temperature[:, None]
    gaps = prepared.geometry.squared_gaps
    product = gamma(bank.dim + 6, dtype, model)
    error = product * length * (2 * k + length) + u * gaps.abs()
    # directions have length one but for the rounding of their normalisation
    error = error + 4 * torch.finfo(torch.float64).eps * k * length
    # where the clamp acted, the exact value lies within the rounding of the square
    error = error + torch.where(gaps <= -(k_hat * k_hat) * (1 - 4 * u), 4 * u * k * k, 0.0)
    # what underflows is lost absolutely
    error = error + tiny * (bank.dim + 2) * (2 * k + 2 * length + 1)
    of_k = (k_hat - k).abs() * (k_hat + k)
    of_r = (error + of_k) * _OUTWARD
    nu = bank.nu
    square = prepared.geometry.radii**2
    r = torch.sqrt(square + of_r) * _OUTWARD
    s_r = torch.sqrt((square - of_r).clamp_min(0) + nu * nu)
    s_k = torch.sqrt((k_hat * k_hat - of_k).clamp_min(0) + nu * nu)
    return _Geometry(of_r=of_r, of_k=of_k * _OUTWARD, r=r, s_r=s_r, s_k=s_k)


# above every rounding of these float64 expressions, which are sums and products of positive numbers
_OUTWARD = 1 + 1e-12


def _rounding_allowances(
    states: States, executed: Executed, prepared: Prepared, off: _Geometry, *, matched_gaps: bool
) -> Allowances:
    """What geometry and formula lost on the way to the scores: to be added to the pair's allowances.

    |executed score - exact score| <= d + delta, delta from the change of r^2 and k^2 (the potential's slope in x^2 is
    at most 1/(2(nu + s))), the formula's roundings (a multiple of u |s_r - s_k|), and the bias. a grows by the change
    of R(x)/x between the two geometries, at most (nu + s)^-3 a unit of r^2, times the exact r; and by the pair's
    allowance where the exact vector is longer than the executed radius. Where that is 0 the program's slope is 0, and
    the whole of R(r) is missing.
    """
    u = unit_roundoff(executed.dtype)
    nu, gaps = states.bank.nu, prepared.geometry.squared_gaps
    k_hat, r = prepared.geometry.concentrations, prepared.geometry.radii
    moved = off.of_r / (2 * (nu + off.s_r)) + off.of_k / (2 * (nu + off.s_k))
    s_gap = gaps.abs() / (torch.sqrt(r * r + nu * nu) + torch.sqrt(k_hat * k_hat + nu * nu))
    formula = _formula_roundings(executed.order, nu) * u * s_gap
    bias = u * (executed.scores.double().abs() + 2 * states.bank.biases.abs())
    delta = (moved + formula + bias + 4 * smallest_normal(executed.dtype)) * _OUTWARD
    changed = off.of_r / (nu + off.s_r) ** 3 * off.r
    own = DebyePair(order=executed.order).allowance(nu, r)
    longer = torch.where(r > 0, own * (off.r / torch.where(r > 0, r, 1.0) - 1).clamp_min(0), 0.0)
    slope = torch.where(r > 0, changed + longer, off.r / (nu + off.s_r)) * _OUTWARD

    def apart(index: Tensor) -> Tensor:
        return without(delta + at_class(delta, index)[:, None], index, 0.0)

    return Allowances(
        d=delta,
        a=slope,
        to_target=apart(prepared.head.target) if matched_gaps else None,
        to_top=apart(prepared.top) if matched_gaps else None,
    )


@cache
def _formula_roundings(order: int, nu: float) -> float:
    """c with |executed difference - exact difference at the same k and squared gap| <= c u |s_r - s_k| (8.3)."""
    h, log = (ulps(name, torch.float64) / unit_roundoff(torch.float64) for name in ("hypot", "log1p"))
    value = 20 + 3 * h + 2 * log
    if order == 1:
        return value
    coefficients = [abs(float(a)) for a in ladder.potential_coefficients(order, nu)]
    # the divided difference and its derivative on |theta| <= 3/4, by the sizes of their terms
    size = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    steep = sum(i * (i - 1) * a * 0.75 ** max(i - 2, 0) for i, a in enumerate(coefficients) if i)
    return value + ((4 * len(coefficients) + 12 + 2 * h) * size + (8 + h) * steep) / nu**2


@cache
def _ratio_roundings(order: int, nu: float) -> tuple[float, float]:
    """c_0, c_1 with |executed A - A| <= u (c_0 x/(nu + s) + c_1 x/s^2) at the same squared radius (8.4)."""
    h = ulps("hypot", torch.float64) / unit_roundoff(torch.float64)
    first = 12 + 2 * h
    if order == 1:
        return first, 12 + 4 * h
    coefficients = [abs(float(a)) for a in ladder.ratio_coefficients(order, nu)]
    size = sum(a * 0.75**i for i, a in enumerate(coefficients))
    steep = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    return first, (3 * len(coefficients) + 16 + 4 * h) * (0.5 + size / nu) + (6 + h) * steep / nu


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """What softmax, loss and the gradient's products add after the scores are there: absolute errors."""

    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]


def _rounding_after(states: States, executed: Executed, prepared: Prepared, off: _Geometry, model: str) -> Rounding:
    """Errors of the executed softmax, loss and gradient against exact ones of the executed scores (8.5)."""
    dtype, bank = executed.dtype, states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    e, log = ulps("exp", dtype), ulps("log1p", dtype)
    scores = executed.scores.double()
    log_pi = log_softmax(scores)
    shift = scores.amax(dim=1, keepdim=True) - scores
    weights = torch.exp(-shift)
    rest = without(weights, prepared.top, 0.0)
    total = rest.sum(dim=1)
    # the sum of the others, relative to one plus itself, and its logarithm
    classes = gamma(bank.num_classes, dtype, model)
    of_sum = (rest * (u * shift + e)).sum(dim=1) + classes * total + bank.num_classes * tiny
    of_log = of_sum / (1 + total) + log * torch.log1p(total)
    of_log_pi = u * shift + of_log[:, None] + u * log_pi.abs() + 2 * tiny
    pi = log_pi.exp()
    relative = torch.expm1(of_log_pi + e)
    tv = 0.5 * ((pi * relative).sum(dim=1) + bank.num_classes * tiny)

    # the executed gradient against sum_j w_j A(r_j)/r_j v_j/tau at the executed geometry
    nu, r = bank.nu, prepared.geometry.radii
    others = without(pi, states.labels, 0.0)
    exact = objective_weights(log_pi, states.labels).abs()
    of_weights = others * relative + tiny
    lost = of_weights.sum(dim=1) + classes * others.sum(dim=1)
    of_weights = of_weights.scatter(1, states.labels[:, None], lost[:, None])
    s = torch.sqrt(r * r + nu * nu)
    first, second = _ratio_roundings(executed.order, nu)
    # errors of the slope A/r: an error of the vector is that times the exact vector's length
    of_slope = u * (first / (nu + s) + second / (s * s)) + 4 * tiny / r.clamp_min(tiny)
    allowance = DebyePair(order=executed.order).allowance(nu, r)
    slope = 1 / (nu + s) + allowance / r.clamp_min(tiny) + of_slope
    length = torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / states.temperature[:, None]
    size = bank.concentrations + length
    products = gamma(bank.num_classes + 12, dtype, model)
    terms = (of_weights + products * exact) * slope * size + (exact + of_weights) * of_slope * off.r
    gradient = terms.sum(dim=1) / states.temperature + tiny * bank.num_classes * bank.dim / states.temperature**2
    return Rounding(
        loss=at_class(of_log_pi, states.labels) * _OUTWARD, probability=tv * _OUTWARD, gradient=gradient * _OUTWARD
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
    off = _geometry_error(states, masked, prepared, model)
    extra = _rounding_allowances(states, masked, prepared, off, matched_gaps=distances)
    if allowances_of is None:
        own = own_allowances(prepared, DebyePair(order=executed.order), matched_gaps=distances)
    else:
        own = allowances_of(prepared)
    allowances = own.plus(extra)
    rounding = _rounding_after(states, masked, prepared, off, model)
    return ExecutedBounds(
        executed=executed,
        prepared=prepared,
        allowances=allowances,
        extra=extra,
        rounding=rounding,
        bounds=_with(contract(prepared.head, allowances), rounding, fine),
        fine=fine,
    )


def _with(bounds: Bounds, rounding: Rounding, fine: Tensor) -> Bounds:
    def total(bound: Tensor, added: Tensor) -> Tensor:
        return torch.where(fine, (bound + added) * _OUTWARD, torch.inf)

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
        rest = budgets.rows(name, start, like) * (1 - 1e-12) / _OUTWARD - getattr(made.rounding, name)
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
