"""Screening by a product of integers: rows in blocks that share a scale, one int8 word for h (docs/theory, 10.2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Int8
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
# A product of integers has so many rows, or more where its memory is there already, and about this many entries.
_ROWS, _ROWS_WRITTEN = 128, 256
_ENTRIES = 33_554_432
# States with more candidates than this share of the classes, and than so many, go through a float product instead, if
# together they have more than that share: it reads all rows once.
_MANY, _MANY_TOGETHER = 1 / 64, 1 / 8
_FEWEST = 64
# So do those that have all of a sample of so many blocks as candidates, if they are most of a batch: before the product
# of integers is taken.
_SAMPLE = 4
# Fewer blocks than this are not sampled.
_FEWEST_BLOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """h = t x + e: columns of x, t, and |h| and |e| from above.

    `error` has room for roundings of scores, relative to s |k_j| |t x|, which is s |k_j| (|h| + |e|) at most.
    """

    x: Int8[Tensor, "queries columns"]
    t: Float[Tensor, " queries"]
    error: Float[Tensor, " queries"]
    reach: Float[Tensor, " queries"]

    def in_units(self, batch: Batch) -> _Words:
        """The same in the units of the states' scores."""
        if not batch.shifted:
            return self
        error = above(self.error * batch.factor, 2) + _TINY
        return _Words(x=self.x, t=self.t * batch.factor, error=error, reach=batch.reach)

    def of(self, some: Int[Tensor, " some"]) -> _Words:
        return _Words(x=self.x[some], t=self.t[some], error=self.error[some], reach=self.reach[some])


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
        self._floor = -self._cap
        copied = torch.repeat_interleave(torch.arange(dim), more)
        copies = [torch.arange(1, int(count) + 1) for count in more[more > 0]]
        # columns, and what those before have of a channel's number
        self._columns = torch.cat([torch.arange(dim), copied])
        self._taken = torch.cat([torch.zeros(dim, dtype=torch.int64), *copies]).double() * WORD
        self._untaken = -self._taken
        kernel = integer_kernel(len(self._columns))

        peaks = torch.cat([scaled.rows(block).abs().amax(dim=1) for block in head.blocks()])
        order = peaks.argsort(descending=True)
        self._count = head.num_classes
        blocks = -(-self._count // _BLOCK)
        padded = torch.cat([order, order[-1:].expand(blocks * _BLOCK - self._count)])
        # any positive number of 24 bits would do
        scale = (peaks[padded].view(blocks, _BLOCK).amax(dim=1) / kernel.largest).float()
        self._scale = scale.clamp_min(torch.finfo(torch.float32).tiny).double()
        words = torch.empty(len(padded), len(self._columns), dtype=torch.int8)
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
        words[:, dim:] = words[:, copied]
        self.kernel: IntegerKernel = kernel(words)
        sampled = torch.arange(_SAMPLE) * blocks // _SAMPLE if blocks >= _FEWEST_BLOCKS else torch.arange(0)
        rows = (sampled[:, None] * _BLOCK + torch.arange(_BLOCK)).flatten()
        # memory of products, one taking away and putting back: what a thread has, no other one has
        self._spare: list[Tensor] = []
        self._sample: IntegerKernel = kernel(words[rows])
        self._sampled = self._scale[rows // _BLOCK]
        self._sampled_residual, self._sampled_length = residual[rows].mean().item(), length[rows].mean().item()
        self._classes = padded
        # raised by the roundings of allowances
        self._residual = above(residual, 8).view(blocks, _BLOCK)
        self._length = above(length, 8).view(blocks, _BLOCK)
        self._largest_residual = self._residual.amax(dim=1)
        self._largest_length = self._length.amax(dim=1)

    def _words(self, batch: Batch) -> _Words:
        h = batch.h
        # 24 bits; what is too small for float32 is no part of h at all, whose largest entry is between 1/2 and 1
        t = (h.abs() / self._cap).amax(dim=1).float().clamp_min(torch.finfo(torch.float32).tiny)
        x = (h / t[:, None]).round_().clamp_(self._floor, self._cap)
        error: Tensor = torch.linalg.vector_norm(torch.addcmul(h, x, t[:, None], value=-1), dim=1)
        x = x[:, self._columns]
        columns = (x - x.clamp(self._untaken, self._taken)).clamp_(-WORD, WORD)
        # an approximate score is at most 1 + 2^-20 times as large as s |k_j| |t x|; squares that underflow lose less
        # than a rounding of |h|, which is 1/2 at least (or h and e are zero)
        rounding = (1 + 2.0**-20) * (self.kernel.rounding + 8 * _U)
        error = torch.add(error * above(1 + rounding, h.shape[1] + 16), batch.length, alpha=2 * rounding)
        return _Words(x=columns.to(torch.int8), t=t, error=error, reach=batch.length)

    def _allowance(self, residual: Tensor, length: Tensor, reach: Tensor, error: Tensor) -> Tensor:
        """|r_j| |h| + s |k_j| |e|, the kernel's rounding, and those of the scores and of what is added to them."""
        # numbers of rows have been raised by more roundings than there are here; either product may underflow
        return (residual * reach).addcmul_(length, error).add_(4 * _TINY)

    def approximate(self, batch: Batch) -> Approximate:
        """Scores and allowances of all classes, in their own order."""
        words = self._words(batch)
        classes = self._classes[: self._count]
        scale = self._scale.repeat_interleave(_BLOCK)[: self._count]
        product = self.kernel(words.x)[:, : self._count] * scale * words.t[:, None]
        allowance = self._allowance(
            self._residual.flatten()[: self._count],
            self._length.flatten()[: self._count],
            words.reach[:, None],
            words.error[:, None],
        )
        scores, d = torch.empty_like(product), torch.empty_like(product)
        scores[:, classes], d[:, classes] = product, allowance
        return finished(batch, scores, d)

    def rows_at_once(self) -> int:
        """How many states a product takes, so that it stays bounded."""
        return max(1, min(_ROWS_WRITTEN if self.kernel.writes else _ROWS, _ENTRIES // len(self._classes)))

    def argmax(self, batch: Batch) -> Found:
        """The exact argmax where scores are products alone: block maxima first, rows only of the blocks that matter."""
        words = self._words(batch).in_units(batch)
        every = torch.arange(len(batch))
        flat = self._flat(words)
        if flat is None:
            pairs = self._candidates(batch, every, words)
        else:
            rest = every[~flat]
            pairs = float_candidates(batch, every[flat])
            if len(rest):
                pairs = _joined(pairs, self._candidates(batch, rest, words.of(rest)))
        if torch.equal(pairs.states, every):
            # the leader alone is left of each
            none = torch.zeros(len(batch), dtype=torch.bool)
            return Found(index=pairs.classes, exact_rows=torch.ones_like(every), ties=none)
        fewer = narrowed(batch, pairs)
        found = argmax_among(batch, fewer)
        if fewer is pairs:
            return found
        rows = torch.bincount(pairs.states, minlength=len(batch))
        return Found(index=found.index, exact_rows=rows, ties=found.ties)

    def _flat(self, words: _Words) -> Bool[Tensor, " queries"] | None:
        """States for which a product of integers would be in vain, by a sample; none unless most of them are.

        It matters for speed only.
        """
        if not len(self._sampled):
            return None
        low, high = torch.aminmax(self._sample(words.x) * self._sampled, dim=1)
        d = torch.add(words.reach * self._sampled_residual, words.error, alpha=self._sampled_length)
        flat = (high - low) * words.t <= 2 * d
        return flat if 2 * int(flat.sum()) > len(flat) else None

    @contextmanager
    def _product(self, x: Int8[Tensor, "some columns"]) -> Iterator[Tensor]:
        """The product of integers by blocks, which is overwritten after it has been used."""
        if not self.kernel.writes:
            yield self.kernel(x).view(len(x), -1, _BLOCK)
            return
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = torch.empty(0, dtype=torch.int32)
        if len(memory) < len(x):
            memory = torch.empty(len(x), len(self._classes), dtype=torch.int32)
        yield self.kernel(x, memory).view(len(x), -1, _BLOCK)
        if not self._spare:
            self._spare.append(memory)

    def _candidates(self, batch: Batch, states: Int[Tensor, " some"], words: _Words) -> Pairs:
        """Classes that words, or a float product where these leave many, leave of some states."""
        with self._product(words.x) as product:
            pairs = self._left(batch, states, words, product)
        return pairs if len(pairs.states) <= _MANY_TOGETHER * self._count else self._fewer(batch, pairs)

    def _left(self, batch: Batch, states: Int[Tensor, " some"], words: _Words, product: Tensor) -> Pairs:
        unit = self._scale * words.t[:, None]
        peak = product.amax(dim=2) * unit
        reach, error = words.reach[:, None], words.error[:, None]
        block = peak.argmax(dim=1)
        column = product[torch.arange(len(states)), block].argmax(dim=1)
        lead = self._classes[block * _BLOCK + column]
        leader = batch.exact(states, lead)
        low = leader.value - leader.error
        allowance = self._allowance(self._largest_residual, self._largest_length, reach, error)
        n, b = (peak + allowance >= low[:, None]).nonzero(as_tuple=True)
        scores = product[n, b] * unit[n, b][:, None]
        d = self._allowance(self._residual[b], self._length[b], reach[n], error[n])
        i, j = (scores + d >= low[n][:, None]).nonzero(as_tuple=True)
        position, n = b[i] * _BLOCK + j, n[i]
        if self._count % _BLOCK:
            # the last block repeats its last row
            kept = position < self._count
            position, n = position[kept], n[kept]
        return Pairs(states=states[n], classes=self._classes[position])

    def _fewer(self, batch: Batch, pairs: Pairs) -> Pairs:
        """The same, by a float product where it is worth that."""
        rows = torch.bincount(pairs.states, minlength=len(batch))
        many = rows > max(_FEWEST, _MANY * self._count)
        if int(rows[many].sum()) <= _MANY_TOGETHER * self._count:
            return pairs
        kept = ~many[pairs.states]
        few = Pairs(states=pairs.states[kept], classes=pairs.classes[kept])
        return _joined(few, float_candidates(batch, many.nonzero()[:, 0]))


def _joined(one: Pairs, other: Pairs) -> Pairs:
    return Pairs(
        states=torch.cat([one.states, other.states]),
        classes=torch.cat([one.classes, other.classes]),
    )
