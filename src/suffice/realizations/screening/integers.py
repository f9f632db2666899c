"""Screening by a product of integers: rows in blocks that share a scale, one int8 word for h (docs/theory, 10.2)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.integer_products import WORD, IntegerKernel, integer_kernel
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.objectives.rows import row_lengths
from suffice.realizations.screening.dense import finished
from suffice.realizations.screening.floats import float_candidates, narrowed
from suffice.realizations.screening.search import Approximate, Found, Pairs, argmax_among
from suffice.realizations.screening.units import Batch, ScaledHead

__all__ = ["IntegerScreen", "doubled_channels"]

_BLOCK = 64
_U, _TINY = unit_roundoff(torch.float64), smallest_normal(torch.float64)
# A product of integers has so many rows, and about this many entries, at most: larger ones leave the caches.
_ROWS = 128
_ENTRIES = 33_554_432
# A state with more candidates than this share of the classes, and than so many, goes through a float product instead.
_MANY = 1 / 64
_FEWEST = 64


def doubled_channels(calibration: Float[Tensor, "some dim"], extra: int) -> Int[Tensor, " dim"]:
    """How many more columns each channel gets, so that the largest words of most vectors are small.

    Which ones matters for speed only.
    """
    sizes = calibration.abs() / row_lengths(calibration).clamp_min(_TINY)[:, None]
    largest = sizes.quantile(0.99, dim=0) if len(sizes) > 1 else sizes[0]
    more = torch.zeros(calibration.shape[1], dtype=torch.int64)
    for _ in range(extra):
        more[(largest / (1 + more)).argmax()] += 1
    return more


class IntegerScreen:
    """A head as words of seven or eight bits: rows sorted by their largest entry, blocks of 64 with one scale each.

    w_j = s_b k_j + r_j and h = t x + e in exact arithmetic, with s_b and t of 24 bits, so that s_b k_ji and t x_i are
    exact in float64: the score is s_b t (k_j.x), off by |r_j| |h| + s_b |k_j| |e| at most.
    """

    def __init__(
        self, scaled: ScaledHead, calibration: Float[Tensor, "some dim"] | None = None, extra: int = 64
    ) -> None:
        head, dim = scaled.head, scaled.head.dim
        more = torch.zeros(dim, dtype=torch.int64) if calibration is None else doubled_channels(calibration, extra)
        self._cap = (WORD * (1 + more)).double()
        self._copied = torch.repeat_interleave(torch.arange(dim), more)
        copies = [torch.arange(1, int(count) + 1) for count in more[more > 0]]
        self._taken = torch.cat(copies).double() * WORD if copies else torch.empty(0, dtype=torch.float64)
        kernel = integer_kernel(dim + len(self._copied))

        peaks = torch.cat([scaled.rows(block).abs().amax(dim=1) for block in head.blocks()])
        order = peaks.argsort(descending=True)
        self._count = head.num_classes
        blocks = -(-self._count // _BLOCK)
        padded = torch.cat([order, order[-1:].expand(blocks * _BLOCK - self._count)])
        # any positive number of 24 bits would do
        scale = (peaks[padded].view(blocks, _BLOCK).amax(dim=1) / kernel.largest).float()
        self._scale = scale.clamp_min(torch.finfo(torch.float32).tiny).double()
        words = torch.empty(len(padded), dim + len(self._copied), dtype=torch.int8)
        residual = torch.empty(len(padded), dtype=torch.float64)
        length = torch.empty_like(residual)
        step = max(_BLOCK, (4_194_304 // dim) // _BLOCK * _BLOCK)
        for start in range(0, len(padded), step):
            part = slice(start, start + step)
            s = self._scale.repeat_interleave(_BLOCK)[part, None]
            rows = scaled.rows(padded[part])
            k = (rows / s).round_().clamp_(-kernel.largest, kernel.largest)
            words[part, :dim] = k.to(torch.int8)
            residual[part] = row_lengths(rows - s * k)
            length[part] = above(row_lengths(k) * s[:, 0], 2)
        words[:, dim:] = words[:, self._copied]
        self.kernel: IntegerKernel = kernel(words)
        self._classes = padded
        self._residual, self._length = residual.view(blocks, _BLOCK), length.view(blocks, _BLOCK)
        self._largest_residual = self._residual.amax(dim=1)
        self._largest_length = self._length.amax(dim=1)

    def _words(
        self, batch: Batch
    ) -> tuple[Float[Tensor, "queries columns"], Float[Tensor, " queries"], Float[Tensor, " queries"]]:
        """x, t and |h - t x| from above."""
        h = batch.h
        # 24 bits; what is too small for float32 is no part of h at all, whose largest entry is between 1/2 and 1
        t = (h.abs() / self._cap).amax(dim=1).float().clamp_min(torch.finfo(torch.float32).tiny).double()
        x = (h / t[:, None]).round_()
        x = torch.minimum(torch.maximum(x, -self._cap), self._cap)
        error = row_lengths(h - x * t[:, None]) + _TINY
        if not len(self._copied):
            return x.float(), t, error
        columns = torch.empty(len(h), len(self._cap) + len(self._copied), dtype=torch.float32)
        columns[:, : len(self._cap)] = x.clamp(-WORD, WORD)
        more = x[:, self._copied]
        columns[:, len(self._cap) :] = (more.abs() - self._taken).clamp_(0, WORD).copysign_(more)
        return columns, t, error

    def _allowance(self, residual: Tensor, length: Tensor, size: Tensor, reach: Tensor, error: Tensor) -> Tensor:
        """|r_j| |h| + s |k_j| |e|, the kernel's rounding, and those of the scores and of what is added to them."""
        total = residual * reach + length * error + (self.kernel.rounding + 8 * _U) * size + _TINY
        return above(total, 8)

    def approximate(self, batch: Batch) -> Approximate:
        """Scores and allowances of all classes, in their own order."""
        x, t, error = self._words(batch)
        classes = self._classes[: self._count]
        scale = self._scale.repeat_interleave(_BLOCK)[: self._count]
        product = self.kernel(x)[:, : self._count].double() * scale * t[:, None]
        allowance = self._allowance(
            self._residual.flatten()[: self._count],
            self._length.flatten()[: self._count],
            product.abs(),
            batch.length[:, None],
            error[:, None],
        )
        scores, d = torch.empty_like(product), torch.empty_like(product)
        scores[:, classes], d[:, classes] = product, allowance
        return finished(batch, scores, d)

    def rows_at_once(self) -> int:
        """How many states a product takes, so that it stays bounded."""
        return max(1, min(_ROWS, _ENTRIES // len(self._classes)))

    def argmax(self, batch: Batch) -> Found:
        """The exact argmax where scores are products alone: block maxima first, rows only of the blocks that matter."""
        x, t, error = self._words(batch)
        count, every = len(batch), torch.arange(len(batch))
        product = self.kernel(x).view(count, -1, _BLOCK)
        unit = self._scale * (t * batch.factor)[:, None]
        peak = product.amax(dim=2).double() * unit
        reach, error = batch.reach[:, None], (above(error * batch.factor, 2) + _TINY)[:, None]
        allowance = self._allowance(self._largest_residual, self._largest_length, peak.abs(), reach, error)
        block = peak.argmax(dim=1)
        column = product[every, block].argmax(dim=1)
        lead = self._classes[block * _BLOCK + column]
        top = peak[every, block]
        own = self._allowance(
            self._residual[block, column], self._length[block, column], top.abs(), reach[:, 0], error[:, 0]
        )
        upper = peak + allowance

        def candidates(low: Tensor) -> Pairs:
            n, b = (upper >= low[:, None]).nonzero(as_tuple=True)
            scores = product[n, b].double() * unit[n, b][:, None]
            d = self._allowance(self._residual[b], self._length[b], scores.abs(), reach[n], error[n])
            i, j = (scores + d >= low[n][:, None]).nonzero(as_tuple=True)
            position = b[i] * _BLOCK + j
            # the last block may repeat its last row
            kept = position < self._count
            return Pairs(states=n[i][kept], classes=self._classes[position[kept]])

        leader = batch.exact(every, lead)
        pairs = candidates(torch.maximum(top - own, leader.value - leader.error))
        rows = torch.bincount(pairs.states, minlength=count)
        many = rows > max(_FEWEST, int(_MANY * self._count))
        if bool(many.any()):
            kept = ~many[pairs.states]
            more = float_candidates(batch, many.nonzero()[:, 0])
            pairs = Pairs(
                states=torch.cat([pairs.states[kept], more.states]),
                classes=torch.cat([pairs.classes[kept], more.classes]),
            )
        rows = torch.bincount(pairs.states, minlength=count)
        found = argmax_among(batch, narrowed(batch, pairs))
        return Found(index=found.index, exact_rows=rows, ties=found.ties)
