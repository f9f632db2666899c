"""What a quantised row leaves of the exact one, kept by norms, and what that allows a score (docs/theory, 10.5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal
from suffice.objectives.rows import ClassRows, row_lengths

__all__ = ["Deflation", "Moved", "Residuals", "principal_directions", "residuals"]

_TINY = smallest_normal(torch.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What deflation adds to the scores what_j.h (None: nothing), and how far the sum may be from w_j.h.

    `rounding` is how far the correction may be from that in exact arithmetic, and is in d.
    """

    correction: Float[Tensor, "queries classes"] | None
    d: Float[Tensor, "queries classes"]
    rounding: Float[Tensor, "queries classes"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deflation:
    """Directions Q [p, k], the residuals' parts A [V, k] along them, as stored; |A_j|, |Q'r'_j|, |Q|_F from above."""

    directions: Float[Tensor, "dim few"]
    parts: Float[Tensor, "classes few"]
    part_lengths: Float[Tensor, " classes"]
    leaks: Float[Tensor, " classes"]
    size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """Norms from above: of r_j = w_j - what_j, and of what deflation leaves of it, by rows and by blocks of columns."""

    whole: Float[Tensor, " classes"]
    by_row: Float[Tensor, " classes"]
    by_block: Float[Tensor, "classes blocks"] | None
    block: int
    deflation: Deflation | None

    def some(self, classes: slice | Int[Tensor, " some"]) -> Residuals:
        """Those of some classes."""
        deflation = self.deflation
        return replace(
            self,
            whole=self.whole[classes],
            by_row=self.by_row[classes],
            by_block=None if self.by_block is None else self.by_block[classes],
            deflation=None
            if deflation is None
            else replace(
                deflation,
                parts=deflation.parts[classes],
                part_lengths=deflation.part_lengths[classes],
                leaks=deflation.leaks[classes],
            ),
        )

    def moved(self, h: Float[Tensor, "queries dim"]) -> Moved:
        """The correction at these hidden vectors, and the least of the allowances by rows and by blocks."""
        deflation = self.deflation
        if deflation is None:
            return Moved(correction=None, d=self._least(h, torch.zeros(len(h), dtype=torch.float64)))
        q, few = deflation.directions, deflation.directions.shape[1]
        length = row_lengths(h)
        g = h @ q
        along = row_lengths(g)
        rest = h - g @ q.T
        # the rounding of h - Q g, and that of g itself
        lost = above(gamma(few + 3, torch.float64) * (length + deflation.size * along) + len(q) * _TINY, 8)
        off = above(gamma(len(q) + 1, torch.float64) * deflation.size * length + len(q) * _TINY, 8)
        off = off + gamma(few + 2, torch.float64) * along
        rounding = above(deflation.part_lengths * off[:, None], 8) + (len(q) + few) * _TINY
        d = self._least(rest, lost) + above(deflation.leaks * along[:, None], 8) + rounding + _TINY
        return Moved(correction=g @ deflation.parts.T, d=above(d, 4), rounding=rounding)

    @property
    def correction_reach(self) -> Float[Tensor, " classes"] | None:
        """|Q|_F |A_j|: an error of h moves the correction by this times it at most."""
        if self.deflation is None:
            return None
        return above(self.deflation.size * self.deflation.part_lengths, 2)

    def _least(self, h: Float[Tensor, "queries dim"], lost: Float[Tensor, " queries"]) -> Tensor:
        """The least of |r_j| |h| and sum_B |r_jB| |h_B|, where every length of h may be `lost` short."""
        by_row = above((row_lengths(h) + lost)[:, None] * self.by_row, 4) + _TINY
        if self.by_block is None:
            return by_row
        lengths = _block_lengths(h, self.block) + lost[:, None]
        by_block = above(lengths @ self.by_block.T, self.by_block.shape[1] + 4) + self.by_block.shape[1] * _TINY
        return torch.minimum(by_row, by_block)


def residuals(
    exact: ClassRows,
    rows: ClassRows,
    *,
    block: int | None = None,
    directions: Float[Tensor, "dim few"] | None = None,
) -> Residuals:
    """Norms of what `rows` leave of `exact`, block by block of the classes."""
    found = [_of_block(exact.rows(part) - rows.rows(part), block, directions) for part in exact.blocks()]
    deflation = None
    if directions is not None:
        deflation = Deflation(
            directions=directions,
            parts=torch.cat([x.parts for x in found]),
            part_lengths=torch.cat([x.part_lengths for x in found]),
            leaks=torch.cat([x.leaks for x in found]),
            size=_size(directions),
        )
    return Residuals(
        whole=torch.cat([x.whole for x in found]),
        by_row=torch.cat([x.by_row for x in found]),
        by_block=None if block is None else torch.cat([x.by_block for x in found]),
        block=0 if block is None else block,
        deflation=deflation,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfBlock:
    whole: Tensor
    by_row: Tensor
    by_block: Tensor
    parts: Tensor
    part_lengths: Tensor
    leaks: Tensor


def _of_block(r: Float[Tensor, "some dim"], block: int | None, q: Float[Tensor, "dim few"] | None) -> _OfBlock:
    whole = row_lengths(r)
    none = torch.empty(0, dtype=torch.float64)
    if q is None:
        by_block = none if block is None else _block_lengths(r, block)
        return _OfBlock(whole=whole, by_row=whole, by_block=by_block, parts=none, part_lengths=none, leaks=none)
    few, dim, size = q.shape[1], len(q), _size(q)
    parts = r @ q
    part_lengths = row_lengths(parts)
    rest = r - parts @ q.T
    # roundings of the rest, whatever parts and directions are
    lost = above(gamma(few + 4, torch.float64) * (whole + size * part_lengths) + dim * _TINY, 8)
    computed = row_lengths(rest)
    leaks = row_lengths(rest @ q) + gamma(dim + 1, torch.float64) * size * computed + size * lost + dim * _TINY
    by_block = none if block is None else above(_block_lengths(rest, block) + lost[:, None], 2)
    return _OfBlock(
        whole=whole,
        by_row=above(computed + lost, 2),
        by_block=by_block,
        parts=parts,
        part_lengths=part_lengths,
        leaks=above(leaks, 8),
    )


def principal_directions(calibration: Float[Tensor, "some dim"], few: int) -> Float[Tensor, "dim few"]:
    """The directions along which some hidden vectors are longest. No bound depends on which they are."""
    scaled = calibration / row_lengths(calibration).clamp_min(_TINY)[:, None]
    vectors: Tensor = torch.linalg.eigh(scaled.T @ scaled).eigenvectors
    return vectors[:, -few:].contiguous()


def _size(q: Float[Tensor, "dim few"]) -> float:
    """|Q|_F from above."""
    return float(row_lengths(q.flatten()[None])[0])


def _block_lengths(x: Float[Tensor, "some dim"], block: int) -> Float[Tensor, "some blocks"]:
    """Lengths of runs of `block` columns, from above."""
    count = -(-x.shape[1] // block)
    padded = torch.nn.functional.pad(x, (0, count * block - x.shape[1]))
    return row_lengths(padded.view(-1, block)).view(len(x), count)
