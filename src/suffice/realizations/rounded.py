"""Products and logits in few digits, and an approximate exponential: realizations of a head (docs/theory, 10.7)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.formats import name_of, smallest_normal, unit_roundoff
from suffice.numerics.nearest import FEW_DIGITS, largest, nearest
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma
from suffice.objectives.linear import HeadStates
from suffice.objectives.rows import ClassRows, row_lengths
from suffice.realizations.linear import RealizedHead
from suffice.realizations.stages import Stage, exact_stage, finished, logits_of, with_unknown
from suffice.words import Scope

__all__ = ["ApproximateExp", "LossFrom", "ProductIn", "RoundedLogits", "RoundedRows"]

# What a loss is formed from: the approximate probabilities alone, or a log-sum-exp minus the label's exact score.
LossFrom = Literal["probabilities", "scores"]
_ACCUMULATORS = (torch.float32, torch.float64)


class RoundedRows(ClassRows):
    """Rows to nearest in a dtype; infinite where that overflows."""

    def __init__(self, rows: ClassRows, dtype: torch.dtype) -> None:
        self._rows, self._dtype = rows, dtype
        self._errors: tuple[ClassRows, Float[Tensor, " classes"]] | None = None

    @property
    def num_classes(self) -> int:
        return self._rows.num_classes

    @property
    def dim(self) -> int:
        return self._rows.dim

    def rows(self, classes: slice | Tensor) -> Float[Tensor, "some dim"]:
        return nearest(self._rows.rows(classes), self._dtype)

    def errors(self, exact: ClassRows) -> Float[Tensor, " classes"]:
        """How far these are from the exact rows, from above; formed once while they are asked of the same ones."""
        if self._errors is None or self._errors[0] is not exact:
            parts = [row_lengths(exact.rows(block) - self.rows(block)) for block in exact.blocks()]
            self._errors = exact, torch.cat(parts)
        return self._errors[1]


def _rounded(rows: ClassRows, dtype: torch.dtype) -> RoundedRows:
    """Rows in a dtype, kept with them: their lengths serve all chunks of states."""
    kept: dict[torch.dtype, RoundedRows] = vars(rows).setdefault("_rounded", {})
    return kept.setdefault(dtype, RoundedRows(rows, dtype))


@dataclass(frozen=True, slots=True)
class ProductIn:
    """The head's product with inputs in one dtype, added up in another, in *any* order: bits may differ between runs.

    Rows and hidden vectors are rounded to nearest in `dtype` (nothing happens to numbers that have its digits already),
    their products are added up in `accumulate`, float32 or float64, fused or not, in any order and blocking; the bias
    is added there too. Gradients use the rounded rows. What overflows is not certified. What deflated rows add to the
    logits is no part of this product: it stays as it is, in exact arithmetic.

    >>> ProductIn(torch.bfloat16).words
    'a product of bfloat16 inputs, added up in float32 in any order'
    """

    dtype: torch.dtype
    accumulate: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        _one_of("dtype", self.dtype, FEW_DIGITS)
        _one_of("accumulate", self.accumulate, _ACCUMULATORS)
        if unit_roundoff(self.accumulate) > unit_roundoff(self.dtype):
            raise ValueError(
                f"Expected accumulate with at least the digits of {name_of(self.dtype)}, "
                f"but got {name_of(self.accumulate)}"
            )

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """What it is."""
        return f"a product of {name_of(self.dtype)} inputs, added up in {name_of(self.accumulate)} in any order"

    def record(self) -> dict[str, Any]:
        """Both dtypes."""
        return {"name": "product", "dtype": name_of(self.dtype), "accumulate": name_of(self.accumulate)}

    def at(self, states: Any) -> RealizedHead:
        """This product at some states."""
        return finished(self.follow(exact_stage(_head_states(states))))

    def follow(self, stage: Stage) -> Stage:
        """The product of the rows so far. Their rounding and that of h are known numbers, those of the sum are not."""
        if stage.product:
            raise ValueError(
                f"Expected one product, before anything that rounds logits, but got it after {stage.product}"
            )
        states, head = stage.states, stage.states.bank
        rows = _rounded(stage.rows, self.dtype)
        h = nearest(states.hidden, self.dtype)
        fits = torch.isfinite(h).all(dim=1)
        hidden = torch.where(fits[:, None], h, 0.0)
        z, error = logits_of(replace_hidden(states, hidden), rows)
        if stage.correction is not None:
            z = z + stage.correction
            # the correction's own rounding is in what was unknown before
            error = above(
                error + stage.unknown + 2 * torch.finfo(torch.float64).eps * (z.abs() + stage.correction.abs()), 4
            )
        # a hidden vector that is not known is rounded as well
        u, eta = unit_roundoff(self.accumulate), smallest_normal(self.accumulate)
        length = row_lengths(hidden)
        off = stage.hidden_error
        more = 2 * unit_roundoff(self.dtype) * (length + off) + head.dim * smallest_normal(self.dtype)
        off = torch.where(off > 0, above(off + more, 4), 0.0)
        size = above(rows.lengths * (length + off)[:, None], 4) + torch.where(head.masked, 0.0, head.bias.abs())
        sums = gamma(head.dim + 2, self.accumulate) * size + (2 * head.dim + 2) * eta
        fits = fits[:, None] & (size * (1 + 4 * head.dim * u) <= largest(self.accumulate))
        reach = rows.lengths if stage.correction_reach is None else rows.lengths + stage.correction_reach
        unknown = above(error + off[:, None] * reach + sums, 8)
        known = (z - stage.z).abs().masked_fill(head.masked, 0.0)
        return replace(
            stage,
            rows=rows,
            z=z,
            moved=above(stage.moved + known, 4),
            unknown=torch.where(fits | head.masked, unknown, torch.inf),
            row_error=rows.errors(head),
            hidden_error=above(off + row_lengths(states.hidden - hidden), 4),
            product=self.words,
        )


@dataclass(frozen=True, slots=True)
class RoundedLogits:
    """Logits, before the temperature, to nearest in a dtype: range and subnormal numbers included.

    What overflows is not certified; what is subnormal may be kept or flushed to zero.

    >>> RoundedLogits(torch.bfloat16).words
    'logits in bfloat16'
    """

    dtype: torch.dtype

    def __post_init__(self) -> None:
        _one_of("dtype", self.dtype, FEW_DIGITS)

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """What it is."""
        return f"logits in {name_of(self.dtype)}"

    def record(self) -> dict[str, Any]:
        """The dtype."""
        return {"name": "rounded-logits", "dtype": name_of(self.dtype)}

    def at(self, states: Any) -> RealizedHead:
        """The exact head's logits, rounded."""
        return finished(self.follow(exact_stage(_head_states(states))))

    def follow(self, stage: Stage) -> Stage:
        """Rounding is monotone: what is in use is between the ends' roundings."""
        masked = stage.states.bank.masked
        z = torch.where(masked, 0.0, stage.z)
        # the ends, past the rounding of their own sums
        wide = above(stage.unknown + 2 * torch.finfo(torch.float64).eps * z.abs(), 4)
        made, low, high = (nearest(x, self.dtype) for x in (z, z - wide, z + wide))
        unknown = torch.maximum(high - made, made - low)
        flushed = (z.abs() - wide) < smallest_normal(self.dtype)
        unknown = torch.where(flushed, unknown + smallest_normal(self.dtype), unknown)
        fits = torch.isfinite(low) & torch.isfinite(high)
        unknown = torch.where(fits, above(unknown, 4), torch.inf).masked_fill(masked, 0.0)
        return replace(
            stage,
            z=torch.where(fits, made, 0.0).masked_fill(masked, -torch.inf),
            moved=above(stage.moved + (torch.where(fits, made, 0.0) - z).abs(), 4).masked_fill(masked, 0.0),
            unknown=unknown,
            product=stage.product or self.words,
        )


@dataclass(frozen=True, slots=True)
class ApproximateExp:
    """A softmax whose exponential has a relative error of D at most, E(x) = e^x (1 + delta), |delta| <= D < 1.

    An error of -log(1 - D) of every score, for probabilities and a loss that is formed from them; a loss that is a
    log-sum-exp minus the label's exact score is off by as much once more, however small the rest (the default). Terms
    that are flushed to zero have no such D.

    >>> ApproximateExp(1e-3).words
    'an exponential within 0.001 of itself'
    """

    relative_error: float
    loss: LossFrom = "scores"

    def __post_init__(self) -> None:
        d = self.relative_error
        if isinstance(d, bool) or not isinstance(d, int | float) or not 0 <= d < 1:
            raise ValueError(f"Expected relative_error at least 0 and below 1, but got {d!r}")
        if self.loss not in get_args(LossFrom):
            raise ValueError(f"Expected loss in {list(get_args(LossFrom))}, but got {self.loss!r}")

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """What it is."""
        return f"an exponential within {self.relative_error:g} of itself"

    def record(self) -> dict[str, Any]:
        """D, and what the loss is formed from."""
        return {"name": "approximate-exp", "relative_error": float(self.relative_error), "loss": self.loss}

    @property
    def score_error(self) -> float:
        """-log(1 - D), from above."""
        return float(above(-math.log1p(-float(self.relative_error)), 8))

    def at(self, states: Any) -> RealizedHead:
        """The exact head with such a softmax."""
        return finished(self.follow(exact_stage(_head_states(states))))

    def follow(self, stage: Stage) -> Stage:
        """The same error of every score, after the temperature."""
        error = self.score_error
        more = above(error * stage.states.temperature, 2)[:, None].expand_as(stage.z)
        after = with_unknown(stage, more.masked_fill(stage.states.bank.masked, 0.0))
        if self.loss == "probabilities" or error == 0:
            return after
        return replace(after, loss_error=above(stage.loss_error + error, 2))


def replace_hidden(states: HeadStates, hidden: Float[Tensor, "queries dim"]) -> HeadStates:
    """The same head at other hidden vectors, without labels."""
    return HeadStates(states.bank, hidden)


def _head_states(states: Any) -> HeadStates:
    if not isinstance(states, HeadStates):
        raise TypeError(f"Expected HeadStates, which a head realizes, but got {type(states).__name__}")
    return states


def _one_of(name: str, dtype: torch.dtype, known: tuple[torch.dtype, ...]) -> None:
    if dtype not in known:
        raise ValueError(f"Expected {name} in {[name_of(each) for each in known]}, but got {dtype}")
