"""An order of the ladder at ordinary rows, compiled: sums over classes in two loops, and no allowance of any class.

What is proved of `OrdinaryRows` and of the centred series holds of these sums, which are theirs in another order
(docs/theory, 6.13f). Rows that they do not serve, and whatever else is asked for, are formed as they are without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.bounds import HeadRow, SoftmaxHead, smaller_use
from suffice.contracts.centered_series import CenteredSeries
from suffice.contracts.centered_sums import CenteredSums
from suffice.contracts.series import MOST_MASS
from suffice.numerics.compiling import run_compiled
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal
from suffice.numerics.softmax import dots
from suffice.objectives.between_products import ClassTerms, class_terms
from suffice.realizations.distances import DOMINATES, NARROW, product_roundings
from suffice.realizations.geometry_error import feature_lengths
from suffice.realizations.ordinary_distances import away_of, top_distance
from suffice.realizations.row_allowances import NOTHING, RowAllowances
from suffice.realizations.row_widening import RowWidening, widened
from suffice.realizations.summed_kernels import Ends, FamilySums, Given, VectorMoments, Weighed, class_sums, weighed
from suffice.states import States

__all__ = ["SummedRows"]

_TINY = smallest_normal(torch.float64)
# as the distances of ordinary rows are raised
_RAISED = above(1.0, 126)

Row = Float[Tensor, " queries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moments:
    """`VectorSums` of a kernel; `bent` are curvature and twist, from a kernel that has them."""

    largest: Row
    mean: Row
    square: Row
    spread: Row
    first: Row
    second: Row
    third: Row
    ratio_first: Row
    ratio_second: Row
    bent: Callable[[int], Row]

    @property
    def curvature(self) -> Row:
        """Q."""
        return self.bent(2)

    @property
    def twist(self) -> Row:
        """K."""
        return self.bent(3)


class SummedRows:
    """Some states at one order n of nu >= 2, as compiled sums; `cap` is as in `OrdinaryRows`."""

    def __init__(self, states: States, order: int, cap: float | None, outside: Bool[Tensor, " queries"]) -> None:
        self.states, self.order, self.cap, self.outside = states, order, cap, outside
        self.nu = states.bank.nu

    def kept(self, rows: Int[Tensor, " rows"]) -> SummedRows:
        """Some rows, with what the first loop has found of them."""
        part = SummedRows(self.states[rows], self.order, self.cap, self.outside[rows])
        vars(part)["_weighed"] = Weighed(*(each[rows] for each in self._weighed))
        return part

    @cached_property
    def _phi(self) -> Float[Tensor, "queries dim"]:
        return self.states.features / self.states.temperature[:, None]

    @cached_property
    def _terms(self) -> ClassTerms:
        bank = self.states.bank
        return class_terms(self.order, self.nu, bank.concentrations, bank.biases)

    @cached_property
    def _weighed(self) -> Weighed:
        phi, mu = self._phi, self.states.bank.directions
        square, length = dots(phi, phi)[:, None], self._length[:, None]
        return run_compiled(weighed, (self.order, self.nu), (phi @ mu.T, square, length, *self._terms))

    @cached_property
    def _length(self) -> Row:
        return feature_lengths(self.states)

    @cached_property
    def _wide(self) -> RowWidening:
        of = self._weighed
        extremes = (each.squeeze(1) for each in (of.r_least, of.r_most, of.k_over_r))
        return widened(self.states.bank, self._length, *extremes)

    @cached_property
    def _numbers(self) -> RowAllowances:
        return RowAllowances(bank=self.states.bank, order=self.order, cap=self.cap, wide=self._wide)

    @cached_property
    def row(self) -> HeadRow:
        """The numbers of the head."""
        of, states = self._weighed, self.states
        error = self._numbers.log_error(_flat(of.score_most), _flat(of.delta_most), self.outside)
        return HeadRow(gradient_scale=1 / states.temperature, log_error=error, classes=states.num_classes)

    @cached_property
    def peak(self) -> Row:
        """The largest probability."""
        return self._weighed.pi.gather(1, self._weighed.top).squeeze(1)

    @cached_property
    def _center(self) -> tuple[Tensor, Float[Tensor, "queries dim"]]:
        """mu.c and c, the mean of class gradients."""
        of, mu = self._weighed, self.states.bank.directions
        center = (of.pulls @ mu).addcmul_(of.along, self._phi)
        return center @ mu.T, center

    @cached_property
    def _of_gap(self) -> Row:
        of, wide = self._weighed, self._wide
        largest, size = of.slope_most.squeeze(1), of.size_most.squeeze(1)
        return above(largest * (size * wide.per_k + largest * wide.constant))

    @cached_property
    def own(self) -> CenteredSeries:
        """The series of the order's envelope."""
        numbers = self._numbers
        return self._series(
            own=True,
            factor=torch.ones_like(numbers.moved),
            wider=numbers.own,
            off=numbers.moved,
            ratio=numbers.ratio,
            between=numbers.own_matched,
            of_radii=numbers.of_radii,
        )

    @cached_property
    def unit(self) -> CenteredSeries:
        """The series of the unit family."""
        numbers = self._numbers
        return self._series(
            own=False,
            factor=numbers.unit_factor,
            wider=numbers.unit,
            off=numbers.unit,
            ratio=torch.ones_like(numbers.unit),
            between=numbers.unit_matched,
            of_radii=torch.zeros_like(numbers.unit),
        )

    def _series(
        self, *, own: bool, factor: Row, wider: Row, off: Row, ratio: Row, between: Row, of_radii: Row
    ) -> CenteredSeries:
        """The second loop, with the target's and the top class's numbers beside it."""
        of, states = self._weighed, self.states
        inner, center = self._center
        error = self.row.log_error
        assert error is not None
        given = Given(
            pi_top=self.peak,
            log_pi_top=of.log_pi.gather(1, of.top).squeeze(1),
            others=of.others.squeeze(1),
            length=self._wide.length,
            phi_center=dots(self._phi, center),
            center_squared=dots(center, center),
            size_mean=of.size_mean.squeeze(1),
            gamma=torch.full_like(factor, product_roundings(states)),
            of_gap=self._of_gap,
            factor=factor,
            wider=wider,
            ratio=ratio,
            between=between,
            of_radii=of_radii,
            error=2 * error,
        )
        ends = (*self._ends(states.labels[:, None]), *self._ends(of.top))
        inputs = (of.gaps, of.log_pi, of.pi, of.slopes, inner, torch.stack(given, dim=1), *ends, *self._terms)

        @cache
        def sums(highest: int) -> FamilySums:
            constants = (self.order, self.nu, self._numbers.constant, self.cap, own, highest)
            return run_compiled(class_sums, constants, inputs)

        # the second order of total variation is in every certificate and in few tolerances, the third in few of either
        return self._finished(sums, 2 if own else 1, off, between)

    def _ends(self, place: Int[Tensor, "queries 1"]) -> Ends:
        """The numbers of one class a row."""
        gaps, index = self._weighed.gaps.gather(1, place), place.squeeze(1)
        of = self._terms
        k, square, lost, radius, inverse = (
            each[index][:, None] for each in (of.k, of.square, of.lost, of.radius, of.inverse)
        )
        return Ends(place, gaps, k, square, lost, radius, inverse)

    def _finished(self, sums: Callable[[int], FamilySums], highest: int, off: Row, between: Row) -> CenteredSeries:
        """The sums with rho raised as in `ordinary_distances`, and where the widening counts for nothing."""
        row, labels, of, found = self.row, self.states.labels, self._weighed, sums(highest)
        is_top = labels == of.top.squeeze(1)
        pi_y = of.pi.gather(1, labels[:, None]).squeeze(1)
        others = of.others.squeeze(1)
        mass = torch.where(is_top, others, (others - pi_y) + self.peak)
        raise_by, rho_top = self._raised_distances(found)

        def bent(which: int, order: int) -> Row:
            vector = sums(max(order, highest)).vectors[which]
            value = vector.curvature if order == 2 else vector.twist
            assert value is not None
            return _flat(value)

        vectors = [
            self._vector(each, raise_by, self.peak * rho_top, v_top, partial(bent, which))
            for which, (each, v_top) in enumerate(
                zip(found.vectors, (_flat(found.d_top), torch.zeros_like(mass)), strict=True)
            )
        ]
        losses = tuple(_flat(each) for each in found.losses)
        served = self._wide.narrow & ~self.outside & (off <= NOTHING * vectors[0].mean)
        served &= (between * mass <= NOTHING * losses[0]) & (between * others <= NOTHING * vectors[1].mean)
        return CenteredSeries(
            CenteredSums(
                total=_flat(found.total),
                peak=self.peak,
                mass=mass,
                a_y=_flat(found.a_y),
                a_max=_flat(found.a_max),
                ratio=_flat(found.ratio),
                farthest=torch.maximum((_flat(found.rho_most) + raise_by) * _RAISED, rho_top),
                losses=losses,  # type: ignore[arg-type]
                vectors=vectors,
                margin_use=_margin_use(row, vectors[0].largest, found),
                loss_slope=partial(_flat, found.loss_slope),
                served=served,
            ),
            row,
        )

    def _raised_distances(self, found: FamilySums) -> tuple[Row, Row]:
        """What is added to every rho_j, and rho_w of the top class: formed directly where it has nearly everything."""
        of, error = self._weighed, self.row.log_error
        assert error is not None
        away, gamma, size = (
            away_of(self.nu, self.order, self._wide),
            product_roundings(self.states),
            _flat(of.size_most),
        )
        mean, rho_top = _flat(found.rho_mean), _flat(found.rho_top)
        moved = (away + torch.expm1(2 * error) * (mean + self.peak * rho_top)) * torch.exp(error)
        raise_by = above(away + moved)
        rough = (self.peak > DOMINATES) | ~(4 * gamma * size * size + self._of_gap <= NARROW * rho_top**2)
        # the series serve no row past that
        rows = (rough & (self.peak <= MOST_MASS)).nonzero().squeeze(1)
        nearest = rho_top + raise_by
        if len(rows):
            top, log_pi = of.top[rows], of.log_pi[rows]
            # of all other classes only the mean is needed
            rho = (mean / _flat(of.others))[rows, None].expand_as(log_pi).scatter(1, top, rho_top[rows, None])
            head = SoftmaxHead(
                log_probabilities=log_pi,
                target=self.states.labels[rows],
                gradient_scale=self.row.gradient_scale[rows],
                log_error=error[rows],
            )
            beside = (gamma * size + away)[rows]
            direct = top_distance(self.states[rows], head, of.slopes[rows], rho, top.squeeze(1), beside)
            nearest = nearest.index_put((rows,), direct)
        return raise_by, (nearest * _RAISED).clamp_min(_TINY)

    def _vector(
        self, found: VectorMoments, raise_by: Row, top: Row, v_top: Row, bent: Callable[[int], Row]
    ) -> _Moments:
        """sum pi rho v^k, to which `top` v_w^k is the top class's part."""
        first, second, third = (
            (_flat(moved) + raise_by * _flat(plain)) * _RAISED + top * v_top**power
            for power, (moved, plain) in enumerate(zip(found.moved, found.plain, strict=True), start=1)
        )
        return _Moments(
            largest=_flat(found.largest),
            mean=_flat(found.mean),
            square=_flat(found.square),
            spread=_flat(found.spread),
            first=first,
            second=second,
            third=third,
            ratio_first=_flat(found.ratio_first),
            ratio_second=_flat(found.ratio_second),
            bent=bent,
        )


def _margin_use(row: HeadRow, largest: Row, found: FamilySums) -> Callable[[], Row]:
    return partial(smaller_use, row, largest, _flat(found.use_most), _flat(found.gap_least))


def _flat(values: Float[Tensor, "queries 1"]) -> Row:
    return values.squeeze(1)
