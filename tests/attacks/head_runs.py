"""What realizations of a head really return, in exact arithmetic or as the floats of one order of summation.

Each case is a realization with a run of it: scores as exact numbers, the hidden vectors and rows that are in use. No
run knows an allowance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from flint import arb, arb_mat, fmpz_mat
from torch import Tensor

import suffice as sf
from suffice.numerics.nearest import nearest
from suffice.realizations.rounded import LossFrom

__all__ = ["Case", "Run", "cases", "logits_in", "matrix", "to_nearest"]

Logits = list[list[arb | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Logits [N][V] before the temperature, None where masked; hidden vectors and rows of the gradient.

    `shift` is added to scores after the temperature; where the label is plain, the loss is a log-sum-exp of these minus
    the label's score without the shift.
    """

    logits: Logits
    hidden: Tensor
    rows: Tensor
    shift: list[list[arb]] | None = None
    plain_label: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A realization and a run of it, the same one with as many digits as balls have when it is asked for."""

    name: str
    realization: Any
    run: Callable[[], Run]


def matrix(x: Tensor) -> arb_mat:
    """Stored numbers, exactly."""
    rows, columns = x.shape
    return arb_mat(rows, columns, [arb(v) for v in x.double().flatten().tolist()])


def _integers(x: Tensor) -> tuple[fmpz_mat, int]:
    """Integers and the power of two that they are in units of."""
    parts = [v.as_integer_ratio() for v in x.double().flatten().tolist()]
    finest = max((d.bit_length() - 1 for _, d in parts), default=0)
    return fmpz_mat(*x.shape, [m << (finest - d.bit_length() + 1) for m, d in parts]), -finest


def logits_in(head: sf.LinearHead, hidden: Tensor, rows: Tensor) -> Logits:
    """w_j.h + c_j, exactly: a product of integers."""
    (left, e), (right, f), (bias, g) = (
        _integers(x) for x in (hidden.double(), rows.double(), torch.where(head.masked, 0.0, head.bias)[:, None])
    )
    product = (left * right.transpose()).tolist()
    unit, gone = min(e + f, g), head.masked.tolist()
    biases = [int(c[0]) << (g - unit) for c in bias.tolist()]
    return [
        [None if m else arb(((int(q) << (e + f - unit)) + c, unit)) for q, c, m in zip(row, biases, gone, strict=True)]
        for row in product
    ]


def to_nearest(x: arb, dtype: torch.dtype) -> arb | None:
    """The number of a format next to a number that is known exactly; None where it is not, or where that overflows."""
    if not x.is_exact():
        return None
    man, exp = (int(part) for part in x.man_exp())
    info = torch.finfo(dtype)
    digits, least = round(1 - math.log2(info.eps)), round(math.log2(info.tiny))
    # how many of the last bits go: |x| is below 2 to the length of the integer and its exponent
    cut = max(man.bit_length() + exp, least + 1) - digits - exp
    if cut > 0:
        kept, rest = divmod(abs(man), 1 << cut)
        half = 1 << (cut - 1)
        kept += rest > half or (rest == half and kept % 2)
        man, exp = (kept if man > 0 else -kept), exp + cut
    made = arb((man, exp))
    return made if abs(made) <= arb(info.max) else None


def _floats(z: Tensor, masked: Tensor) -> Logits:
    """Numbers that a program returned; those that overflow are nothing that anybody may have certified."""
    gone = masked.tolist()
    return [[None if m else arb(x) for x, m in zip(row, gone, strict=True)] for row in z.double().tolist()]


def _added_up(h: Tensor, w: Tensor, bias: Tensor, order: int, g: torch.Generator) -> Tensor:
    """h @ w.T + bias in float32, by torch or in one of several orders, fused or not; operands are float32 numbers."""
    h, w, c = h.float(), w.float(), bias.clamp_min(-3e38).float()
    if order == 0:
        return h @ w.T + c
    shuffled = torch.randperm(h.shape[1], generator=g)
    terms = h[:, None, shuffled] * w[None][..., shuffled]
    if order == 1:
        total = c.expand(len(h), -1).clone()
        for i in range(h.shape[1]):
            total = total + terms[..., i]
        return total
    if order == 2:
        total = torch.zeros(len(h), len(w))
        for i in shuffled.tolist():
            # one rounding for product and sum, but for a double one that is of no account
            total = (h[:, i, None].double() * w[:, i].double() + total.double()).float()
        return total + c
    parts = [terms[..., i] for i in range(h.shape[1])]
    while len(parts) > 1:
        parts = [sum(parts[i : i + 2][1:], parts[i]) for i in range(0, len(parts), 2)]
    return parts[0] + c


class _Makers:
    """The cases at some states. `seed` chooses orders of summation, errors of exponentials and of hidden vectors."""

    def __init__(self, states: sf.HeadStates, seed: int) -> None:
        self.states, self.head, self.hidden = states, states.bank, states.hidden
        self.order, self.seed = seed % 4, seed
        g = self.chance()
        self.d = 10.0 ** float(torch.rand(1, generator=g) * 6 - 6.3)
        self.off = 10.0 ** float(torch.rand(1, generator=g) * 6 - 6)

    def chance(self) -> torch.Generator:
        """The same numbers whenever it is asked."""
        return torch.Generator().manual_seed(self.seed)

    def quantized(self, scheme: str, group: int | None = None, deflate: int = 0) -> sf.Quantized:
        few = min(deflate, self.head.dim)
        return sf.Quantized(self.head, scheme, group=group, deflate=few, calibration=self.hidden if few else None)

    def of_rows(self, made: sf.Quantized, hidden: Tensor | None = None) -> Run:
        """Dequantised rows in exact arithmetic, and the parts that deflation adds."""
        h = self.hidden if hidden is None else hidden
        rows = made.rows.rows(slice(None))
        logits = logits_in(self.head, h, rows)
        deflation = made.residuals.deflation
        if deflation is not None:
            along = matrix(h) * matrix(deflation.directions)
            more = (along * matrix(deflation.parts).transpose()).tolist()
            logits = [
                [None if q is None else q + x for q, x in zip(a, b, strict=True)]
                for a, b in zip(logits, more, strict=True)
            ]
        return Run(logits=logits, hidden=h, rows=rows)

    def product(self, rows: Tensor, dtype: torch.dtype, out: torch.dtype | None = None, h: Tensor | None = None) -> Run:
        """Rows and vectors to nearest, added up in float32, and logits to nearest."""
        w, x = nearest(rows, dtype), nearest(self.hidden if h is None else h, dtype)
        z = _added_up(x, w, self.head.bias, self.order, self.chance()).double()
        z = z if out is None else nearest(z, out)
        return Run(logits=_floats(z, self.head.masked), hidden=x, rows=w)

    def rounded(self, dtype: torch.dtype) -> Run:
        """Exact logits to nearest; all of a state's as they are where one overflows, which nobody may certify."""
        found: Logits = []
        for row in logits_in(self.head, self.hidden, self.head.weight):
            made = [None if q is None else to_nearest(q, dtype) for q in row]
            if any(a is None and q is not None for a, q in zip(made, row, strict=True)):
                made = list(row)
            found.append(made)
        return Run(logits=found, hidden=self.hidden, rows=self.head.weight)

    def moved(self) -> tuple[float, Tensor]:
        """A bound on an error of h, and vectors that are nearly that far away."""
        way = torch.randn(self.hidden.shape, generator=self.chance(), dtype=torch.float64)
        if self.seed % 2:
            way = self.head.weight.double()[:1].expand_as(way) - self.head.weight.double()[-1:]
        length = torch.linalg.vector_norm(way, dim=1, keepdim=True)
        usable = torch.isfinite(length) & (length > 1e-100)
        way = torch.where(usable, way / length, 0.0)
        bound = self.off * float(self.hidden.abs().median())
        bound = bound if np.isfinite(bound) else 0.0
        moved = self.hidden + (1 - 1e-9) * bound * way
        # the sum was rounded as well
        near = 0.5e-9 * bound >= 1e-15 * self.hidden.abs().amax(dim=1, keepdim=True) * self.head.dim
        return bound, torch.where(near, moved, self.hidden)

    def exponential(self, run: Run, kind: str) -> Run:
        """e^x (1 + delta) with delta at its ends, by chance or so that the label loses most."""
        signs = 2 * torch.randint(0, 2, (len(run.logits), self.head.num_classes), generator=self.chance()) - 1
        if self.seed % 2:
            signs = torch.ones_like(signs)
            if self.states.labels is not None:
                signs.scatter_(1, self.states.labels[:, None], -1)
        ends = {1: (1 + arb(self.d)).log(), -1: (1 - arb(self.d)).log()}
        shift = [[ends[s] for s in row] for row in signs.tolist()]
        return replace(run, shift=shift, plain_label=kind == "scores")

    def exact(self) -> Run:
        """The head as stored."""
        w = self.head.weight.double()
        return Run(logits=logits_in(self.head, self.hidden, w), hidden=self.hidden, rows=w)

    def stored(self) -> Run:
        """Its scores as computed."""
        scores = sf.ExactHead().at(self.states).scores
        return Run(logits=_unscaled(self.states, scores), hidden=self.hidden, rows=self.head.weight.double())


def cases(states: sf.HeadStates, seed: int) -> Iterator[Case]:
    """Every realization, with a run of it."""
    m = _Makers(states, seed)
    head, w = states.bank, states.bank.weight.double()
    f32, bf16, f16, e4m3 = torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn
    yield Case(name="stored", realization=sf.ExactHead(), run=m.stored)
    schemes: dict[str, tuple[str, int | None, int]] = {
        "int8": ("int8", None, 0),
        "int8 by groups": ("int8", 8, 0),
        "int4 by groups": ("int4", 8, 0),
        "int4 deflated": ("int4", 4, 2),
        "fp8": ("fp8", None, 0),
        "fp8 by groups": ("fp8", 16, 0),
    }
    made = {name: m.quantized(*given) for name, given in schemes.items()}
    given = w.half().double().nan_to_num(posinf=65504.0, neginf=-65504.0)
    made["rows as given"] = sf.Quantized(head, given)
    for name, each in made.items():
        yield Case(name=name, realization=each, run=partial(m.of_rows, each))
    for dtype in (f32, bf16, f16, e4m3):
        yield Case(name=f"product in {dtype}", realization=sf.ProductIn(dtype), run=partial(m.product, w, dtype))
    for dtype in (f32, bf16, f16):
        yield Case(name=f"logits in {dtype}", realization=sf.RoundedLogits(dtype), run=partial(m.rounded, dtype))
    for kind in get_args(LossFrom):
        run = partial(lambda kind: m.exponential(m.exact(), kind), kind)
        yield Case(name=f"exponential, {kind}", realization=sf.ApproximateExp(m.d, kind), run=run)
    yield from _composed(m, made)


def _composed(m: _Makers, made: dict[str, sf.Quantized]) -> Iterator[Case]:
    f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16
    w = m.head.weight.double()
    for dtype in (bf16, f16):
        steps = sf.compose(sf.ProductIn(dtype), sf.RoundedLogits(dtype))
        yield Case(name=f"all in {dtype}", realization=steps, run=partial(m.product, w, dtype, dtype))
    int8 = (made["int8"], sf.ProductIn(f32), sf.RoundedLogits(bf16))
    run = partial(m.product, made["int8"].rows.rows(slice(None)), f32, bf16)
    yield Case(name="int8, bfloat16", realization=sf.compose(*int8), run=run)
    yield Case(
        name="int8, bfloat16, exponential",
        realization=sf.compose(*int8, sf.ApproximateExp(m.d)),
        run=lambda: m.exponential(run(), "scores"),
    )
    bound, moved = m.moved()
    deflated = made["int4 deflated"]
    yield Case(
        name="another h, int4 deflated",
        realization=sf.compose(deflated, hidden_error=bound),
        run=lambda: m.of_rows(deflated, moved),
    )
    yield Case(
        name="another h, bfloat16",
        realization=sf.compose(sf.ProductIn(bf16), sf.RoundedLogits(f32), hidden_error=bound),
        run=lambda: m.product(w, bf16, f32, moved),
    )


def _unscaled(states: sf.HeadStates, scores: Tensor) -> Logits:
    """Scores times the temperature, exactly."""
    gone = states.bank.masked.tolist()
    return [
        [None if m else arb(x) * arb(t) for x, m in zip(row, gone, strict=True)]
        for row, t in zip(scores.tolist(), states.temperature.tolist(), strict=True)
    ]
