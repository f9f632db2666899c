"""The formats that a linear head may run in, made anew: what each would return, and what its verdict must then be.

A format's logits are known but for the order of a float32 sum: any numbers within w of them are possible. A verdict is
about all of these, so that every single one can refute it. Here are the logits themselves, and, where it is clear which
are worst (loss and prediction), the ends of a range a little narrower than w. docs/theory, 10.7, has what is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from suffice.verify.columns import Judged, Said
from suffice.verify.plan import Plan
from suffice.verify.stored import Array, HeadBank

__all__ = ["format_columns", "quantised", "rounded"]

# digits with the leading one, exponent of the least normal number, largest number
_FLOATS = {
    "float32": (24, -126, float(np.finfo(np.float32).max)),
    "bfloat16": (8, -126, float(np.finfo(np.float32).max) * (1 - 2.0**-8) / (1 - 2.0**-24)),
    "float16": (11, -14, 65504.0),
    "e4m3": (4, -6, 448.0),
}
# what becomes of rows, of rows and hidden vector before the product, and of logits
_STEPS = {
    "int4": ((7.0, 32, False), "float32", None),
    "fp8": ((448.0, None, True), "float32", None),
    "int8": ((127.0, None, False), "float32", None),
    "bfloat16": (None, "bfloat16", "bfloat16"),
    "float16": (None, "float16", "float16"),
    "float32": (None, "float32", None),
}
_U32, _TINY32 = 2.0**-24, 2.0**-126
# of the range of a sum: every logit in so much of it is possible
_NARROWER = 0.98
# what float64 may be off here, relatively to a budget and to the size of what is compared
_CLOSE = 1e-6
_ROWS_AT_ONCE = 4096


def rounded(x: Array, name: str) -> Array:
    """To nearest in a format, ties to even, in one step; infinite past its largest number."""
    digits, least, largest = _FLOATS[name]
    exponent = np.frexp(x)[1] - digits
    quantum = np.maximum(exponent, least - digits + 1)
    made = np.ldexp(np.rint(np.ldexp(x, -quantum)), quantum)
    found: Array = np.where(np.abs(made) <= largest, made, np.copysign(np.inf, x))
    return found


def quantised(rows: Array, largest: float, group: int | None, is_float: bool) -> Array:
    """Rows as words times scales of 24 bits: one scale a row, or one for every group of its columns."""
    count, dim = rows.shape
    size = min(group or dim, dim)
    groups = -(-dim // size)
    padded = np.zeros((count, groups * size))
    padded[:, :dim] = rows
    parts = padded.reshape(count, groups, size)
    mantissa, exponent = np.frexp(np.abs(parts).max(axis=2) / largest)
    scale = np.ldexp(mantissa.astype(np.float32).astype(np.float64), exponent)
    scale = np.where(scale >= 2.0**-1022, scale, 1.0)[:, :, None]
    words = np.clip(parts / scale, -largest, largest)
    # a float of eight bits is reached by way of float32
    words = rounded(words.astype(np.float32).astype(np.float64), "e4m3") if is_float else np.rint(words)
    found: Array = (words * scale).reshape(count, -1)[:, :dim]
    return found


@lru_cache(maxsize=len(_STEPS))
def _rows(bank: _Same, name: str) -> tuple[Array, Array]:
    """Rows as the product has them, which float32 holds exactly, and their lengths."""
    scheme, dtype, _ = _STEPS[name]
    weight = bank.bank.weight
    made = np.empty(weight.shape, dtype=np.float32)
    lengths = np.empty(len(weight))
    for start in range(0, len(weight), _ROWS_AT_ONCE):
        part = weight[start : start + _ROWS_AT_ONCE]
        part = rounded(part if scheme is None else quantised(part, *scheme), dtype)
        made[start : start + _ROWS_AT_ONCE] = part
        lengths[start : start + _ROWS_AT_ONCE] = np.sqrt((part * part).sum(axis=1))
    return made, lengths


class _Same:
    """A bank by its digest."""

    def __init__(self, bank: HeadBank) -> None:
        self.bank = bank

    def __hash__(self) -> int:
        return hash(self.bank.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.bank.digest == self.bank.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """Scores (-inf where masked), their softmax and the gradient's vectors."""

    scores: Array
    pi: Array
    log_pi: Array
    rows: Array


def _side(scores: Array, rows: Array) -> _Side:
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_pi = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return _Side(scores=scores, pi=np.exp(log_pi), log_pi=log_pi, rows=rows)


def _product(hidden: Array, rows: Array) -> Array:
    parts = range(0, len(rows), _ROWS_AT_ONCE)
    return np.concatenate([hidden @ rows[i : i + _ROWS_AT_ONCE].astype(np.float64).T for i in parts], axis=1)


def format_columns(bank: HeadBank, hidden: Array, labels: Array, tau: Array, plan: Plan, said: Said) -> list[Judged]:
    """Every format's verdict, refuted or not; nothing is left open, for no arithmetic knows the order of a sum."""
    with np.errstate(all="ignore"):
        exact = _side((_product(hidden, bank.weight) + bank.bias) / tau[:, None], bank.weight)
        return [_judged(name, bank, hidden, labels, tau, plan, said[f"verdict {name}"], exact) for name in _STEPS]


def _judged(
    name: str, bank: HeadBank, hidden: Array, labels: Array, tau: Array, plan: Plan, verdict: Array, exact: _Side
) -> Judged:
    _, dtype, output = _STEPS[name]
    rows, lengths = _rows(_Same(bank), name)
    h = rounded(hidden, dtype)
    size = np.sqrt((h * h).sum(axis=1))[:, None] * lengths + np.where(np.isfinite(bank.bias), np.abs(bank.bias), 0.0)
    x = (bank.dim + 2) * _U32
    w = x / (1 - x) * size + (2 * bank.dim + 2) * _TINY32
    z = _product(h, rows) + bank.bias

    def made(logits: Array) -> Array:
        found = logits if output is None else rounded(logits, output)
        return np.where(bank.bias == -np.inf, -np.inf, found)

    here = made(z)
    free: Array = np.asarray(bank.bias > -np.inf)
    # of what overflows, or nearly so, nothing may be certified, and little is known
    finite = np.isfinite(np.where(free, here, 0.0)).all(axis=1) & np.isfinite(h).all(axis=1)
    lost: Array = np.logical_not(finite)
    large = ~(size.max(axis=1) < 1e37) | ~np.isfinite(exact.log_pi.max(axis=1))
    side = _side(np.where(lost[:, None], 0.0, here) / tau[:, None], rows)
    low, high = (made(z - _NARROWER * w) / tau[:, None], made(z + _NARROWER * w) / tau[:, None])
    broken, kept = _budgets(side, exact, labels, tau, plan)
    if plan.prediction:
        broken |= _tops(low, high, exact)[0]
        kept &= _tops(side.scores, side.scores, exact)[1]
        if not plan.budgets:
            kept = _tops(low, high, exact)[1]
    if plan.loss is not None:
        least, most = _loss_ends(low, high, exact, labels)
        off = _off(exact)
        broken |= most - off > plan.loss * (1 + _CLOSE)
        if plan.names == ("loss",):
            kept |= least + off < plan.loss * (1 - _CLOSE)
    wrong = ((verdict == "certified") & ((broken & ~large) | lost)) | ((verdict == "violated") & kept & ~large & ~lost)
    words = np.where(lost, "what overflows", np.where(broken, "a budget that is broken", "budgets that are kept"))
    return Judged(
        column=f"verdict {name}",
        wrong=wrong,
        open=np.zeros(len(tau), dtype=bool),
        found=lambda i: str(words[i]),
        words="in an order of its sums",
    )


def _budgets(side: _Side, exact: _Side, labels: Array, tau: Array, plan: Plan) -> tuple[Array, Array]:
    """Where a closed budget is clearly broken by these very logits, and where all are clearly kept."""
    errors = _errors(side, exact, labels, tau, plan)
    broken, kept = np.zeros(len(tau), dtype=bool), np.ones(len(tau), dtype=bool)
    for name, limit in plan.budgets.items():
        value, off = errors[name]
        broken |= value - off > limit * (1 + _CLOSE)
        kept &= value + off < limit * (1 - _CLOSE)
    return broken, kept


def _errors(side: _Side, exact: _Side, labels: Array, tau: Array, plan: Plan) -> dict[str, tuple[Array, Array]]:
    """The errors of these logits by name, and what float64 may be off."""
    index, label, off = np.arange(len(tau)), np.maximum(labels, 0), _off(exact)
    gap = np.where(np.isfinite(side.log_pi), side.log_pi, 0.0) - np.where(np.isfinite(exact.log_pi), exact.log_pi, 0.0)
    found: dict[str, tuple[Array, Array]] = {}
    if "loss" in plan.budgets:
        found["loss"] = np.abs(gap[index, label]), off
    if "probability" in plan.budgets:
        found["probability"] = np.abs(side.pi - exact.pi).sum(axis=1) / 2, off
    if "kl" in plan.budgets:
        found["kl"] = np.maximum((side.pi * gap).sum(axis=1), -(exact.pi * gap).sum(axis=1)), off
    if "gradient" in plan.budgets:
        found["gradient"] = _gradient(side, exact, index, label, tau, off)
        if plan.coordinate == "weights":
            # not recomputed: neither broken nor kept
            found["gradient"] = np.full(len(tau), np.nan), off
    return found


def _off(exact: _Side) -> Array:
    """What logarithms of probabilities may be off in float64: far more than gamma_p of moderate scores."""
    off: Array = 1e-11 * (1 + np.abs(np.where(np.isfinite(exact.scores), exact.scores, 0.0)).max(axis=1))
    return off


def _gradient(side: _Side, exact: _Side, index: Array, label: Array, tau: Array, off: Array) -> tuple[Array, Array]:
    """In the hidden vector's coordinate."""
    total = np.zeros((len(tau), exact.rows.shape[1]))
    longest = 0.0
    ours, theirs = side.pi.copy(), exact.pi.copy()
    ours[index, label] -= 1
    theirs[index, label] -= 1
    for start in range(0, len(exact.rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        total += ours[:, part] @ side.rows[part].astype(np.float64) - theirs[:, part] @ exact.rows[part]
        longest = max(longest, float(np.abs(exact.rows[part]).max()))
    return np.sqrt((total * total).sum(axis=1)) / tau, off * longest * exact.rows.shape[1] / tau


def _loss_ends(low: Array, high: Array, exact: _Side, labels: Array) -> tuple[Array, Array]:
    """The least and the largest error of the loss over all logits between: others up and the label down, or not."""
    index, label = np.arange(len(labels)), np.maximum(labels, 0)
    true = -exact.log_pi[index, label]
    ends = []
    for others, own in ((low, high), (high, low)):
        scores = others.copy()
        scores[index, label] = own[index, label]
        ends.append(-_side(scores, exact.rows).log_pi[index, label] - true)
    least = np.where((ends[0] <= 0) & (ends[1] >= 0), 0.0, np.minimum(np.abs(ends[0]), np.abs(ends[1])))
    return least, np.maximum(np.abs(ends[0]), np.abs(ends[1]))


def _tops(low: Array, high: Array, exact: _Side) -> tuple[Array, Array]:
    """Where some logits between have another best class than the exact scores, and where some have the same."""
    index, top = np.arange(len(low)), exact.scores.argmax(axis=1)
    ordered = np.partition(exact.scores, -2, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-10 * (1 + np.abs(ordered[:, -1]))
    rest_low, rest_high = low.copy(), high.copy()
    rest_low[index, top], rest_high[index, top] = -np.inf, -np.inf
    return clear & (rest_high.max(axis=1) > low[index, top]), clear & (high[index, top] > rest_low.max(axis=1))
