"""A contract's bounds at allowances as they are, from the sums that its inversion needs anyway (docs/theory, 8.8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from suffice.contracts.base import Series
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.geometry import geometry_bounds
from suffice.numerics.softmax import at_class

__all__ = ["SummedFamily", "bounds_by_series"]

_NAMES = ("loss", "probability", "gradient")
# Enclosures that are no wider than this, relatively, stand for the bound itself.
_NARROW = 1e-10
# The remainders are derived up to here, and bounds that are no smaller are far from the subnormal numbers.
_FARTHEST = 0.25
_LEAST = 2.0**-960


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedFamily(SoftmaxFamily):
    """Multiples of allowances whose sums over classes are formed already."""

    summed: Series | None = None

    def __getitem__(self, rows: Tensor) -> SoftmaxFamily:
        """The family of some rows, without its sums."""
        beside = None if self.beside is None else self.beside[rows]
        return SoftmaxFamily(contract=self.contract, head=self.head[rows], unit=self.unit[rows], beside=beside)

    def series(self) -> Series | None:
        """Those sums, or the contract's series."""
        return SoftmaxFamily.series(self) if self.summed is None else self.summed


def bounds_by_series(series: Series, head: SoftmaxHead, own: Allowances) -> tuple[Bounds, Bool[Tensor, " queries"]]:
    """Upper ends of the enclosures at factor 1, and the rows in which these are proved and narrow.

    Raised by three slacks, as an inversion accepts them: never below what the contract itself gives (6.12b). The use of
    the margin is that of the largest movement, or of movements towards the top class where they are there.
    """
    base = geometry_bounds(head, own)
    one, slack = torch.ones_like(head.gradient_scale), head.slack
    inside = series.usable() & series.near(one, _FARTHEST) & head.known
    found: dict[str, Tensor] = {}
    for name, enclosure in zip(_NAMES, series.enclosures(_NAMES, one), strict=True):
        inside &= (enclosure.upper <= enclosure.lower * (1 + _NARROW)) & (enclosure.lower >= _LEAST)
        found[name] = torch.minimum(enclosure.upper * (1 + 3 * slack), getattr(base, name))
    use = base.margin_use if own.to_top is None else torch.minimum(base.margin_use, _margin_use(head, own))
    return Bounds(**found, margin_use=use), inside


def _margin_use(head: SoftmaxHead, own: Allowances) -> Tensor:
    """max over j != w of to_top_j/(log pi_w - log pi_j), or with d_j + d_w where that is less."""
    assert own.to_top is not None
    peak, top = head.log_probabilities.max(dim=1, keepdim=True)
    gaps = peak - head.log_probabilities
    if head.log_error is not None:
        gaps.sub_(2 * head.log_error[:, None])
    pairwise = own.d + at_class(own.d, top.squeeze(1))[:, None]
    # a gap of nothing, or less, is a tie
    use = torch.minimum(pairwise, own.to_top).div_(gaps.clamp_min_(0)).scatter_(1, top, 0.0)
    return use.amax(dim=1) * (1 + head.roundings)
