"""Outputs at known distances from the truth, and what Arb says of them: every verdict of `judge` is held to it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from tests.reference.exact import Exact, exact_outputs
from tests.reference.states import random_states

__all__ = ["Tally", "judged_against_arb", "small_states"]

_BITS = 900
SHAPES = [(2, 2), (3, 3), (4, 4), (3, 5), (5, 8), (2, 16), (4, 33), (3, 64), (6, 128), (3, 300)]
QUANTITIES = ("loss", "gradient", "probability", "prediction")


@dataclass(slots=True)
class Tally:
    """How many verdicts there were, by word and by the truth that decided."""

    words: Counter[str] = field(default_factory=Counter)
    truths: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(self.words.values())


def small_states(seed: int) -> sf.States:
    """One state of few classes in p = 2 to 300, concentrations up to 1e6, saturated and at a zero radius at times."""
    state = random_states(seed, 1, SHAPES)
    if seed % 4 == 1:
        bank = state.bank
        k = bank.concentrations.clone()
        k[seed % len(k)] = 1e6
        state = sf.States(sf.ClassBank(bank.directions, k, bank.biases), state.features, state.labels, 0.1)
    return state


def judged_against_arb(seed: int, count: int, tally: Tally) -> None:
    """Judge `count` outputs of one state, each off by about a budget, and hold every verdict to the oracle's."""
    state = small_states(seed)
    exact = exact_outputs(state)
    generator = torch.Generator().manual_seed(seed)
    name = QUANTITIES[seed % 4]
    budgets = torch.tensor([10.0 ** -(3 + i % 12) for i in range(count)], dtype=torch.float64)
    values = torch.stack([_output(name, exact, budgets[i].item() * _factor(i), generator) for i in range(count)])
    many = state[[0] * count]
    argument = {"probability": "log_probabilities"}.get(name, name)
    asked = sf.Budgets(prediction=True) if name == "prediction" else sf.Budgets(**{name: budgets})
    found = sf.judge(many, asked, **{argument: values.long() if name == "prediction" else values})
    ends = getattr(found, name)
    for i in range(count):
        budget = 0.0 if name == "prediction" else budgets[i].item()
        low, high, verdict = ends.low[i].item(), ends.high[i].item(), str(found.verdict[i])
        with ctx.workprec(_BITS):
            error = _error(name, exact, values[i])
            place = f"seed {seed}, {name}, output {i}: {error} in [{low}, {high}] for {budget}"
            assert arb(low) <= error.upper(), place
            assert error.lower() <= arb(high), place
            if verdict == "certified":
                assert not error > arb(budget), place
            elif verdict == "violated":
                assert not error <= arb(budget), place
            else:
                # within the enclosure's radius of the budget
                assert low <= budget <= high, place
        tally.words[verdict] += 1
        tally.truths[str(found.truth[i])] += 1


def _factor(i: int) -> float:
    """0.5, 2, and 1 +- 10^-k."""
    off = 10.0 ** -(1 + (i // 4) % 14)
    return (0.5, 2.0, 1 - off, 1 + off)[i % 4]


def _output(name: str, exact: Exact, distance: float, generator: torch.Generator) -> Tensor:
    """A number at this distance from the truth, up to its own rounding."""
    with ctx.workprec(_BITS):
        if name == "loss":
            sign = 1 if torch.rand(1, generator=generator) < 0.5 else -1
            return torch.tensor(float(exact.loss + sign * arb(distance)), dtype=torch.float64)
        if name == "gradient":
            way = torch.randn(len(exact.gradient), generator=generator, dtype=torch.float64)
            way = (way / way.norm() * distance).tolist()
            return torch.tensor(
                [float(g + arb(x)) for g, x in zip(exact.gradient, way, strict=True)], dtype=torch.float64
            )
        if name == "prediction":
            return torch.randint(0, len(exact.scores), (), generator=generator).double()
        # from the class that has most to the one that has least, as far as there is so much
        mass = list(exact.probabilities)
        best, least = (pick(range(len(mass)), key=lambda j: float(mass[j])) for pick in (max, min))
        mass[best], mass[least] = mass[best] - arb(distance), mass[least] + arb(distance)
        return torch.tensor([float(p.log()) if p > 0 else -math.inf for p in mass], dtype=torch.float64)


def _error(name: str, exact: Exact, value: Tensor) -> arb:
    if name == "loss":
        return abs(arb(value.item()) - exact.loss)
    if name == "gradient":
        square = sum(((arb(x) - g) ** 2 for x, g in zip(value.tolist(), exact.gradient, strict=True)), arb(0))
        return square.sqrt() if square > 0 else arb(0, square.abs_upper().sqrt())
    if name == "prediction":
        chosen = exact.scores[int(value)]
        ahead = [q - chosen for j, q in enumerate(exact.scores) if j != int(value)]
        best = max(ahead, key=lambda x: float(x.mid()))
        # equal scores are balls around 0
        return best if best > 0 and not best.contains(0) else arb(0, best.rad() if best.contains(0) else 0)
    given = [arb(0) if x == -math.inf else arb(x).exp() for x in value.tolist()]
    return sum((abs(a - b) for a, b in zip(given, exact.probabilities, strict=True)), arb(0)) / 2
