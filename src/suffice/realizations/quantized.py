"""Quantised heads: as a realization with proven allowances, and as a screen for the exact head's results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.numerics.checks import Real, finite
from suffice.numerics.outward import above
from suffice.objectives.linear import HeadStates, LinearHead, hidden_vectors
from suffice.objectives.rows import ClassRows
from suffice.realizations.linear import RealizedHead
from suffice.realizations.quantized_rows import StoredRows, quantize
from suffice.realizations.residuals import Residuals, principal_directions, residuals
from suffice.realizations.screening.dense import DenseScreen
from suffice.realizations.screening.integers import IntegerScreen
from suffice.realizations.screening.losses import loss_within
from suffice.realizations.screening.search import Found, argmax_of, top_of, top_of_biases
from suffice.realizations.screening.units import Batch, ScaledHead
from suffice.realizations.stages import Stage, finished, logits_of, rows_stage
from suffice.realizations.streamed import LEAST_CLASSES, STREAMED_ENTRIES
from suffice.realizations.streamed_head import QuantizedTiles, StreamedHead
from suffice.states import positive_each
from suffice.words import Scope

__all__ = ["Quantized", "Screened", "ScreenedLoss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Classes that are proved to be the exact head's, and what that took.

    `index` is [N], or [N, k] in the order of the scores; `exact_rows` says how many exact rows each state needed,
    `ties` where a true tie was met, which goes to the lowest index. `certified` is true everywhere: what cannot be
    proved is not returned.
    """

    index: Int[Tensor, "queries ..."]
    exact_rows: Int[Tensor, " queries"]
    ties: Bool[Tensor, " queries"]
    certified: Bool[Tensor, " queries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedLoss:
    """Losses of which the exact head's is at most `bound` away; `certified` is true everywhere."""

    value: Float[Tensor, " queries"]
    bound: Float[Tensor, " queries"]
    exact_rows: Int[Tensor, " queries"]
    certified: Bool[Tensor, " queries"]


class Quantized:
    """A head in int8, int4 or fp8 (e4m3), beside the exact one that it stands for (docs/theory, 10).

    As a realization, for `certify`, `tolerance` and `audit`: scores and gradients use the quantised rows, with
    allowances by what these leave of the exact rows; the product itself is in exact arithmetic. As a screen, `argmax`,
    `topk`, `sample` and `loss` return what the exact head says, proved, from approximate scores and a few exact rows.

    scheme: "int8", "int4" or "fp8", to nearest, with one scale a row, or one for every `group` columns; or the exact
    numbers [V, p] of rows that are quantised already (`dequantized` reads those of torchao and GGUF).
    block: residuals are kept by norms of so many columns as well; the group, unless it is given.
    deflate: so many principal directions of the `calibration` vectors, along which residuals are kept as numbers. What
    these are, no bound depends on.

    int8 with one scale a row is screened by a product of integers, where scores are what it says they are whatever the
    machine; others by a float64 product.

    >>> head = LinearHead(torch.eye(4) + 0.1)
    >>> found = Quantized(head, "int8").argmax(torch.tensor([[0.5, 2.0, 1.0, 1.9]]))
    >>> found.index.tolist(), found.certified.tolist()
    ([1], [True])
    """

    def __init__(
        self,
        head: LinearHead,
        scheme: str | Tensor,
        *,
        group: int | None = None,
        block: int | None = None,
        deflate: int = 0,
        calibration: Real | None = None,
    ) -> None:
        if not isinstance(head, LinearHead):
            raise TypeError(f"Expected the head to be a LinearHead, but got {type(head).__name__}")
        self.head = head
        self.group = group
        self.block = group if block is None else block
        self.deflate = deflate
        self.calibration = None if calibration is None else _hidden(head, calibration, "calibration")
        if not _is_count(deflate) or not 0 <= deflate <= head.dim:
            raise ValueError(f"Expected deflate between 0 and {head.dim}, the dimension, but got {deflate!r}")
        if block is not None and not (_is_count(block) and block >= 1):
            raise ValueError(f"Expected block to be a positive integer or None, but got {block!r}")
        if deflate and self.calibration is None:
            raise ValueError("Expected calibration vectors, whose principal directions deflate, but got none")
        self.rows: ClassRows
        if isinstance(scheme, str):
            self.scheme = scheme
            self.rows = quantize(head, scheme, group)
        else:
            if not isinstance(scheme, Tensor) or not scheme.is_floating_point():
                found = scheme.dtype if isinstance(scheme, Tensor) else type(scheme).__name__
                raise TypeError(f"Expected a scheme by name, or quantised rows as a tensor of floats, but got {found}")
            finite("quantised rows", scheme)
            if scheme.shape != head.weight.shape:
                shape = tuple(head.weight.shape)
                raise ValueError(f"Expected quantised rows {shape}, as the head's, but got {tuple(scheme.shape)}")
            self.scheme = "given"
            self.rows = StoredRows(scheme)

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """What it is."""
        by = f" by groups of {self.group}" if self.group else " by rows" if self.scheme != "given" else " rows"
        return f"{self.scheme}{by}" + (f", {self.deflate} directions deflated" if self.deflate else "")

    def record(self) -> dict[str, Any]:
        """The scheme, and the head it was made for."""
        return {
            "name": "quantized-head",
            "scheme": self.scheme,
            "group": self.group,
            "block": self.block,
            "deflate": self.deflate,
            "rows": _digest(self.rows),
        }

    @cached_property
    def residuals(self) -> Residuals:
        """What the quantised rows leave of the exact ones."""
        directions = None
        if self.deflate:
            assert self.calibration is not None
            directions = principal_directions(self.calibration, self.deflate)
        return residuals(self.head, self.rows, block=self.block, directions=directions)

    def at(self, states: Any) -> RealizedHead:
        """The quantised head's scores and rows; the deflated residuals' parts are added to the scores."""
        if not isinstance(states, HeadStates):
            raise TypeError(f"Expected HeadStates, which a head realizes, but got {type(states).__name__}")
        if not self._streams(states):
            return self._whole(states)
        self._check(states)
        return StreamedHead(states, self._tiles, self._whole)

    def chunks(self, states: Any) -> Iterator[Any]:
        """Runs of states that are taken at once: long ones where classes stream."""
        runs: Iterator[Any] = states.runs(STREAMED_ENTRIES) if self._streams(states) else states.chunks()
        return runs

    def _streams(self, states: Any) -> bool:
        """In the hidden vector's coordinate, and where there are enough classes."""
        if not isinstance(states, HeadStates):
            return False
        return states.coordinate == "hidden" and states.num_classes >= LEAST_CLASSES

    def _whole(self, states: HeadStates) -> RealizedHead:
        return finished(self.follow(rows_stage(states)))

    @cached_property
    def _tiles(self) -> QuantizedTiles:
        return QuantizedTiles(self.head, self.rows, self.residuals)

    def _check(self, states: HeadStates) -> None:
        if states.bank is not self.head and not _same_head(states.bank, self.head):
            raise ValueError("Expected states of the head that was quantised, but these have another")

    def follow(self, stage: Stage) -> Stage:
        """The quantised rows in place of the exact ones: the first of several realizations."""
        states = stage.states
        self._check(states)
        if stage.product or stage.rows is not states.bank:
            raise ValueError(f"Expected quantised rows before {stage.product or 'other rows'}, but got them after")
        z, error = logits_of(states, self.rows)
        moved = self.residuals.moved(states.hidden)
        if moved.correction is not None:
            z = z + moved.correction
            size = torch.where(self.head.masked, 0.0, z.abs()) + moved.correction.abs()
            assert moved.rounding is not None
            error = above(error + moved.rounding + torch.finfo(torch.float64).eps * size, 4)
        reach, more = self.rows.lengths, self.residuals.correction_reach
        reach = reach if more is None else reach + more
        unknown = above(error + stage.hidden_error[:, None] * reach, 4)
        return replace(
            stage,
            rows=self.rows,
            z=z,
            moved=above(moved.d + error, 4),
            unknown=unknown,
            row_error=self.residuals.whole,
            correction=moved.correction,
            correction_reach=more,
        )

    @cached_property
    def _scaled(self) -> ScaledHead:
        return ScaledHead(self.head)

    @cached_property
    def _integers(self) -> IntegerScreen | None:
        """For int8 with one scale a row."""
        if self.scheme != "int8" or self.group is not None or self.deflate:
            return None
        calibration = None if self.calibration is None else Batch(self._scaled, self.calibration).h
        return IntegerScreen(self._scaled, calibration)

    @cached_property
    def _screen(self) -> IntegerScreen | DenseScreen:
        return self._integers or DenseScreen(self._scaled, self.rows, self.residuals)

    def argmax(self, hidden: Real) -> Screened:
        """The exact head's prediction for every hidden vector, the lowest index where scores tie."""
        fast = None if self._scaled.biased else self._integers

        def search(batch: Batch) -> Found:
            return argmax_of(batch, self._screen.approximate(batch)) if fast is None else fast.argmax(batch)

        return self._searched(hidden, search)

    def topk(self, hidden: Real, k: int) -> Screened:
        """The exact head's k largest scores, in their order."""
        free = int((~self.head.masked).sum())
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= free:
            raise ValueError(f"Expected k between 1 and {free}, the classes that are not masked, but got {k!r}")
        return self._searched(hidden, lambda batch: top_of(batch, self._screen.approximate(batch), k), k)

    def _searched(self, hidden: Real, search: Callable[[Batch], Found], k: int | None = None) -> Screened:
        """A search over all states; where the hidden vector is zero the scores are the biases."""
        h = _hidden(self.head, hidden)
        some = h.any(dim=1)
        whole = bool(some.all())
        kept = h if whole else h[some]
        parts = [search(Batch(self._scaled, part)) for part in kept.split(self._screen.rows_at_once()) if len(part)]
        if whole:
            return _gathered(parts)
        top, tie = top_of_biases(self.head.bias, k or 1)
        index = top.expand(len(h), -1).clone() if k else top.expand(len(h)).clone()
        ties, exact_rows = torch.full((len(h),), tie), torch.zeros(len(h), dtype=torch.int64)
        if parts:
            found = _gathered(parts)
            index[some], ties[some], exact_rows[some] = found.index, found.ties, found.exact_rows
        return _gathered([Found(index=index, exact_rows=exact_rows, ties=ties)])

    def sample(self, hidden: Real, noise: Real, temperature: Real = 1.0) -> Screened:
        """The token that the exact head draws with this Gumbel noise [N, V]: the argmax of w_j.h + c_j + T G_j."""
        h = _hidden(self.head, hidden)
        g = noise if isinstance(noise, Tensor) else torch.as_tensor(noise)
        if not g.is_floating_point() or g.shape != (len(h), self.head.num_classes):
            shape = (len(h), self.head.num_classes)
            raise ValueError(f"Expected noise as floats {shape}, but got {g.dtype} {tuple(g.shape)}")
        g = g.double()
        finite("noise", g)
        tau = positive_each("temperature", temperature, hidden=h)
        finite("temperature times noise", g * tau[:, None])
        found: list[Found] = []
        for part in torch.arange(len(h)).split(self._screen.rows_at_once()):
            batch = Batch(self._scaled, h[part], g[part], tau[part])
            found.append(argmax_of(batch, self._screen.approximate(batch)))
        return _gathered(found)

    def loss(self, hidden: Real, labels: object, *, budget: Real, temperature: Real = 1.0) -> ScreenedLoss:
        """The exact head's cross-entropy to a budget in nats (one, or one a state), with as few exact rows as it takes.

        A budget below what float64 can tell raises.
        """
        h = _hidden(self.head, hidden)
        if labels is None:
            raise ValueError("Expected one label for each hidden vector, but got None")
        states = HeadStates(self.head, h, labels, temperature)
        limit = positive_each("budget", budget, hidden=h)
        parts = []
        for part in torch.arange(len(h)).split(self._screen.rows_at_once()):
            batch = Batch(self._scaled, h[part])
            parts.append(loss_within(batch, self._screen.approximate(batch), states[part], limit[part]))
        value = torch.cat([x.value for x in parts])
        bound = torch.cat([x.bound for x in parts])
        certified = bound <= limit
        if not bool(certified.all()):
            row = int((~certified).nonzero()[0])
            raise ValueError(
                f"Expected a budget that float64 can decide, but got {limit[row].item():g} at row {row}, "
                f"where all rows together leave {bound[row].item():g}"
            )
        rows = torch.cat([x.exact_rows for x in parts])
        return ScreenedLoss(value=value, bound=bound, exact_rows=rows, certified=certified)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _hidden(head: LinearHead, value: Real, name: str = "hidden") -> Float[Tensor, "queries dim"]:
    """Hidden vectors in float64, at least one."""
    h = hidden_vectors(head, value)
    if not len(h):
        raise ValueError(f"Expected at least one vector in {name}, but got none")
    return h


def _gathered(parts: list[Found]) -> Screened:
    found = parts[0]
    if len(parts) > 1:
        found = Found(
            index=torch.cat([x.index for x in parts]),
            exact_rows=torch.cat([x.exact_rows for x in parts]),
            ties=torch.cat([x.ties for x in parts]),
        )
    certified = torch.ones(len(found.index), dtype=torch.bool)
    return Screened(index=found.index, exact_rows=found.exact_rows, ties=found.ties, certified=certified)


def _same_head(one: LinearHead, other: LinearHead) -> bool:
    return (
        one.weight.shape == other.weight.shape
        and one.weight.dtype == other.weight.dtype
        and bool((one.weight == other.weight).all() & (one.bias == other.bias).all())
    )


def _digest(rows: ClassRows) -> str:
    """sha256 of the rows' exact numbers."""
    made = hashlib.sha256()
    for block in rows.blocks():
        made.update(rows.rows(block).numpy(force=True).tobytes())
    return made.hexdigest()
