"""The conditioned contract's series for eager execution: sums over classes in place, on few buffers, block by block.

Working memory is what costs in a large eager expression, not arithmetic: a block's buffers stay in a core's cache.
The sums are those of docs/theory, 6.8, with t_j = S_1 + v_j (pibar_j - pi_j), m_j = S_2 + 2 v_j S_1
+ v_j^2 (pibar_j - 3 pi_j) and q_j = S_3 + 3 v_j S_2 + 3 v_j^2 S_1 + v_j^3 (pibar_j - 7 pi_j), S_k = sum pi v^k.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.series import Moments, Sums, moments
from suffice.numerics.softmax import at_class, dots, exclusive

__all__ = ["conditioned_series", "eager_sums"]

# Entries of a block, measured: more do not stay in cache, and fewer cost their calls.
_BLOCK = 65_536


def conditioned_series(head: SoftmaxHead, unit: Allowances) -> Moments | None:
    """The conditioned contract along multiples of `unit`, or None: they are derived for |h_j| <= 1."""
    if head.h_bound != 1:
        return None
    return moments(eager_sums(head.pi, unit.d, unit.a, head.target), head.gradient_scale)


def eager_sums(
    weights: Float[Tensor, "queries classes"],
    unit: Float[Tensor, "queries classes"],
    ratio: Float[Tensor, "queries classes"],
    target: Int[Tensor, " queries"],
) -> Sums:
    """The sums over classes for some weights, in two passes and without a division."""
    rows = max(1, _BLOCK // weights.shape[1])
    parts = [
        _sums(weights[i : i + rows], unit[i : i + rows], ratio[i : i + rows], target[i : i + rows])
        for i in range(0, len(target), rows)
    ]
    if len(parts) == 1:
        return parts[0]
    return Sums(*(_joined([part[i] for part in parts]) for i in range(len(Sums._fields))))


def _joined(values: list[Any]) -> Any:
    """Blocks of one field of the sums, one after the other."""
    if isinstance(values[0], tuple):
        return tuple(torch.cat(each) for each in zip(*values, strict=True))
    return torch.cat(values)


def _sums(w: Tensor, v: Tensor, ratio: Tensor, target: Tensor) -> Sums:
    column = target[:, None]
    away = exclusive(w)
    w_y, v_y, a_y = at_class(w, target), at_class(v, target), at_class(ratio, target)

    # without the target: a copy of the weights in which it is zero
    scratch = w.scatter(1, column, 0.0)
    rest = scratch.sum(dim=1)
    ratios = dots(scratch, ratio)
    first = scratch.mul_(v).sum(dim=1)
    second = scratch.mul_(v).sum(dim=1)
    third = scratch.mul_(v).sum(dim=1)
    total = rest + w_y
    one, two, three = (part + w_y * v_y**k for k, part in ((1, first), (2, second), (3, third)))
    s1, s2, s3, whole = one[:, None], two[:, None], three[:, None], total[:, None]

    spread = dots(torch.mul(w, v, out=scratch), away)
    apart = away.sub_(w)
    t = torch.addcmul(s1, v, apart)
    m = apart.sub_(w, alpha=2).mul(v).add_(2 * s1).mul_(v).add_(s2)
    q = apart.sub_(w, alpha=4).mul_(v).add_(3 * s1).mul_(v).add_(3 * s2).mul_(v).add_(s3)
    # m/2 - t^2, in the units of the weights
    m.mul_(0.5 * whole)
    half = torch.addcmul(m, t, t, value=-1)
    # q/6 - t m + t^3 = q/6 - t (m/2 + (m/2 - t^2))
    q.mul_(whole * whole / 6).addcmul_(t, m.add_(half), value=-1)
    return Sums(
        total=total,
        peak=w.amax(dim=1),
        others=(rest, first, second, third),
        at_target=v_y,
        largest=v.amax(dim=1),
        spread=spread,
        curvature=dots(w, half.abs_()),
        twist=dots(w, q),
        ratio=(ratios, a_y, ratio.amax(dim=1)),
    )
