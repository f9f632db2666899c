"""What goes into sums over classes and what comes out of them: one number a row each, on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from suffice.numerics.arrays import Places, Scalars

__all__ = ["FamilyLoops", "FamilyNumbers", "Loops", "Powers", "RowNumbers", "VectorLoops"]

# Of a sum with the first, second and third power of something.
Powers = tuple[Scalars, Scalars, Scalars]


class RowNumbers(NamedTuple):
    """The top class, its probability, the target's, and the sum of all but the top one; extremes of radii, k/r, scores,
    s(r) - s(k) and slopes; `along` is the sum of pi times slope, `size` is slope times k + |phi|."""

    top: Places
    peak: Scalars
    target: Scalars
    others: Scalars
    along: Scalars
    r_least: Scalars
    r_most: Scalars
    k_over_r: Scalars
    score_most: Scalars
    delta_most: Scalars
    slope_most: Scalars
    size_most: Scalars
    size_mean: Scalars


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyNumbers:
    """What the second loop takes of a family (6.10f): c_n raised, the cap of order 2 and whether it is needed, `factor` and `wider` for the
    allowances themselves, `ratio` for a_j, `between` and `of_radii` for matched gaps; `error` is twice that of a
    log-probability, `gamma` and `of_gap` raise the squares of distances (6.10g)."""

    own: bool
    constant: float
    cap: float | None
    capped: bool
    factor: Scalars
    wider: Scalars
    ratio: Scalars
    between: Scalars
    of_radii: Scalars
    error: Scalars
    gamma: float
    of_gap: Scalars


class VectorLoops(Protocol):
    """`VectorSums`, but that rho has still to be raised: `plain` and `moved` are sums of pi v^k and pi rho v^k over all
    classes but the top one, v_w of which is `at_top`."""

    @property
    def at_top(self) -> Scalars: ...
    @property
    def largest(self) -> Scalars: ...
    @property
    def mean(self) -> Scalars: ...
    @property
    def square(self) -> Scalars: ...
    @property
    def spread(self) -> Scalars: ...
    @property
    def ratio_first(self) -> Scalars: ...
    @property
    def ratio_second(self) -> Scalars: ...
    @property
    def plain(self) -> Powers: ...
    @property
    def moved(self) -> Powers: ...
    @property
    def curvature(self) -> Scalars: ...
    @property
    def twist(self) -> Scalars: ...


class FamilyLoops(Protocol):
    """The sums of one family; of rho without the top class its mean and the largest, and that of the top class; sums of
    pi T^k over the movements T towards the target, and the largest of these."""

    @property
    def total(self) -> Scalars: ...
    @property
    def ratio(self) -> Scalars: ...
    @property
    def a_max(self) -> Scalars: ...
    @property
    def a_y(self) -> Scalars: ...
    @property
    def rho_mean(self) -> Scalars: ...
    @property
    def rho_most(self) -> Scalars: ...
    @property
    def rho_top(self) -> Scalars: ...
    @property
    def losses(self) -> Powers: ...
    @property
    def loss_most(self) -> Scalars: ...
    @property
    def vectors(self) -> Sequence[VectorLoops]: ...
    def loss_slope(self) -> Scalars:
        """sum_{j != y} pi_j (d_j + d_y)."""
        ...

    def margin(self) -> tuple[Scalars, Scalars]:
        """The least gap between log-probabilities, and the largest share of one that a movement has."""
        ...


class Loops(Protocol):
    """The two loops of 6.13f at some states: the first has run, the second runs once a family."""

    @property
    def numbers(self) -> RowNumbers: ...
    def __getitem__(self, rows: Tensor) -> Loops:
        """Some rows, with what the first loop has found of them."""
        ...

    def family(self, given: FamilyNumbers) -> FamilyLoops:
        """The second loop."""
        ...

    def at(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and slopes of some rows."""
        ...
