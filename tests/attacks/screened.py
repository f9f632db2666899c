"""Screening under attack: every argmax, top k and sample of many heads against the exact head in integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import suffice as sf
from suffice.numerics import integer_products
from suffice.numerics.integer_products import KERNELS, FloatKernel, IntegerKernel
from tests.reference.integer_heads import IntegerHead
from tests.support.screened_heads import KINDS, hard_head

__all__ = ["KERNELS", "SCHEMES", "WIDE", "Tally", "attack", "attack_head", "wide_head"]

SCHEMES: dict[str, dict[str, Any]] = {
    "int8": {"scheme": "int8"},
    "int8 calibrated": {"scheme": "int8", "calibrated": True},
    "int8 by groups": {"scheme": "int8", "group": 8},
    "int4 by groups": {"scheme": "int4", "group": 8},
    "int4 deflated": {"scheme": "int4", "group": 4, "deflate": 2, "calibrated": True},
    "int8 deflated": {"scheme": "int8", "deflate": 1, "calibrated": True},
    "fp8": {"scheme": "fp8"},
    "fp8 by groups": {"scheme": "fp8", "group": 16},
}
# heads of some hundreds to thousands of classes: many blocks, states that words cannot tell apart, ties of all classes
WIDE = ("gaussian", "outliers", "common column", "dead channel", "duplicated rows", "one ulp", "float16 rows", "biases")
_STATES = 8


@dataclass
class Tally:
    """What was compared, and what was wrong."""

    states: int = 0
    results: int = 0
    ties: int = 0
    rows: int = 0
    exact_rows: int = 0
    by_scheme: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.states} states, {self.results} results, {self.ties} ties, {len(self.wrong)} wrong; "
        told += f"{self.exact_rows} of {self.rows} rows exact"
        return "\n".join([told, *(f"  {name}: {count}" for name, count in self.by_scheme.items()), *self.wrong[:20]])


def attack(first: int, heads: int) -> Tally:
    """So many seeds from the first one on: a head of each hard kind and one wide head a seed, in every scheme."""
    tally = Tally()
    for seed in range(first, first + heads):
        for kind in KINDS:
            attack_head(tally, f"hard_head({kind!r}, {seed}, {_STATES})", *hard_head(kind, seed, _STATES), seed)
        kind = WIDE[seed % len(WIDE)]
        attack_head(tally, f"wide_head({kind!r}, {seed})", *wide_head(kind, seed), seed)
    return tally


def attack_head(tally: Tally, name: str, head: sf.LinearHead, hidden: Tensor, seed: int) -> None:
    """Every scheme at some states, int8 by rows with every kernel that this machine has."""
    g = torch.Generator().manual_seed(seed)
    k = min(1 + seed % 5, int((~head.masked).sum()))
    noise = torch.rand(len(hidden), head.num_classes, generator=g, dtype=torch.float64).log().neg().log().neg()
    size = float(hidden.double().abs().max() * head.weight.double().abs().max())
    # noise that decides, that decides little, and that is next to nothing
    temperature = min(max(size * (1.0, 0.1, 1e-9)[seed % 3], 1e-300), 1e300)
    truth = IntegerHead(head, hidden)
    tops = [truth.top(n, k) for n in range(len(hidden))]
    firsts = [truth.top(n) for n in range(len(hidden))]
    draws = [truth.top(n, 1, noise[n], temperature) for n in range(len(hidden))]
    tally.states += len(hidden)
    tally.ties += sum(tie for _, tie in firsts)
    for scheme, given in SCHEMES.items():
        for kernel in KERNELS if given == SCHEMES["int8"] else KERNELS[:1]:
            with _first(kernel):
                screen = _quantized(head, hidden, given)
                found = {
                    "argmax": (screen.argmax(hidden), firsts),
                    "topk": (screen.topk(hidden, k), tops),
                    "sample": (screen.sample(hidden, noise, temperature), draws),
                }
            for call, (record, right) in found.items():
                _compare(tally, f"{name}, {scheme}, {kernel.__name__}, {call}", record, right)
                tally.rows += len(hidden) * head.num_classes
                tally.by_scheme[scheme] += len(hidden)


def _compare(tally: Tally, name: str, record: Any, right: list[tuple[list[int], bool]]) -> None:
    tally.results += len(right)
    tally.exact_rows += int(record.exact_rows.sum())
    if not bool(record.certified.all()):
        tally.wrong.append(f"{name}: not certified")
    for n, (top, tie) in enumerate(right):
        index = record.index[n].reshape(-1).tolist()
        if (index, bool(record.ties[n])) != (top, tie):
            tally.wrong.append(f"{name}, state {n}: {index} ({record.ties[n]}), and {top} ({tie}) is right")


def _quantized(head: sf.LinearHead, hidden: Tensor, given: dict[str, Any]) -> sf.Quantized:
    asked = {key: value for key, value in given.items() if key != "calibrated"}
    if "deflate" in asked:
        asked["deflate"] = min(asked["deflate"], head.dim)
    return sf.Quantized(head, **asked, calibration=hidden if given.get("calibrated") else None)


@contextmanager
def _first(kernel: type[IntegerKernel]) -> Iterator[None]:
    """A kernel is tried first; it is used where it passes the test that any kernel has to pass."""
    kept = integer_products.KERNELS, integer_products._chosen
    integer_products.KERNELS, integer_products._chosen = (kernel, FloatKernel), {}
    try:
        yield
    finally:
        integer_products.KERNELS, integer_products._chosen = kept


def wide_head(kind: str, seed: int) -> tuple[sf.LinearHead, Tensor]:
    """A head of some hundreds to thousands of classes, and hidden vectors."""
    g = torch.Generator().manual_seed(seed)
    classes = int(torch.randint(300, 2600, (1,), generator=g))
    dim = int(torch.randint(20, 90, (1,), generator=g))
    w, h = torch.randn(classes, dim, generator=g), torch.randn(_STATES, dim, generator=g)
    w *= 0.2 + torch.rand(classes, 1, generator=g)
    bias = None
    if kind == "outliers":
        h[:, :3] *= 50
        h += 0.5 * w[torch.randint(0, classes, (_STATES,), generator=g)]
    elif kind == "common column":
        # to words of eight bits all classes are much the same, to float32 they are not; and to neither
        w[:, 0] = 300.0 if seed % 2 else 3e7
        h[_STATES // 2 :, 0] = 1000.0
    elif kind == "dead channel":
        w[:, 1] = 0
        h[: _STATES // 2] = 0
        h[: _STATES // 2, 1] = 1.0
        h[1, 0] = 1e-30
    elif kind == "duplicated rows":
        w = w[torch.randint(0, 40, (classes,), generator=g)]
    elif kind == "one ulp":
        near = w[torch.randint(0, 3, (classes,), generator=g)]
        step = torch.randint(-1, 2, w.shape, generator=g)
        ends = torch.where(step > 0, torch.inf, -torch.inf)
        w = torch.where(step == 0, near, torch.nextafter(near, ends))
        h = h + 3 * w[: len(h)]
    elif kind == "float16 rows":
        return sf.LinearHead((w * 2e4).clamp(-65504, 65504).half()), (h * 2e4).clamp(-65504, 65504).half()
    elif kind == "biases":
        bias = torch.randn(classes, generator=g).mul_(5).round_()
        bias[torch.randint(1, classes, (classes // 5,), generator=g)] = -torch.inf
    return sf.LinearHead(w, bias), h
