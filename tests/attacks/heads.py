"""Heads under attack: allowances, bounds, verdicts and tolerances of every realization against balls of any precision.

`python -m tests.attacks.heads FIRST SEEDS [EVERY]` attacks one head of each hard kind for so many seeds, and counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch
from flint import arb, arb_mat, ctx
from torch import Tensor

import suffice as sf
from suffice.budgets import accepts
from suffice.contracts.registry import contract_named
from suffice.realizations import quantized, streamed
from tests.attacks.head_runs import Case, Run, cases, logits_in, matrix
from tests.attacks.head_truth import (
    OpenError,
    Outputs,
    errors_between,
    is_above,
    length,
    only_top,
    outputs,
    same_top,
    weights_error,
)
from tests.support.screened_heads import KINDS, hard_head

__all__ = ["CONTRACTS", "MORE_KINDS", "STATES", "Tally", "attack", "attack_states", "hard_states"]

STATES = 128
# a head has at most so many classes, but for every fifth seed: balls take their time
_CLASSES = 20
CONTRACTS = ("geometry", "conditioned", "centered")
MORE_KINDS = ("saturated", "three classes", "outlier rows", "masks")
FAMILIES = ("logits", "relative", "weights")
_BITS = (300, 5000)
_NAMES = ("loss", "probability", "gradient", "kl")


@dataclass
class Tally:
    """What was compared, and what was wrong. `infinite` are bounds that say nothing, `open` what no precision told."""

    states: int = 0
    runs: int = 0
    allowances: int = 0
    bounds: Counter[str] = field(default_factory=Counter)
    infinite: Counter[str] = field(default_factory=Counter)
    certified: Counter[str] = field(default_factory=Counter)
    tolerances: Counter[str] = field(default_factory=Counter)
    open: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.states} states, {self.runs} runs of realizations, {self.allowances} allowances, "
        told += f"{sum(self.bounds.values())} bounds ({sum(self.infinite.values())} infinite), "
        told += f"{sum(self.certified.values())} certified, {sum(self.tolerances.values())} tolerances: "
        told += f"{len(self.wrong)} violations, {len(self.open)} open"
        lines = [f"  {k}: {n} bounds, {self.infinite[k]} infinite" for k, n in self.bounds.items()]
        return "\n".join([told, *lines, *(f"  {k}: {n} certified" for k, n in self.certified.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """Bounds [N], whether the prediction is claimed to stay, and whether the budgets are."""

    loss: Tensor
    probability: Tensor
    gradient: Tensor
    kl: Tensor
    prediction: Tensor
    certified: Tensor


def hard_states(kind: str, seed: int) -> sf.HeadStates:
    """A hard head with labels of classes that are not masked, at temperatures of a thousandth to a thousand."""
    g = torch.Generator().manual_seed(seed + 1)
    head, hidden = hard_head(kind if kind in KINDS else "gaussian", seed, STATES)
    few = head.num_classes if seed % 5 == 0 else _CLASSES
    weight, bias = head.weight[:few], head.bias[:few]
    if kind == "saturated":
        hidden = hidden * 10.0 ** (3 * torch.rand(STATES, 1, generator=g))
    elif kind == "three classes":
        weight, bias = weight[:3], bias[:3]
    elif kind == "outlier rows":
        weight = weight.clone()
        weight[:, 0] *= 1e3
        weight[0] *= 100
    elif kind == "masks":
        bias = torch.where(torch.rand(len(bias), generator=g) < 0.6, -torch.inf, 3 * bias)
        bias[[0, -1]] = 0.25
    head = sf.LinearHead(weight, bias)
    free = (~head.masked).nonzero()[:, 0]
    labels = free[torch.randint(0, len(free), (STATES,), generator=g)]
    near = hidden.double() @ weight.double().T + bias
    usable = torch.isfinite(near.masked_fill(head.masked, 0.0)).all(dim=1) & (torch.arange(STATES) % 2 == 0)
    labels = torch.where(usable, near.argmax(dim=1), labels)
    exponent = 6 * torch.rand(STATES, generator=g, dtype=torch.float64) - 3
    temperature = torch.where(torch.arange(STATES) % 3 == 0, 1.0, 10**exponent)
    return sf.HeadStates(head, hidden, labels, temperature)


@contextmanager
def small_groups() -> Iterator[None]:
    """Heads of any size stream over their classes, in groups of four."""
    with (
        patch.object(streamed, "_GROUP", 4),
        patch.object(streamed, "_TILE_ENTRIES", 192),
        patch.object(quantized, "LEAST_CLASSES", 2),
    ):
        yield


def _settled(tally: Tally, name: str, ask: Any) -> None:
    """Ask with more digits until nothing is open."""
    for bits in _BITS:
        with ctx.workprec(bits):
            try:
                tally.wrong += [f"{name}: {each}" for each in ask()]
                return
            except OpenError as error:
                left = str(error)
    tally.open.append(f"{name}: {left}")


class _Attack:
    """One batch of states: their truth, once for each number of digits."""

    def __init__(self, tally: Tally, name: str, states: sf.HeadStates, seed: int) -> None:
        self.tally, self.name, self.states, self.seed = tally, name, states, seed
        assert states.labels is not None
        self.labels = states.labels.tolist()
        self.truth: dict[int, list[Outputs]] = {}
        g = torch.Generator().manual_seed(seed + 2)
        size = 10 ** (4 * torch.rand(len(states), generator=g, dtype=torch.float64) - 4)
        scale = states.bank.lengths.max().clamp(1e-200, 1e200) / states.temperature
        self.budgets = sf.Budgets(loss=size, probability=size, gradient=size * scale, kl=size, prediction=True)

    def exact(self, n: int) -> Outputs:
        bits = ctx.prec
        if bits not in self.truth:
            logits = logits_in(self.states.bank, self.states.hidden, self.states.bank.weight)
            self.truth[bits] = [self._of(logits[i], None, i) for i in range(len(self.states))]
        return self.truth[bits][n]

    def _of(self, logits: list[arb | None], shift: list[arb] | None, n: int, plain: bool = False) -> Outputs:
        tau = arb(self.states.temperature[n].item())
        scores = [None if z is None else z / tau for z in logits]
        own = scores[self.labels[n]] if plain else None
        if shift is not None:
            scores = [None if q is None else q + s for q, s in zip(scores, shift, strict=True)]
        made = outputs(scores, self.labels[n], own)
        return made if shift is not None else replace(made, ranked=logits)

    def run(self, every: int) -> None:
        """All realizations, or every third one, say: others at other seeds."""
        self.tally.states += len(self.states)
        for k, case in enumerate(cases(self.states, self.seed)):
            if k % every == self.seed % every:
                self._one(k, case)
        self._tolerances(every)

    def _one(self, k: int, case: Case) -> None:
        self.tally.runs += len(self.states)
        name, realization = case.name, case.realization
        made = realization.at(self.states)
        runs: dict[int, Run] = {}
        # the default contract always, the others and the weights' coordinate by turns
        more = CONTRACTS[(k + self.seed) % len(CONTRACTS)]
        told = {c: self._told(realization, self.states, c) for c in {"centered", more}}
        if more == "centered":
            told["weights"] = self._told(realization, self.states.taken_in("weights"), "centered")
        if (k + self.seed) % 8 == 0:
            self._as_certified(name, realization, told["centered"])

        def again() -> Run:
            """The same run with as many digits as there are now: balls of scores are narrower then."""
            if ctx.prec not in runs:
                runs[ctx.prec] = case.run()
            return runs[ctx.prec]

        for n in range(len(self.states)):
            where = f"{self.name}, {name}, state {n}"
            if bool(made.unknown[n]):
                if not all(torch.isinf(x) for c in told.values() for x in (c.loss[n], c.kl[n], c.gradient[n])):
                    self.tally.wrong.append(f"{where}: bounds of what is not known")
                continue
            _settled(self.tally, where, lambda n=n: self._allowances(again(), made, n))
            _settled(self.tally, where, lambda n=n: self._bounds(again(), name, told, n))

    def _used(self, run: Run, n: int) -> Outputs:
        shift = None if run.shift is None else run.shift[n]
        return self._of(run.logits[n], shift, n, run.plain_label)

    def _allowances(self, run: Run, made: Any, n: int) -> list[str]:
        """|q' - q| <= d and |computed - q'| <= off for every class, and |w' - w| <= a."""
        exact, used, wrong = self.exact(n), self._used(run, n), []
        d, off, computed = made.d[n].tolist(), made.off[n].tolist(), made.scores[n].tolist()
        for j, (q, p) in enumerate(zip(exact.scores, used.scores, strict=True)):
            if q is None or p is None:
                continue
            self.tally.allowances += 1
            if not p.is_finite():
                wrong.append(f"class {j} is {p}")
            elif is_above(abs(p - q), d[j]) or is_above(abs(p - computed[j]), off[j]):
                wrong.append(f"class {j}: off by {(p - q).str(5)} and {(p - computed[j]).str(5)}, d {d[j]}, {off[j]}")
        if n == 0:
            apart = matrix(run.rows) - matrix(self.states.bank.weight)
            for j, row in enumerate(apart.tolist()):
                if not self.states.bank.masked[j] and is_above(length(row), made.row_errors[j].item()):
                    wrong.append(f"row {j} is off by {length(row)}, and {made.row_errors[j]} is allowed")
        return wrong

    def _told(self, realization: Any, states: sf.HeadStates, contract: str) -> _Told:
        """What a certificate says, without its headroom, which takes most of the time."""
        parts, places = [], []
        for rows, piece in realization.at(states).pieces(self.budgets, contract_named(contract)):
            budgets = self.budgets[rows]
            bounds = piece.asked(budgets).bounds(contract_named(contract))
            parts.append((bounds, accepts(budgets.shares(bounds))))
            places.append(rows)
        order = torch.cat(places).argsort()
        every = {name: torch.cat([getattr(x, name) for x, _ in parts])[order] for name in (*_NAMES, "prediction")}
        return _Told(**every, certified=torch.cat([each for _, each in parts])[order])

    def _as_certified(self, name: str, realization: Any, told: _Told) -> None:
        """The public certificate is the same, and its headroom is at least one where it certifies."""
        found = sf.certify(self.states, self.budgets, realization)
        same = [torch.equal(getattr(found, each), getattr(told, each)) for each in (*_NAMES, "prediction")]
        if not all(same) or not torch.equal(torch.as_tensor(found.certified), told.certified):
            self.tally.wrong.append(f"{self.name}, {name}: the certificate says something else")
        if bool((torch.as_tensor(found.certified) & (found.headroom < 1)).any()):
            self.tally.wrong.append(f"{self.name}, {name}: certified, and no headroom")

    def _bounds(self, run: Run, name: str, told: dict[str, _Told], n: int) -> list[str]:
        exact, used, wrong = self.exact(n), self._used(run, n), []
        if not all(q is None or q.is_finite() for q in used.scores):
            return [f"certified {c}" for c, x in told.items() if bool(x.certified[n])]
        tau = arb(self.states.temperature[n].item())
        errors = errors_between(exact, used, self.labels[n], tau, (matrix(self.states.bank.weight), matrix(run.rows)))
        counts: Counter[str] = Counter()
        for contract, found in told.items():
            actual = errors
            if contract == "weights":
                actual = {**errors, "gradient": self._joint(run, exact, used, n)}
            for each in _NAMES:
                bound, limit = getattr(found, each)[n].item(), getattr(self.budgets, each)[n].item()
                counts["infinite " * (bound == torch.inf) + contract] += 1
                if each == "kl" and is_above(actual["kl too"], min(bound, 1e300)):
                    wrong.append(f"{contract}, KL: {actual['kl too'].str(8)} above {bound}")
                # no two distributions are further apart than 1, and balls of 1 do not end there
                said = bound != torch.inf and not (each == "probability" and bound >= 1)
                if said and (bound != bound or is_above(actual[each], bound)):
                    wrong.append(f"{contract}, {each}: {actual[each].str(8)} above {bound}")
                if bool(found.certified[n]) and is_above(actual[each], limit):
                    wrong.append(f"{contract}, certified, {each}: {actual[each].str(8)} above {limit}")
            # where nothing is claimed a tie may stay one
            if bool(found.prediction[n] | found.certified[n]) and not same_top(exact, used):
                wrong.append(f"{contract}: another prediction")
        # all is told: nothing is counted twice
        self.tally.certified[name] += bool(told["centered"].certified[n])
        self.tally.bounds.update({each.removeprefix("infinite "): count for each, count in counts.items()})
        self.tally.infinite.update({each[9:]: count for each, count in counts.items() if each.startswith("inf")})
        return wrong

    def _joint(self, run: Run, exact: Outputs, used: Outputs, n: int) -> arb:
        found = weights_error(exact, used, self.labels[n], self.states.hidden[n], run.hidden[n].double())
        return found / arb(self.states.temperature[n].item())

    def _tolerances(self, every: int) -> None:
        """Heads that are off by b* in the worst ways keep the budgets."""
        for family in FAMILIES:
            contract = CONTRACTS[1 + self.seed % 2]
            b = sf.tolerance(self.states, self.budgets, contract=contract, family=family).b.tolist()
            for n, size in enumerate(b):
                if 0 < size < torch.inf and (n + self.seed) % every == 0:
                    self.tally.tolerances[family] += 1
                    where = f"{self.name}, tolerance {family}, {contract}, state {n}"
                    _settled(self.tally, where, lambda n=n, s=size, f=family: self._moved(f, s, n))

    def _moved(self, family: str, b: float, n: int) -> list[str]:
        """The label against the others, both ways, and by turns."""
        exact, tau, wrong = self.exact(n), arb(self.states.temperature[n].item()), []
        h = [arb(x) for x in self.states.hidden[n].tolist()]
        long, rows = length(h), matrix(self.states.bank.weight).tolist()
        y, best = self.labels[n], only_top(exact.ranked)
        for kind in range(3):
            signs = [(1 if (j == y) == (kind == 0) else -1) if kind < 2 else 1 - 2 * (j % 2) for j in range(len(rows))]
            used = rows
            if family == "weights":
                # along h, each row by b of its length
                sizes = [arb(b) * s * arb(length(w).abs_lower()) for s, w in zip(signs, rows, strict=True)]
                step = [x / long if long > 0 else arb(0) for x in sizes]
                used = [[w + k * x for w, x in zip(row, h, strict=True)] for row, k in zip(rows, step, strict=True)]
                e = [sum((k * x * x for x in h), arb(0)) / tau for k in step]
            elif family == "relative":
                e = [arb(0) if q is None else q * b * s for q, s in zip(exact.scores, signs, strict=True)]
            else:
                e = [arb(b) * s / tau for s in signs]
            scores = [None if q is None else q + x for q, x in zip(exact.scores, e, strict=True)]
            moved, own = outputs(scores, y), matrix(self.states.bank.weight)
            for each, error in errors_between(exact, moved, y, tau, (own, arb_mat(used))).items():
                limit = getattr(self.budgets, each.split()[0])[n].item()
                if is_above(error, limit):
                    wrong.append(f"{each}: {error.str(8)} above {limit} at b {b}")
            if best is None or only_top(scores) != best:
                wrong.append(f"another prediction at b {b}")
        return wrong


def attack_states(tally: Tally, name: str, states: sf.HeadStates, seed: int, every: int = 1) -> None:
    """Every realization at some states; heads stream over their classes in every other batch."""
    made = _Attack(tally, name, states, seed)
    if seed % 2:
        made.run(every)
    else:
        with small_groups():
            made.run(every)


def attack(first: int, seeds: int, *, every: int = 1, told: bool = False) -> Tally:
    """A head of every hard kind for each of the seeds."""
    tally = Tally()
    for seed in range(first, first + seeds):
        for kind in (*KINDS, *MORE_KINDS):
            attack_states(tally, f"hard_states({kind!r}, {seed})", hard_states(kind, seed), seed, every)
            if told:
                sys.stdout.write(f"{seed} {kind}: {tally.states} states, {len(tally.wrong)} violations\n")
                sys.stdout.flush()
    return tally


if __name__ == "__main__":
    # FIRST SEEDS, and EVERY: only every so many realizations at a state, others at other seeds
    given = [int(each) for each in sys.argv[1:]]
    found = attack(given[0], given[1], every=given[2] if len(given) > 2 else 1, told=True)
    sys.stdout.write("\n".join([str(found), *found.wrong[:50], *found.open[:50]]) + "\n")
