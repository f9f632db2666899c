"""Scores in units in which nothing overflows, and exact rows in float64 with their error (docs/theory, 10.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.exact_signs import sign_of_products
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal
from suffice.objectives.linear import LinearHead
from suffice.objectives.rows import row_lengths

__all__ = ["Batch", "ScaledHead", "times_power", "unit_lengths"]

_TINY = smallest_normal(torch.float64)
# Rows within 2^-60 and 2^60 are used as they are.
_PLAIN_EXPONENT = 60
# Units are no smaller: half of the power is still a number.
_LEAST_UNIT = -2040
# Powers of two with exponents within these are normal numbers.
_ONE_STEP = 1000
# Squares that underflow are together below the square of this.
_LEAST_LENGTH = 2.0**-500
# Rows are gathered in pieces of about this many entries.
_PIECE_ENTRIES = 4_194_304


def times_power(x: Tensor, exponent: Int[Tensor, ...] | int) -> Tensor:
    """x 2^e in two steps, so that the power itself does not overflow: exact, unless the result is subnormal."""
    e = torch.as_tensor(exponent)
    half = torch.div(e, 2, rounding_mode="floor")
    return x * torch.exp2(half.double()) * torch.exp2((e - half).double())


def _exponent_above(x: float) -> int:
    """The least e with |x| < 2^e; very low for zero."""
    return math.frexp(x)[1] if x else -2200


def _each_times_power(x: Float[Tensor, "some dim"], exponents: list[int]) -> Float[Tensor, "some dim"]:
    """`times_power` with an exponent a row: in one step where all powers are numbers."""
    if max(map(abs, exponents), default=0) > _ONE_STEP:
        return times_power(x, torch.tensor(exponents)[:, None])
    return x * torch.tensor([math.ldexp(1.0, e) for e in exponents], dtype=torch.float64)[:, None]


def unit_lengths(x: Float[Tensor, "some dim"]) -> Float[Tensor, " some"]:
    """Lengths from above of vectors whose entries, each with one rounding, are of size 2^500 at most."""
    # beside that one: a square, p - 1 sums, a root and the sum here
    found: Tensor = torch.linalg.vector_norm(x, dim=1)
    return above(found, x.shape[1] + 12) + _LEAST_LENGTH


class ScaledHead:
    """A head whose rows are read in units of a power of two, 1 unless they are huge or tiny."""

    def __init__(self, head: LinearHead) -> None:
        self.head = head
        low, high = torch.aminmax(head.weight)
        peak = max(abs(low.item()), abs(high.item()))
        exponent = _exponent_above(peak)
        self.exponent = 0 if abs(exponent) <= _PLAIN_EXPONENT or peak == 0 else exponent
        self.biased = bool((head.bias != 0).any())
        # products of two numbers of 24 bits are exact in float64
        self.short_rows = head.weight.dtype != torch.float64

    def rows(self, classes: slice | Tensor) -> Float[Tensor, "some dim"]:
        """Some rows in these units."""
        rows = self.head.rows(classes)
        return rows if self.exponent == 0 else times_power(rows, -self.exponent)

    @cached_property
    def bias_exponent(self) -> int:
        """The least unit of scores with these biases."""
        finite = torch.where(self.head.masked, 0.0, self.head.bias).abs().amax()
        return max(_exponent_above(finite.item()), _LEAST_UNIT)

    @cached_property
    def lengths(self) -> Float[Tensor, " classes"]:
        """|w_j| in these units, from above."""
        return torch.cat([row_lengths(self.rows(block)) for block in self.head.blocks()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Scores of some rows in a state's units, each within `error` of the exact one."""

    value: Float[Tensor, " pairs"]
    error: Float[Tensor, " pairs"]


class Batch:
    """Some hidden vectors against a head, with noise times temperature added to the scores or not.

    A state's scores are in units of 2^e, e least such that rows times h, biases and noise are all of size p at most:
    `factor` is what the product of scaled rows and scaled h is multiplied by, 1 unless a bias or the noise is larger or
    the unit the least there is.
    """

    def __init__(
        self,
        scaled: ScaledHead,
        hidden: Float[Tensor, "queries dim"],
        noise: Float[Tensor, "queries classes"] | None = None,
        temperature: Float[Tensor, " queries"] | None = None,
    ) -> None:
        self.scaled, self.hidden, self.noise, self.temperature = scaled, hidden, noise, temperature
        own = [_exponent_above(x) for x in hidden.abs().amax(dim=1).tolist()]
        self.h = _each_times_power(hidden, [-max(e, -1074) for e in own])
        self.length = unit_lengths(self.h)
        product = [e + scaled.exponent for e in own]
        unit = [max(e, scaled.bias_exponent) for e in product]
        if noise is not None:
            assert temperature is not None
            added = (noise * temperature[:, None]).abs().amax(dim=1).tolist()
            unit = [max(e, _exponent_above(x)) for e, x in zip(unit, added, strict=True)]
        self.unit = torch.tensor(unit)
        self._shift = [e - u for e, u in zip(product, unit, strict=True)]
        # whether scores are in other units than products
        self.shifted = any(self._shift)

    def __len__(self) -> int:
        return len(self.hidden)

    @cached_property
    def factor(self) -> Float[Tensor, " queries"]:
        """From units of products to units of scores."""
        ones = torch.ones_like(self.length)
        return times_power(ones, torch.tensor(self._shift).clamp_min(-1200)) if self.shifted else ones

    @property
    def plain(self) -> bool:
        """Whether scores are products alone."""
        return self.noise is None and not self.scaled.biased

    @cached_property
    def lost(self) -> Float[Tensor, " queries"]:
        """What temperature times noise may lose where that is subnormal, in the states' units; else nothing is."""
        least = torch.full_like(self.length, 0.0 if self.noise is None else 2.0**-1074)
        return times_power(least, -self.unit)

    @cached_property
    def reach(self) -> Float[Tensor, " queries"]:
        """|h| in the units of the scores: an error of a row moves its score by this much at most."""
        return above(self.length * self.factor, 2) + _TINY if self.shifted else self.length

    @cached_property
    def short(self) -> bool:
        """Whether products of rows and hidden vectors are exact in float64."""
        return self.scaled.short_rows and bool((self.hidden == self.hidden.float().double()).all())

    def added(self, states: slice | Tensor, classes: slice | Tensor | None = None) -> Float[Tensor, ...] | None:
        """What is added to products in the states' units: [states, V], or one number a pair of state and class."""
        if self.plain:
            return None
        head = self.scaled.head
        every = classes is None
        unit = -self.unit[states]
        bias = head.bias if every else head.bias[classes]
        total = times_power(bias.expand(len(unit), -1) if every else bias, unit[:, None] if every else unit)
        if self.noise is not None:
            assert self.temperature is not None
            tau = self.temperature[states]
            noise = self.noise[states] * tau[:, None] if every else self.noise[states, classes] * tau
            total = total + times_power(noise, unit[:, None] if every else unit)
        return total

    def exact(self, states: Int[Tensor, " pairs"], classes: Int[Tensor, " pairs"]) -> Exact:
        """Exact rows in float64: off by gamma_{p+6} of what is added up, and by what underflows."""
        scaled, dim = self.scaled, self.h.shape[1]
        size = max(1, _PIECE_ENTRIES // dim)
        pieces = zip(states.split(size), classes.split(size), strict=True)
        parts = [scaled.rows(c).mul_(self.h[s]).sum(dim=1) for s, c in pieces]
        value = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.shifted:
            value = value * self.factor[states]
        terms = scaled.lengths[classes] * self.reach[states]
        added = self.added(states, classes)
        if added is not None:
            value = value + added
            # noise and bias may cancel
            terms = terms + self._added_size(states, classes)
        error = above(gamma(dim + 6, torch.float64), 16) * terms + above((dim + 8) * 2.0**_PLAIN_EXPONENT * _TINY, 16)
        if self.noise is not None:
            error = error + above(self.lost[states], 16)
        if not scaled.biased:
            return Exact(value=value, error=error)
        masked = scaled.head.masked[classes]
        return Exact(value=torch.where(masked, -torch.inf, value), error=torch.where(masked, 0.0, error))

    def added_sizes(self) -> Float[Tensor, "queries classes"]:
        """|c_j| + T |G_j| in the states' units, 0 for a masked class: what roundings of `added` are relative to."""
        head, unit = self.scaled.head, -self.unit[:, None]
        total = times_power(torch.where(head.masked, 0.0, head.bias.abs()).expand(len(self), -1), unit)
        if self.noise is not None:
            assert self.temperature is not None
            total = total + times_power((self.noise * self.temperature[:, None]).abs(), unit)
        return total

    def _added_size(self, states: Tensor, classes: Tensor) -> Tensor:
        head, unit = self.scaled.head, -self.unit[states]
        total = times_power(torch.where(head.masked, 0.0, head.bias.abs())[classes], unit)
        if self.noise is not None:
            assert self.temperature is not None
            total = total + times_power((self.noise[states, classes] * self.temperature[states]).abs(), unit)
        return total

    def compare(self, state: int, one: int, other: int) -> int:
        """The sign of the exact score of class `one` minus that of `other`, by one exact sum of all terms."""
        head = self.scaled.head
        kept = self.hidden[state].nonzero()[:, 0]
        h = self.hidden[state, kept].tolist()
        rows = head.rows(torch.tensor([one, other]))[:, kept].tolist()
        a = [*rows[0], *(-x for x in rows[1])]
        b = [*h, *h]
        short = self.short
        c = head.bias[[one, other]].tolist()
        if self.scaled.biased:
            short = short and all(x == float(torch.tensor(x).float()) for x in c if math.isfinite(x))
            a += [c[0], -c[1]]
            b += [1.0, 1.0]
        if self.noise is not None:
            assert self.temperature is not None
            tau, g = self.temperature[state].item(), self.noise[state]
            a += [tau, tau]
            b += [g[one].item(), -g[other].item()]
            short = False
        return sign_of_products(a, b, short=short)

    def alike(self, state: int, classes: Int[Tensor, " some"]) -> list[int]:
        """A number for each class; classes that have the same one have the same score, term by term.

        That is, the same bias and the same row where the hidden vector is not zero, and no noise.
        """
        if self.noise is not None:
            return list(range(len(classes)))
        head = self.scaled.head
        kept = self.hidden[state].nonzero()[:, 0]
        rows = head.weight[classes] if len(kept) == head.dim else head.weight[classes[:, None], kept]
        terms = torch.cat([rows.double(), head.bias[classes][:, None]], dim=1)
        numbers: list[int] = torch.unique(terms, dim=0, return_inverse=True)[1].tolist()
        return numbers
