"""What goes into sums over classes and what comes out of them: one number a row each, on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from suffice.numerics.arrays import Flags, Places, Scalars
from suffice.realizations.ordinary import Formed
from suffice.states import Geometry

__all__ = ["DistanceNumbers", "FamilyLoops", "FamilyNumbers", "Loops", "RowNumbers", "VectorLoops"]


class RowNumbers(NamedTuple):
    """The top class, its probability, the target's, and the sum of all but the top one; the least radius; `along` is
    the sum of pi times slope, `size_mean` that of pi times slope times k + |phi|."""

    top: Places
    peak: Scalars
    target: Scalars
    others: Scalars
    along: Scalars
    r_least: Scalars
    size_mean: Scalars


class DistanceNumbers(NamedTuple):
    """Of the distances rho_j, before `raise_by` is added to each, sum pi rho without the top class, and that of the top
    class, which is off by `off` at most."""

    mean: Scalars
    top: Scalars
    off: Scalars
    raise_by: Scalars


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyNumbers:
    """What the second loop takes of a family (6.10f): c_n raised, the cap of order 2 and whether it is needed,
    `wider` for the allowances themselves, `ratio` for a_j, `between` and `of_radii` for matched gaps; `error` is twice
    that of a log-probability, `gamma` and `of_squares` raise the squares of distances (6.10g), and `raise_by` says
    what is added to each of these, by `mean` and `top` of `DistanceNumbers`; `vanishing` says whether an a_j may
    underflow."""

    own: bool
    constant: float
    cap: float | None
    capped: bool
    vanishing: bool
    wider: Scalars
    ratio: Scalars
    between: Scalars
    of_radii: Scalars
    error: Scalars
    gamma: float
    of_squares: Scalars
    raise_by: Callable[[Scalars, Scalars], Scalars]


class VectorLoops(Protocol):
    """`VectorSums`, but that `moved`, the sums of pi rho v^k in its place, leave the top class out, v_w of which is
    `at_top`, and are still to be raised past roundings."""

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
    def curvature(self) -> Scalars: ...
    @property
    def twist(self) -> Scalars: ...
    def moved(self, power: int) -> Scalars: ...


class FamilyLoops(Protocol):
    """The sums of one family: `losses` are of pi T^k over the movements T towards the target, k = 1, 2, 3, and the
    largest of these; `vectors` are d and the movement against the top class."""

    @property
    def total(self) -> Scalars: ...
    @property
    def ratio(self) -> Scalars: ...
    @property
    def a_max(self) -> Scalars: ...
    @property
    def a_y(self) -> Scalars: ...
    @property
    def d_y(self) -> Scalars: ...
    @property
    def distances(self) -> DistanceNumbers: ...
    @property
    def losses(self) -> tuple[Scalars, Scalars, Scalars, Scalars]: ...
    @property
    def vectors(self) -> Sequence[VectorLoops]: ...
    def picked(self, second: Flags) -> VectorLoops | None:
        """The second vector in some rows and d in the others, as one vector; None if that is not less work."""
        ...

    def least_gap(self) -> Scalars:
        """The least gap between the top log-probability and another, past twice their error."""
        ...

    def largest_share(self) -> Scalars:
        """The largest share of such a gap that a movement against the top class has."""
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

    def at(self, rows: Tensor) -> Formed:
        """Probabilities and slopes of some rows."""
        ...

    def geometry(self, rows: Tensor) -> Geometry:
        """That of some rows, all of which are narrow; of others the product is right, and radii may be no numbers."""
        ...
