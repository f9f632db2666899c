"""An executed program in place of the objective (docs/theory, 8): rounding as one more allowance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.base import Contract, Needs
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.sensitivity import Sensitivity, first_order
from suffice.numerics.compensated import squared_radius
from suffice.numerics.formats import name_of, smallest_normal
from suffice.objectives.contrastive import radial_slopes
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import Analytic, pair_name, simple_envelope, zeroed
from suffice.realizations.base import Realized
from suffice.realizations.class_by_class import softmax_head
from suffice.realizations.distances import class_distances
from suffice.realizations.endpoints import Endpoints, OwnEnvelope, uniform_allowances
from suffice.realizations.executed.envelope import computed_envelope
from suffice.realizations.executed.outputs import rounding_after
from suffice.realizations.executed.placed import Placed
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.scores import rounding_allowances
from suffice.realizations.geometry_error import geometry_error
from suffice.states import Geometry, States
from suffice.words import Departure, Scope

__all__ = ["ExecutedRealized", "Execution", "departures", "executed_geometry"]


@dataclass(frozen=True, slots=True)
class Execution:
    """A pair as it is executed: in which dtype, eager or compiled, and by which model its rounding is bounded.

    `inputs` is the dtype of the inputs of its product with the directions, that of all else unless it is given.

    >>> Execution(DebyePair(order=2), torch.float32).words
    'debye2, executed in float32 (eager, model proved)'
    """

    pair: DebyePair
    dtype: torch.dtype = torch.float64
    compiled: bool = False
    model: str = "proved"
    inputs: torch.dtype | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.pair, DebyePair):
            raise TypeError(f"Expected a DebyePair for scope execution, but got {type(self.pair).__name__}")

    @property
    def scope(self) -> Scope:
        """Execution."""
        return Scope.EXECUTION

    @property
    def how(self) -> str:
        """For people: the model is always named."""
        how = "compiled" if self.compiled else "eager"
        return f"{name_of(self.dtype)}, {how}, model {self.model}"

    @property
    def words(self) -> str:
        """The pair, and how it is executed."""
        dtype, rest = self.how.split(", ", 1)
        return f"{pair_name(self.pair)}, executed in {dtype} ({rest})"

    def record(self) -> dict[str, Any]:
        """What tells one program from another."""
        pair, inputs = pair_name(self.pair), self.dtype if self.inputs is None else self.inputs
        how = {"dtype": name_of(self.dtype), "inputs": name_of(inputs), "compiled": self.compiled, "model": self.model}
        return {"name": pair, "scope": str(self.scope), "pair": pair, **how}

    @property
    def formula(self) -> Analytic:
        """What is executed, in exact arithmetic."""
        return Analytic(self.pair)

    def run(self, states: States) -> Executed:
        """Execute; for states of the contrastive objective alone."""
        if not isinstance(states, States):
            raise TypeError(f"Expected States for scope execution, but got {type(states).__name__}; use scope analytic")
        return execute(states, self.pair.order, self.dtype, compiled=self.compiled, inputs=self.inputs)

    def at(self, states: States) -> ExecutedRealized:
        """Execute, and allow for all errors of that."""
        return ExecutedRealized(states, self.run(states), self.pair, self.model)


def departures(states: States, executed: Executed) -> np.ndarray[Any, Any]:
    """Where the execution stayed inside of the model of rounding, and elsewhere the first number that left it."""
    # a temperature that became infinite or subnormal leaves finite numbers behind, and wrong ones
    temperature = states.temperature.to(executed.dtype)
    usual = {
        Departure.TEMPERATURE: torch.isfinite(temperature) & (temperature >= smallest_normal(executed.dtype)),
        Departure.GEOMETRY: torch.isfinite(executed.squared_gaps).all(dim=1),
        Departure.SCORES: torch.isfinite(executed.scores).all(dim=1),
        Departure.PROBABILITIES: torch.isfinite(executed.log_probabilities).all(dim=1),
        Departure.GRADIENT: torch.isfinite(executed.gradient).all(dim=1),
    }
    status = np.full(len(states), Departure.INSIDE, dtype="<U16")
    for name, rows in reversed(usual.items()):
        if not bool(rows.all()):
            status[(~rows).numpy(force=True)] = name
    return status


def executed_geometry(states: States, executed: Executed) -> Geometry:
    """What was executed on the way to the radii, as exact float64 numbers."""
    # one that is larger, or infinite in the executed dtype, leaves every row outside of the model
    k, gaps = executed.concentrations.double().clamp_max(1e150), executed.squared_gaps.double()
    # the clamp was at the rounded square: -k^2 itself is the smallest that there is
    gaps = torch.maximum(gaps, -(k * k))
    return Geometry(nu=states.bank.nu, concentrations=k, squared_gaps=gaps, radii=squared_radius(k, gaps).sqrt_())


def _masked(executed: Executed, inside: Tensor) -> Executed:
    if bool(inside.all()):
        return executed

    def kept(values: Tensor) -> Tensor:
        return torch.where(inside[:, None], values, 0.0)

    return replace(
        executed,
        squared_gaps=kept(executed.squared_gaps),
        scores=kept(executed.scores),
        log_probabilities=kept(executed.log_probabilities),
        weights=kept(executed.weights),
        slopes=kept(executed.slopes),
        gradient=kept(executed.gradient),
    )


class ExecutedRealized(Realized):
    """What was executed at some states, and allowances for all of its errors.

    Rows that left the model of rounding, by overflow or NaN or a temperature that is no normal number of the executed
    dtype, are computed on as zeros and judged infinite.
    """

    _shared = frozenset({"pair", "model"})
    unit_words = "uniform primitive error"

    def __init__(self, states: States, executed: Executed, pair: DebyePair, model: str = "proved") -> None:
        self.status = departures(states, executed)
        self.executed, self.loss, self.gradient = executed, executed.loss, executed.gradient
        inside = torch.from_numpy(self.status == Departure.INSIDE).to(states.features.device)
        self._seen = _masked(executed, inside)
        self.states = states if bool(inside.all()) else zeroed(states, ~inside)
        self.pair, self.model = pair, model
        self.geometry = executed_geometry(self.states, self._seen)
        self.off = geometry_error(self.states, self.geometry, executed.dtype, executed.inputs, model)
        scores = self._seen.scores.double()
        # the executed scores are the ones that are meant: only their softmax is computed here
        self._head = softmax_head(self.states, scores, torch.zeros_like(scores))
        self._own_ratio = self._envelope.plain.a
        self.after = rounding_after(self.states, self._seen, self._placed, self.off, self._own_ratio, model)

    @property
    def _placed(self) -> Placed:
        return Placed(geometry=self.geometry, head=self._head, top=self.top)

    @cached_property
    def top(self) -> Int[Tensor, " queries"]:
        """The most probable class, as executed."""
        return self._head.log_probabilities.argmax(dim=1)

    @cached_property
    def distances(self) -> Float[Tensor, "queries classes"]:
        """rho_j, from above."""
        slopes = radial_slopes(self.geometry, self.pair)
        error = self.pair.slope_rounding(self.geometry.nu, self.geometry.radii)
        return class_distances(self.states, self.geometry, self.off, slopes, error, self._head)

    @cached_property
    def _envelope(self) -> OwnEnvelope:
        return computed_envelope(self.geometry, self.pair)

    def head(self, needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        """The executed scores' own softmax, and the distances on request."""
        return replace(self._head, distances=self.distances) if Needs.DISTANCES in needs else self._head

    def _towards(self, needs: Needs) -> tuple[Tensor, Tensor] | None:
        return (self.states.labels, self.top) if Needs.MATCHED_GAPS in needs else None

    def own(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """The formula's, and what rounding adds."""
        return self._matched if Needs.MATCHED_GAPS in needs else self._plain

    @cached_property
    def _plain(self) -> Allowances:
        return self._envelope.plain.plus(self._rounding)

    @cached_property
    def _matched(self) -> Allowances:
        towards = self.states.labels, self.top
        return self._envelope.matched(towards).plus(self._matched_rounding)

    @cached_property
    def _rounding(self) -> Allowances:
        return rounding_allowances(self.states, self._seen, self._placed, self.off, self._own_ratio, matched_gaps=False)

    @cached_property
    def _matched_rounding(self) -> Allowances:
        return rounding_allowances(self.states, self._seen, self._placed, self.off, self._own_ratio, matched_gaps=True)

    def beside(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """Rounding's part of the allowances of the scores: no formula is without it."""
        return self._matched_rounding if Needs.MATCHED_GAPS in needs else self._rounding

    def unit(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """The uniform family at b = 1: gaps at the exact geometry's place, and a = |v|/r.

        A primitive that is off by b at the executed radius makes its vector off by b |v|/r, with the exact vector's
        length.
        """
        exact = replace(self.geometry, concentrations=self.states.bank.concentrations)
        ends = Endpoints(geometry=exact, of_gap=self.off.of_gap, low=self.off.low, high=self.off.high)
        unit = uniform_allowances(ends, self._towards(needs))
        r = self.geometry.radii
        return replace(unit, a=torch.where(r > 0, self.off.high / r.clamp_min(1e-300), 1.0))

    def simple(self) -> Allowances:
        """Those of the pair's simple envelope, if it has one, and what rounding adds."""
        simple = simple_envelope(self.pair)
        if simple is None:
            return self.own()
        return OwnEnvelope(Endpoints.computed(self.geometry), simple).plain.plus(self.beside())

    def sensitivity(self, _contract: Contract) -> Sensitivity:
        """At the executed geometry, and without what stands beside the family: the paper's."""
        return first_order(self._head, uniform_allowances(Endpoints.computed(self.geometry), None))

    def rounding_alone(self, contract: Contract) -> Bounds:
        """The bounds of a formula without error: no order has smaller ones."""
        return self.bounds(contract, self.beside(contract.needs))
