"""A pair at some states by sums: what a certificate and a tolerance of the centred contract need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.base import Contract, Needs
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered_series import CenteredSeries, centered_series
from suffice.contracts.family import Family, SoftmaxFamily
from suffice.contracts.series import MOST_MASS
from suffice.contracts.summed_family import SummedFamily
from suffice.objectives.contrastive import differentiable
from suffice.pairs.base import Pair
from suffice.realizations.analytic import Analytic, AnalyticRealized, computable, realize_contrastive, realize_pair
from suffice.realizations.base import Realization, Realized
from suffice.realizations.geometry_error import feature_lengths
from suffice.realizations.ordinary import OrdinaryRows, ordinary_envelope
from suffice.realizations.summed import FirstLoop, SummedRows
from suffice.realizations.summed_arrays import ArrayLoops
from suffice.realizations.summed_compiled import CompiledLoops
from suffice.states import States

__all__ = ["CompiledAnalytic", "SummedAnalytic", "SummedRealized", "by_sums", "realize_summed"]

# Of a single row torch compiles another program, which takes longer than any row.
_LEAST_ROWS = 2
# Rows in which one class has nearly everything are formed in runs of so many entries: numbers of rows cost their calls.
_ENTRIES = 1 << 18
# Compiled code has few working tensors, and likes runs that are this many times as long.
_TIMES = 4


@dataclass(frozen=True, slots=True)
class SummedAnalytic(Analytic):
    """The same pair, the same claims and the same words: formed by sums as far as these go."""

    def at(self, states: Any) -> Realized:
        """By sums, at learning states."""
        return realize_summed(states, self.pair) if isinstance(states, States) else realize_pair(states, self.pair)

    def chunks(self, states: Any) -> Iterator[Any]:
        """In longer runs: there are fewer working arrays, and numbers of rows cost their calls."""
        runs: Iterator[Any] = states.chunks(2) if isinstance(states, States) else states.chunks()
        return runs


@dataclass(frozen=True, slots=True)
class CompiledAnalytic(Analytic):
    """The same by compiled sums."""

    def at(self, states: Any) -> Realized:
        """By sums, at learning states of more than one row."""
        if not isinstance(states, States) or len(states) < _LEAST_ROWS:
            return realize_pair(states, self.pair)
        return realize_summed(states, self.pair, CompiledLoops)

    def chunks(self, states: Any) -> Iterator[Any]:
        """In longer runs."""
        runs: Iterator[Any] = states.chunks(_TIMES) if isinstance(states, States) else states.chunks()
        return runs


def by_sums(realization: Realization, contract: Contract, budgets: Budgets) -> Realization:
    """The realization for whom a certificate and a tolerance are enough: a pair's allowances are then not formed.

    Itself where there are no series, whose sums these are: of other contracts, of the margin and of KL.
    """
    served = contract.series is centered_series and not budgets.prediction and budgets.kl is None
    return SummedAnalytic(realization.pair) if served and type(realization) is Analytic else realization


def realize_summed(states: States, pair: Pair, loops: FirstLoop = ArrayLoops) -> Realized:
    """By sums, where these are proved for the pair and nobody wants derivatives; else formed class by class."""
    proved = ordinary_envelope(pair, states.bank.nu)
    if proved is None or differentiable(states):
        return realize_contrastive(states, pair)
    lengths = feature_lengths(states)
    inside, outside = computable(states, lengths)
    least = _LEAST_ROWS if loops is CompiledLoops else 1
    # what is outside is another state now, of which nothing is used
    rows = SummedRows(inside, proved.order, proved.cap, outside, loops, lengths.numpy(force=True))
    return SummedRealized(states, pair, rows, least)


class _Formed:
    """The same states as they are formed class by class, when somebody asks for some: mostly for the same ones again.

    Those that are not `alone` are a part of what somebody gave, and are formed of what the first loop has found of all.
    Of another product, of fewer rows, numbers would be others by a rounding, which differences that cancel magnify.
    """

    def __init__(self, states: States, pair: Pair, rows: SummedRows, *, alone: bool) -> None:
        self._states, self._pair, self._rows, self._alone = states, pair, rows, alone
        self._last: tuple[Tensor, AnalyticRealized] | None = None

    @cached_property
    def whole(self) -> AnalyticRealized:
        """All of them."""
        if self._alone:
            return realize_contrastive(self._states, self._pair)
        return self.at(torch.arange(len(self._states), device=self._states.features.device))

    def at(self, rows: Tensor) -> AnalyticRealized:
        """Some rows."""
        if self._last is None or not torch.equal(self._last[0], rows):
            alone = self._alone
            self._last = rows, realize_contrastive(self._states[rows], self._pair) if alone else self.of_loops(rows)
        return self._last[1]

    def of_loops(self, rows: Tensor) -> AnalyticRealized:
        """Some rows, of what is there already: geometry, probabilities and slopes."""
        given, states = self._rows, self._rows.states[rows]
        geometry, outside = given.geometry(rows), given.outside[rows]
        if geometry is None:
            # cancelling radii, of which only the product is used
            geometry = states.geometry_of(given.loops.geometry(rows).squared_gaps)
            return AnalyticRealized(states, self._pair, geometry, outside)
        ordinary = OrdinaryRows(states, geometry, given.order, given.cap, outside, given.loops.at(rows))
        return AnalyticRealized(states, self._pair, geometry, outside, ordinary=ordinary)

    def family(self, of: Callable[[AnalyticRealized], SoftmaxFamily], rows: Tensor) -> SoftmaxFamily:
        """A family of some rows."""
        return of(self.whole if len(rows) == len(self._states) else self.at(rows))


class SummedRealized(Realized):
    """Some states under a pair. Whatever is not among the sums is formed as `AnalyticRealized` does."""

    unit_words = AnalyticRealized.unit_words

    def __init__(self, states: States, pair: Pair, rows: SummedRows, least: int = 1, *, alone: bool = True) -> None:
        self.states, self.pair, self._rows, self._least = states, pair, rows, least
        self._formed = _Formed(states, pair, rows, alone=alone)

    def pieces(self, budgets: Budgets, contract: Contract) -> Iterator[tuple[Tensor, Realized]]:
        """All rows by sums but those in which one class has nearly everything: these in runs of their own."""
        device = self.states.features.device
        every = torch.arange(len(self), device=device)
        if contract.series is not centered_series or budgets.prediction or budgets.kl is not None:
            # for which there are no series
            dominated = np.ones(len(self), dtype=bool)
        else:
            dominated = self._rows.peak > MOST_MASS
            if len(self) - np.count_nonzero(dominated) < self._least:
                dominated[:] = True
        if not dominated.any():
            yield every, self
            return
        dominating = torch.from_numpy(dominated).to(device)
        rest = every[~dominating]
        if len(rest):
            kept = self._rows.kept(rest)
            yield rest, SummedRealized(self.states[rest], self.pair, kept, self._least, alone=False)
        for rows in every[dominating].split(max(self.states.chunk, _ENTRIES // self.states.num_classes)):
            yield rows, self._formed.of_loops(rows)

    @property
    def as_formed(self) -> AnalyticRealized:
        """All rows, formed of what is there already: for everything that is not among the sums."""
        return self._formed.of_loops(torch.arange(len(self), device=self.states.features.device))

    def __getitem__(self, rows: Tensor) -> AnalyticRealized:  # type: ignore[override]
        """Some rows, formed: those that sums do not serve."""
        return self._formed.at(rows)

    def head(self, needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        """As formed."""
        return self._formed.whole.head(needs)

    def own(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """As formed."""
        return self._formed.whole.own(needs)

    def unit(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """As formed."""
        return self._formed.whole.unit(needs)

    def simple(self) -> Allowances:
        """As formed."""
        return self._formed.whole.simple()

    @property
    def like(self) -> Float[Tensor, " queries"]:
        """One number a state."""
        return self._rows.row.gradient_scale

    def _own_bounds(self, contract: Contract) -> Bounds:
        """By sums, or as formed."""
        return self._own_summed(contract).at_one() if self._serves(contract) else super()._own_bounds(contract)

    def own_family(self, contract: Contract) -> Family:
        """Multiples of its own allowances."""
        return self._own_summed(contract) if self._serves(contract) else super().own_family(contract)

    def unit_family(self, contract: Contract) -> Family:
        """Multiples of the unit family."""
        if not self._serves(contract):
            return super().unit_family(contract)

        def form(part: AnalyticRealized) -> SoftmaxFamily:
            family = part.unit_family(contract)
            assert isinstance(family, SoftmaxFamily)
            return family

        return self._once("unit", contract, lambda: self._family(self._rows.unit, form))

    def _serves(self, contract: Contract) -> bool:
        """Whether the sums are this contract's, and all that is asked for."""
        return contract.series is centered_series and not self.divergence

    def _own_summed(self, contract: Contract) -> SummedFamily:
        def form(part: AnalyticRealized) -> SoftmaxFamily:
            return part._own_softmax(contract)

        return self._once("own", contract, lambda: self._family(self._rows.own, form))

    def _family(self, series: CenteredSeries, form: Callable[[AnalyticRealized], SoftmaxFamily]) -> SummedFamily:
        formed = partial(self._formed.family, form)
        return SummedFamily(sums=series, row=self._rows.row, dominating=self._rows.dominated, formed=formed)
