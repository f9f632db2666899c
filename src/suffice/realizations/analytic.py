"""A pair in exact arithmetic: its own allowances at the exact geometry of the stored inputs (docs/theory, 6.10)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.base import Needs
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.objectives.contrastive import class_scores, differentiable
from suffice.pairs.base import Allowance, Pair
from suffice.realizations.base import Realized
from suffice.realizations.class_by_class import ClassByClass
from suffice.realizations.endpoints import OwnEnvelope
from suffice.realizations.geometry_error import GeometryError, feature_lengths, geometry_error
from suffice.realizations.ordinary import OrdinaryRows, Placed, ordinary_rows
from suffice.states import ClassBank, Geometry, States
from suffice.words import Scope

__all__ = [
    "Analytic",
    "AnalyticRealized",
    "computable",
    "pair_name",
    "realize_contrastive",
    "realize_pair",
    "simple_envelope",
    "undifferentiated",
    "zeroed",
]

# Squares of such numbers are finite, and far from overflow.
_LARGEST_LENGTH = 1e150


@dataclass(frozen=True, slots=True)
class Analytic:
    """A pair (F, A) in place of (Phi, R). Covered: the error of its formula. Not covered: rounding when it is executed.

    >>> from suffice.pairs.debye import DebyePair
    >>> Analytic(DebyePair(order=4)).words
    'debye4'
    """

    pair: Pair

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """The pair's name."""
        return pair_name(self.pair)

    def record(self) -> dict[str, Any]:
        """The pair and the scope."""
        return {"name": self.words, "scope": str(self.scope), "pair": self.words}

    def at(self, states: Any) -> Realized:
        """Geometry and how far it may be off; all else when it is asked for."""
        return realize_pair(states, self.pair)


@singledispatch
def realize_pair(states: Any, _pair: Pair) -> Realized:
    """A pair at some states, by their type: an objective that a pair can realize registers how."""
    raise TypeError(
        f"Expected states of a von Mises-Fisher objective, which a pair realizes, but got {type(states).__name__}; "
        "give a realization of their own"
    )


@realize_pair.register(States)
def realize_contrastive(states: States, pair: Pair) -> AnalyticRealized:
    """Rows whose squares may overflow are outside: nothing is known of their log-probabilities, no bound is finite."""
    inside, outside = computable(states)
    return AnalyticRealized(inside, pair, inside.geometry(), outside)


def pair_name(pair: Pair) -> str:
    """Such as "debye2"; a pair that has no name is called by its type."""
    return str(getattr(pair, "name", type(pair).__name__))


class AnalyticRealized(Realized):
    """Some states under a pair, at the place of the exact geometry.

    Ordinary rows are widened by numbers of the row (6.10f), all others class by class.
    """

    _shared = frozenset({"pair"})
    _left_behind = frozenset({"_each", "_ordinary"})
    unit_words = "uniform primitive error"

    def __init__(
        self,
        states: States,
        pair: Pair,
        geometry: Geometry,
        outside: Tensor,
        off: GeometryError | None = None,
        ordinary: OrdinaryRows | None = None,
    ) -> None:
        self.states, self.pair, self.geometry, self.outside = states, pair, geometry, outside
        if off is not None:
            vars(self)["off"] = off
        if ordinary is not None:
            vars(self)["_ordinary"] = ordinary

    def under(self, pair: Pair) -> AnalyticRealized:
        """Another pair at the same geometry."""
        return AnalyticRealized(self.states, pair, self.geometry, self.outside, vars(self).get("off"))

    def part(self, rows: Tensor | slice) -> AnalyticRealized:
        """Some rows, to which the geometry and the unit family are taken along; a slice copies nothing."""
        off: GeometryError | None = vars(self).get("off")
        kept = None if off is None else off[rows]
        part = AnalyticRealized(self.states[rows], self.pair, self.geometry[rows], self.outside[rows], kept)
        unit: Allowances | None = vars(self).get("_unit_matched", vars(self).get("_unit"))
        if unit is not None:
            vars(part)["_unit"] = Allowances(d=unit.d[rows], a=unit.a[rows])
        return part

    @cached_property
    def off(self) -> GeometryError:
        """How far the geometry may be from the exact one, class by class."""
        return geometry_error(self.states, self.geometry, torch.float64, torch.float64, "proved")

    @property
    def scores(self) -> Float[Tensor, "queries classes"]:
        """F(r_j) - F(k_j) + c_j at the computed geometry."""
        return class_scores(self.states, self.geometry, self.pair)

    @cached_property
    def _ordinary(self) -> OrdinaryRows | None:
        return ordinary_rows(self.states, self.geometry, self.pair, self.outside)

    @cached_property
    def _each(self) -> ClassByClass:
        return ClassByClass(self.states, self.pair, self.geometry, self.off, self.outside)

    def _others(self, ordinary: Bool[Tensor, " queries"]) -> tuple[Tensor, ClassByClass] | None:
        """The rows that are not ordinary, formed class by class; None where all are."""
        rows = (~ordinary).nonzero().squeeze(1)
        if not len(rows):
            return None
        return rows, self._each if len(rows) == len(ordinary) else self.part(rows)._each

    @cached_property
    def _head(self) -> SoftmaxHead:
        made = self._ordinary
        if made is None:
            return self._each.head
        others = self._others(made.narrow)
        return made.head if others is None else _put_head(made.head, others[0], others[1].head)

    @cached_property
    def top(self) -> Int[Tensor, " queries"]:
        """The most probable class."""
        return self._head.top

    @cached_property
    def distances(self) -> Float[Tensor, "queries classes"]:
        """rho_j, from above."""
        made = self._ordinary
        if made is None:
            return self._each.distances
        others = self._others(made.narrow)
        return made.distances if others is None else made.distances.index_put((others[0],), others[1].distances)

    def head(self, needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        """Log-probabilities at the exact geometry's place, and the distances on request."""
        return self._measured if Needs.DISTANCES in needs else self._head

    @cached_property
    def _measured(self) -> SoftmaxHead:
        """The head with its distances."""
        return self._head.measured(self.distances)

    def own(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """The pair's."""
        return self._own_matched if Needs.MATCHED_GAPS in needs else self._own

    def unit(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """A ratio error of at most 1 everywhere."""
        return self._unit_matched if Needs.MATCHED_GAPS in needs else self._unit

    @cached_property
    def _own(self) -> Allowances:
        made = self._ordinary
        return self._each.own if made is None else self._placed(made.own, lambda each, _: each.own)

    @cached_property
    def _unit(self) -> Allowances:
        made = self._ordinary
        return self._each.unit if made is None else self._placed(made.unit, lambda each, _: each.unit)

    @cached_property
    def _own_matched(self) -> Allowances:
        made = self._ordinary
        if made is None:
            return self._each.own_matched(self.top)
        return self._placed(made.own_matched(self.top), ClassByClass.own_matched)

    @cached_property
    def _unit_matched(self) -> Allowances:
        made = self._ordinary
        if made is None:
            return self._each.unit_matched(self.top)
        return self._placed(made.unit_matched(self.top), ClassByClass.unit_matched)

    def _placed(self, placed: Placed, form: Callable[[ClassByClass, Tensor], Allowances]) -> Allowances:
        """Allowances of ordinary rows, and of all others as they are formed class by class."""
        others = self._others(placed.ordinary)
        if others is None:
            return placed.allowances
        rows, each = others
        return placed.allowances.put(rows, form(each, self.top[rows]))

    def simple(self) -> Allowances:
        """Those of the pair's simple envelope, if it has one."""
        simple = simple_envelope(self.pair)
        return self.own() if simple is None else OwnEnvelope(self._each.ends, simple).plain


def _put_head(head: SoftmaxHead, rows: Tensor, others: SoftmaxHead) -> SoftmaxHead:
    """A head with that of some rows in its place."""
    assert head.log_error is not None
    assert others.log_error is not None
    return replace(
        head,
        log_probabilities=head.log_probabilities.index_put((rows,), others.log_probabilities),
        probabilities=head.pi.index_put((rows,), others.pi),
        log_error=head.log_error.index_put((rows,), others.log_error),
    )


def undifferentiated(states: Any, realization: Any) -> AbstractContextManager[Any]:
    """Without the means to differentiate, unless someone asks for that: a sixth less time for small operations.

    What leaves it is to be copied outside. Others than pairs at learning states may keep tensors, of no use later.
    """
    if not (isinstance(states, States) and isinstance(realization, Analytic)):
        return nullcontext()
    return nullcontext() if differentiable(states) else torch.inference_mode()


def simple_envelope(pair: Pair) -> Allowance | None:
    """An envelope that is cheaper than the pair's own and nowhere below it, if the pair names one."""
    simple: Allowance | None = getattr(pair, "simple_envelope", None)
    return simple


def computable(
    states: States, lengths: Float[Tensor, " queries"] | None = None
) -> tuple[States, Bool[Tensor, " queries"]]:
    """The states with what is too large set to zero, and which rows that concerns; `lengths` if they are at hand."""
    outside = ~((feature_lengths(states) if lengths is None else lengths) <= _LARGEST_LENGTH)
    if states.bank.concentrations.max().item() > _LARGEST_LENGTH:
        outside = torch.ones_like(outside)
    return (zeroed(states, outside) if bool(outside.any()) else states), outside


def zeroed(states: States, rows: Tensor) -> States:
    """The same with a feature of zero in some rows, of which nothing is known, and no number that would overflow."""
    bank = states.bank
    if bool(rows.all()):
        bank = ClassBank(bank.directions, bank.concentrations.clamp_max(1.0), bank.biases)
    features = torch.where(rows[:, None], 0.0, states.features)
    return States(bank, features, states.labels, torch.where(rows, 1.0, states.temperature))
