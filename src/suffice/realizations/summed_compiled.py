"""The two loops of 6.13f as programs that are compiled: `Loops` of what `summed_kernels` has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.arrays import Flags, Scalars
from suffice.numerics.compensated import squared_radius
from suffice.numerics.compiling import run_compiled
from suffice.numerics.softmax import dots
from suffice.objectives.between_products import ClassTerms, class_terms
from suffice.realizations.ordinary import Formed
from suffice.realizations.ordinary_distances import class_vectors
from suffice.realizations.summed_kernels import Ends, FamilySums, Given, VectorMoments, Weighed, class_sums, weighed
from suffice.realizations.summed_numbers import DistanceNumbers, FamilyNumbers, RowNumbers
from suffice.states import Geometry, States

__all__ = ["CompiledLoops"]


class CompiledLoops:
    """Some states at an order of nu >= 2; `length` is |phi| from above. The second loop runs once a family."""

    def __init__(self, states: States, order: int, length: Scalars, of: Weighed | None = None) -> None:
        self._states, self._order, self._length = states, order, length
        self._of = self._weigh() if of is None else of
        names = [name for name in RowNumbers._fields if name not in ("top", "peak", "target")]
        self.numbers = RowNumbers(
            top=self._of.top.squeeze(1).numpy(force=True),
            peak=_flat(self._of.pi.gather(1, self._of.top)),
            target=_flat(self._of.pi.gather(1, states.labels[:, None])),
            **{name: _flat(getattr(self._of, name)) for name in names},
        )

    def __getitem__(self, rows: Tensor) -> CompiledLoops:
        """Some rows, with what the first loop has found of them."""
        of = Weighed(*(each[rows] for each in self._of))
        return CompiledLoops(self._states[rows], self._order, self._length[rows.numpy(force=True)], of)

    @cached_property
    def _phi(self) -> Float[Tensor, "queries dim"]:
        return self._states.features / self._states.temperature[:, None]

    @cached_property
    def _terms(self) -> ClassTerms:
        bank = self._states.bank
        return class_terms(self._order, bank.nu, bank.concentrations, bank.biases)

    def _there(self, numbers: Scalars) -> Float[Tensor, " queries"]:
        return torch.from_numpy(numbers).to(self._states.features.device)

    def _weigh(self) -> Weighed:
        bank = self._states.bank
        square, length = dots(self._phi, self._phi)[:, None], self._there(self._length)[:, None]
        inputs = (self._phi @ bank.directions.T, square, length, *self._terms)
        return run_compiled(weighed, (self._order, bank.nu), inputs)

    @cached_property
    def _center(self) -> tuple[Tensor, Float[Tensor, "queries dim"]]:
        """mu.c and c, the mean of class gradients."""
        of, mu = self._of, self._states.bank.directions
        center = (of.pulls @ mu).addcmul_(of.along, self._phi)
        return center @ mu.T, center

    def at(self, rows: Tensor) -> Formed:
        """Probabilities and slopes of some rows."""
        log_pi = self._of.log_pi[rows]
        return Formed(log_pi, log_pi.exp(), self._of.slopes[rows], None)

    def geometry(self, rows: Tensor) -> Geometry:
        """That of some rows, all of which are narrow: no radius is near 0."""
        bank, gaps = self._states.bank, self._of.gaps[rows]
        radii = squared_radius(bank.concentrations, gaps).sqrt_()
        return Geometry(nu=bank.nu, concentrations=bank.concentrations, squared_gaps=gaps, radii=radii)

    def family(self, given: FamilyNumbers) -> CompiledFamily:
        """The second loop, with the target's and the top class's numbers beside it."""
        of, (inner, center) = self._of, self._center
        log_pi_top, size_mean = of.log_pi.gather(1, of.top).squeeze(1), of.size_mean.squeeze(1)
        numbers = Given(
            pi_top=self._there(self.numbers.peak),
            log_pi_top=log_pi_top,
            others=of.others.squeeze(1),
            phi_center=dots(self._phi, center),
            center_squared=dots(center, center),
            gamma=torch.full_like(size_mean, given.gamma),
            of_squares=self._there(given.of_squares),
            wider=self._there(given.wider),
            ratio=self._there(given.ratio),
            between=self._there(given.between),
            of_radii=self._there(given.of_radii),
            error=self._there(given.error),
        )
        ends = (*self._ends(self._states.labels[:, None]), *self._ends(of.top))
        inputs = (of.gaps, of.log_pi, of.pi, of.slopes, inner, torch.stack(numbers, dim=1), *ends, *self._terms)
        constants = (self._order, self._states.bank.nu, given.constant, given.cap, given.own)
        top = of.top.squeeze(1)
        slope = of.slopes.gather(1, of.top).squeeze(1)
        k = self._states.bank.concentrations[top]
        off = given.gamma * (slope * (k + self._there(self._length)) + size_mean)
        direct = torch.linalg.vector_norm(class_vectors(self._states, self._phi, top, slope) - center, dim=1)
        return CompiledFamily(constants, inputs, given, (direct + off, off))

    def _ends(self, place: Tensor) -> Ends:
        """The numbers of one class a row."""
        gaps, index = self._of.gaps.gather(1, place), place.squeeze(1)
        of = self._terms
        k, square, lost, radius, inverse = (
            each[index][:, None] for each in (of.k, of.square, of.lost, of.radius, of.inverse)
        )
        return Ends(place, gaps, k, square, lost, radius, inverse)


class CompiledFamily:
    """The sums of one family: its second program, again with sums of higher order if these are asked for."""

    def __init__(
        self, constants: tuple[Any, ...], inputs: tuple[Tensor, ...], given: FamilyNumbers, top: tuple[Tensor, Tensor]
    ) -> None:
        @cache
        def sums(highest: int) -> FamilySums:
            return run_compiled(class_sums, (*constants, highest), inputs)

        # the second order of total variation is in every certificate and in few tolerances, the third in few of either
        highest = 2 if given.own else 1
        self._of = of = sums(highest)

        def bent(which: int, order: int) -> VectorMoments:
            return sums(max(order, highest)).vectors[which]

        direct, off = (each.numpy(force=True) for each in top)
        rho_mean, at_top = _flat(of.rho_mean), (of.d_top, torch.zeros_like(of.d_top))
        raise_by = given.raise_by(rho_mean, direct)
        self.distances = DistanceNumbers(rho_mean, direct, off, raise_by)
        self.vectors: Sequence[CompiledVector] = [
            CompiledVector(each, top, raise_by, partial(bent, which))
            for which, (each, top) in enumerate(zip(of.vectors, at_top, strict=True))
        ]
        first, second, third, most = (_flat(each) for each in of.losses)
        self.losses = first, second, third, most

    def picked(self, _second: Flags) -> None:
        """All sums are there of both."""
        return

    def __getattr__(self, name: str) -> Scalars:
        """What is one number a row in the program as well."""
        return _flat(getattr(self._of, name))

    def least_gap(self) -> Scalars:
        """The least gap between the top log-probability and another, past twice their error."""
        return _flat(self._of.gap_least)

    def largest_share(self) -> Scalars:
        """The largest share of such a gap that a movement against the top class has."""
        return _flat(self._of.use_most)


class CompiledVector:
    """Moments of one vector; `bent` runs a program that has those of total variation up to an order."""

    def __init__(
        self, of: VectorMoments, at_top: Tensor, raise_by: Scalars, bent: Callable[[int], VectorMoments]
    ) -> None:
        self._of, self._bent, self.at_top = of, bent, _flat(at_top)
        self._moved = [_flat(moved) + raise_by * _flat(plain) for moved, plain in zip(of.moved, of.plain, strict=True)]

    def __getattr__(self, name: str) -> Scalars:
        """What is one number a row in the program as well."""
        return _flat(getattr(self._of, name))

    def moved(self, power: int) -> Scalars:
        """sum pi rho v^power, over all classes but the top one."""
        return self._moved[power - 1]

    @property
    def curvature(self) -> Scalars:
        """Q."""
        return _flat(self._bent(2).curvature)

    @property
    def twist(self) -> Scalars:
        """K."""
        return _flat(self._bent(3).twist)


def _flat(values: Tensor | None) -> Scalars:
    assert values is not None
    found: Scalars = values.squeeze(1).numpy(force=True)
    return found
