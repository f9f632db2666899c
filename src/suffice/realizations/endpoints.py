"""Allowances of a pair at the endpoints of every score: its own envelope, and the paper's uniform family.

Everything that a bound takes from computed geometry is widened by what the exact geometry may differ (theory, 6.10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances
from suffice.numerics.outward import above
from suffice.numerics.rounding import unit_roundoff
from suffice.numerics.softmax import at_class, without
from suffice.pairs.base import Allowance
from suffice.states import Geometry

__all__ = ["FEW", "Endpoints", "OwnEnvelope", "moved_allowance", "uniform_allowances"]

# More roundings than any of these sums of a few positive numbers has.
FEW = 30
# Of a computed radius, which is the root of k^2 + D to fewer roundings.
_ROUNDED = 8 * unit_roundoff(torch.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Computed k_j and r_j, and where the radii lie at which allowances are taken: in [low, high].

    Their squares are within `of_gap` of k^2 + D. That is proved to hold the exact radius, or is the computed one alone
    where what it lacks is allowed for elsewhere (scope execution).
    """

    geometry: Geometry
    of_gap: Float[Tensor, "queries classes"]
    low: Float[Tensor, "queries classes"]
    high: Float[Tensor, "queries classes"]

    @classmethod
    def computed(cls, geometry: Geometry) -> Endpoints:
        """The computed radii alone."""
        radii = geometry.radii
        return cls(geometry=geometry, of_gap=torch.zeros_like(radii), low=radii, high=radii)

    def __getitem__(self, rows: Tensor) -> Endpoints:
        """Those of some rows."""
        return Endpoints(
            geometry=self.geometry[rows], of_gap=self.of_gap[rows], low=self.low[rows], high=self.high[rows]
        )


def moved_allowance(pair: Allowance, nu: float, low: Tensor, of_gap: Tensor) -> Float[Tensor, "queries classes"]:
    """What A - R integrates to between the computed and the exact radius, whose squares are within `of_gap`.

    An allowance over x falls with x, so that the integral over squares is largest where it begins at low^2.
    """
    return pair.score_allowance(nu, low, torch.sqrt(low * low + of_gap), of_gap)


def uniform_allowances(
    ends: Endpoints, towards: tuple[Int[Tensor, " queries"], Int[Tensor, " queries"]] | None
) -> Allowances:
    """The paper's family at b = 1: d_j = g_j, a_j = 1 (eq:uniform-allowance-family).

    |e_i - e_j| <= min(|r_i - r_j| + |k_i - k_j|, g_i + g_j) for errors that integrate one function bounded by 1:
    matched gaps, `towards` the target and the top class.
    """
    geometry, low, of_gap = ends.geometry, ends.low, ends.of_gap
    r, k = geometry.radii, geometry.concentrations
    d = above(_root_difference(geometry.squared_gaps.abs() + of_gap, low + k), FEW)
    unit = Allowances(d=d, a=torch.ones_like(d))
    if towards is None:
        return unit

    def apart(index: Tensor) -> Tensor:
        return (r - at_class(r, index)[:, None]).abs() + (k - k[index][:, None]).abs()

    return _matched(unit, towards, apart, _root_difference(of_gap, low + r) + _ROUNDED * r)


def _root_difference(squares: Tensor, total: Tensor) -> Tensor:
    """|x - y| from |x^2 - y^2| and x + y or less; also at most the root, where x + y may be nothing."""
    return torch.minimum(squares / total, torch.sqrt(squares)).nan_to_num(nan=0.0)


class OwnEnvelope:
    """An envelope of its own: d_j integrated between k_j and r_j, a_j at r_j, and its matched gaps on request.

    Only the centred contract uses matched gaps, and they cost more than all the rest.
    """

    def __init__(self, ends: Endpoints, envelope: Allowance, moved: Tensor | None = None) -> None:
        """`moved` is the `moved_allowance` of these, if it is at hand."""
        self.ends, self.envelope = ends, envelope
        if moved is not None:
            vars(self)["_moved"] = moved

    @cached_property
    def _moved(self) -> Tensor:
        return moved_allowance(self.envelope, self.ends.geometry.nu, self.ends.low, self.ends.of_gap)

    @cached_property
    def plain(self) -> Allowances:
        """d and a alone."""
        geometry, envelope = self.ends.geometry, self.envelope
        nu, k, r = geometry.nu, geometry.concentrations, geometry.radii
        d = above(envelope.score_allowance(nu, k, r, geometry.squared_gaps) + self._moved, FEW)
        return Allowances(d=d, a=envelope.allowance_over(nu, self.ends.low, self.ends.high))

    def matched(self, towards: tuple[Int[Tensor, " queries"], Int[Tensor, " queries"]]) -> Allowances:
        """The same with bounds on |e_j - e_y| and |e_j - e_w|, `towards` the target and the top class."""
        return _matched(
            self.plain, towards, self.apart, self._moved + _ROUNDED * self.ends.geometry.radii * self.plain.a
        )

    def apart(self, index: Int[Tensor, " queries"]) -> Float[Tensor, "queries classes"]:
        """The envelope between every radius and that of one class, and between their concentrations."""
        nu, k, r = self.ends.geometry.nu, self.ends.geometry.concentrations, self.ends.geometry.radii
        between = self.envelope.score_allowance(nu, k[index][:, None], k.expand_as(r))
        return self.envelope.score_allowance(nu, at_class(r, index)[:, None], r) + between

    def __getitem__(self, rows: Tensor) -> OwnEnvelope:
        """That of some rows."""
        part = type(self)(self.ends[rows], self.envelope)
        for name in ("_moved", "plain"):
            if name in vars(self):
                part.__dict__[name] = vars(self)[name][rows]
        return part


def _matched(
    allowances: Allowances,
    towards: tuple[Int[Tensor, " queries"], Int[Tensor, " queries"]],
    apart: Callable[[Tensor], Tensor],
    moved: Float[Tensor, "queries classes"],
) -> Allowances:
    """Bounds on |e_j - e_y| and |e_j - e_w|: `apart` at the computed radii, widened by both `moved`."""
    d = allowances.d

    def matched(index: Tensor) -> Tensor:
        widened = above(apart(index) + moved + at_class(moved, index)[:, None], FEW)
        return without(torch.minimum(widened, d + at_class(d, index)[:, None]), index, 0.0)

    return replace(allowances, to_target=matched(towards[0]), to_top=matched(towards[1]), within=True)
