"""Every public bound on extreme states against the oracle: what is counted, and how."""

from __future__ import annotations

import math
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from flint import arb

import suffice as sf
from suffice.pairs.constants import valid_orders
from suffice.realizations.executed.program import Executed, execute
from tests.attacks.extremes import extreme_states, kind_of
from tests.reference.oracle import NARROWER, WIDTH, Errors, Floors, Numbers, states_of, verdict

QUANTITIES = ("loss", "probability", "gradient")
CONTRACTS = ("geometry", "conditioned", "centered")
ENVELOPES: tuple[Any, ...] = (
    None,
    sf.ClosedForm(2),
    sf.Uniform("quarter"),
    sf.Uniform("eleventh"),
    sf.Uniform("preliminary"),
    sf.StateEnvelope(),
)
# the constants of the uniform envelopes, times nu^-3 (docs/theory, 3.4)
UNIFORM = {"quarter": 1 / 4, "eleventh": 1 / 11, "preliminary": 1.0}
# compiling a program takes seconds: one dimension and order are compiled, on states that have it
COMPILED_DIM, COMPILED_ORDER = 8, 4
# whatever a public call may say no with; a refusal is no violation, but it is counted
_REFUSALS = (ValueError, TypeError, RuntimeError, IndexError, ArithmeticError, AssertionError)


@dataclass(frozen=True)
class Violation:
    """A bound that the truth is provably above."""

    seed: int
    row: int
    kind: str
    call: str
    quantity: str
    bound: float
    truth: str

    def __str__(self) -> str:
        return (
            f"extreme_states({self.seed})[{self.row}:{self.row + 1}] ({self.kind}), {self.call}: "
            f"{self.quantity} bound {self.bound:.4g}, true {self.truth}"
        )


@dataclass
class Tally:
    """What was compared. A comparison is open if its ball cannot be decided at any precision."""

    states: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    infinite: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)
    closest: dict[str, float] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    open: list[Violation] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.states += other.states
        for name in ("compared", "infinite", "raised", "warned"):
            getattr(self, name).update(getattr(other, name))
        for group, ratio in other.closest.items():
            self.closest[group] = min(ratio, self.closest.get(group, ratio))
        self.violations += other.violations
        self.open += other.open

    def __str__(self) -> str:
        lines = [
            f"{self.states} states, {sum(self.compared.values())} comparisons, {len(self.violations)} violations, "
            f"{len(self.open)} open, {sum(self.raised.values())} raised"
        ]
        broken = Counter(v.call.split(" order")[0] for v in self.violations)
        for group in sorted(self.compared):
            compared, closest = self.compared[group], self.closest.get(group, float("inf"))
            lines.append(
                f"  {group:<36} {compared:>8} compared, {broken[group]:>5} broken, "
                f"smallest bound/actual {closest:.9g}, infinite {self.infinite[group] / compared:.2%}"
            )
        lines += [f"  raised {count:>5}: {message}" for message, count in self.raised.most_common()]
        lines += [f"  warned {count:>5}: {message}" for message, count in self.warned.most_common()]
        return "\n".join(lines)


class Attack:
    """One bank of extreme states, and some of all combinations of what can be asked about it."""

    def __init__(self, seed: int, tally: Tally) -> None:
        self.seed, self.tally = seed, tally
        self.states = extreme_states(seed)
        self.truths = states_of(self.states)
        self.rng = random.Random(seed)
        self.orders = valid_orders(self.states.bank.nu)
        tally.states += len(self.states)

    def run(self, *, compiled: bool = False) -> None:
        pick = self.rng.choice
        second = sf.DebyePair(order=2, envelope=self.rng.choice(ENVELOPES))
        other = sf.DebyePair(order=pick(self.orders))
        for contract in self.rng.sample(CONTRACTS, 2):
            self.certified(second, contract)
        self.certified(other, pick(CONTRACTS))
        self.tiers(pick((second, other)))
        self.sign_functions(pick((second, other)), pick(CONTRACTS))
        dtypes = (torch.float64,) if self.states.bank.nu < 2 else (torch.float32, torch.float64)
        for dtype in dtypes:
            pair = sf.DebyePair(order=pick(self.orders))
            self.executed(pair, pick(CONTRACTS), dtype)
        self.sign_functions(sf.DebyePair(order=pick(self.orders)), pick(CONTRACTS), pick(dtypes))
        self.executed_tiers(sf.DebyePair(order=pick(self.orders)), pick(dtypes))
        self.adaptive()
        if compiled and self.states.bank.dim == COMPILED_DIM:
            for dtype in dtypes:
                self.executed(sf.DebyePair(order=COMPILED_ORDER), pick(CONTRACTS), dtype, compiled=True)

    def budgets(self) -> sf.Budgets:
        """Ordinary ones, tiny ones, the prediction."""
        size = self.rng.choice((1e-3, 1e-5, 1e-9, 1e-14, 1e-178, 1e-300))
        return sf.Budgets(
            **self.rng.choice(
                (
                    {"loss": size, "gradient": size},
                    {"gradient": size},
                    {"loss": size},
                    {"probability": size},
                    {"prediction": True},
                    {"gradient": size, "prediction": True},
                )
            )
        )

    def certified(self, pair: sf.DebyePair, contract: str) -> None:
        """Bounds, prediction, verdict and headroom of scope analytic."""
        budgets = self.budgets()
        group = f"analytic {contract}"
        call = f"{group} order {pair.order} {pair.envelope} {budgets}"
        for rows, found in self.each(group, lambda some: sf.certify(some, budgets, pair, contract)):
            for i, row in enumerate(rows):
                bounds = _three(found, i)
                truth = self.truths[row].errors(pair.order, bounds)
                self.compare(
                    group, call, row, bounds, truth, lambda r=row: self.truths[r].errors(pair.order, width=NARROWER)
                )
                self._consistent(group, call, row, found, i, truth, budgets)
                self._headroom(call, contract, row, float(found.headroom[i]), pair, budgets)

    def _headroom(
        self, call: str, contract: str, row: int, headroom: float, pair: sf.DebyePair, budgets: sf.Budgets
    ) -> None:
        """A uniform envelope times its headroom is a b: no error function of that size breaks a budget."""
        constant = UNIFORM.get(getattr(pair.envelope, "name", ""))
        if constant is None or not 0 < headroom < 1e290:
            return
        b = headroom * constant / self.states.bank.nu**3 * (1 - 1e-14)
        for name in QUANTITIES:
            if getattr(budgets, name) is not None:
                group = f"analytic headroom {contract}"
                said = call.replace(f"analytic {contract}", group, 1) + f" headroom {headroom:.9g}"
                self._respond(group, said, row, pair.order, b, name, float(getattr(budgets, name)), None)

    def _consistent(
        self, group: str, call: str, row: int, found: Any, i: int, truth: Errors, budgets: sf.Budgets
    ) -> None:
        """Prediction, verdict and headroom say no more than the truth and each other."""
        if bool(found.prediction[i]) and truth.agrees is False:
            self.broken(call, row, "prediction", 1.0, "another winner")
        certified = bool(found.certified[i])
        for name in QUANTITIES:
            budget = getattr(budgets, name)
            if certified and budget is not None and verdict(getattr(truth, name), float(budget)) == "above":
                self.broken(call, row, f"verdict on {name}", float(budget), str(getattr(truth, name)))
        if certified and budgets.prediction and truth.agrees is False:
            self.broken(call, row, "verdict on prediction", 1.0, "another winner")
        if not budgets.prediction and certified != bool(found.headroom[i] >= 1):
            self.broken(call, row, "headroom", float(found.headroom[i]), f"certified {certified}")
        self.tally.compared[group] += 1

    def tiers(self, pair: sf.DebyePair) -> None:
        budgets = self.budgets()
        group = "analytic cascade"
        call = f"{group} order {pair.order} {pair.envelope} {budgets}"
        for rows, found in self.each(group, lambda some: sf.cascade(some, budgets, pair)):
            for i, row in enumerate(rows):
                bounds = _three(found, i)
                truth = self.truths[row].errors(pair.order, bounds)
                self.compare(
                    group, call, row, bounds, truth, lambda r=row: self.truths[r].errors(pair.order, width=NARROWER)
                )

    def sign_functions(self, pair: sf.DebyePair, contract: str, dtype: torch.dtype | None = None) -> None:
        """At b* no error function of that size breaks a budget: an absolute one, or a share of the state's gradient.

        With a dtype: beside the rounding of an execution, whose numbers stay as they are.
        """
        name = self.rng.choice(QUANTITIES)
        sizes = torch.full((len(self.states),), self.rng.choice((1e-2, 1e-5, 1e-9, 1e-178)), dtype=torch.float64)
        if name == "gradient" and self.rng.random() < 0.5:
            share = 10 ** self.rng.uniform(-9, -0.5)
            own = sf.evaluate(self.states, sf.DebyePair(order=2)).gradient.norm(dim=1) if self._evaluates() else sizes
            sizes = (share * own).nan_to_num(1e-3, 1e-3).clamp(1e-305, 1e300)
        scope = "analytic" if dtype is None else f"eager {str(dtype).removeprefix('torch.')}"
        group = f"{scope} tolerance {contract}"
        call = f"{group} order {pair.order} {name} budget"

        def both(some: sf.States, rows: list[int]) -> Any:
            budgets = sf.Budgets(**{name: sizes[rows]})
            if dtype is None:
                return sf.tolerance(some, budgets, pair, contract), [None] * len(rows)
            found = sf.tolerance(some, budgets, pair, contract, scope="execution", dtype=dtype)
            return found, _numbers(execute(some, pair.order, dtype))

        for rows, (found, numbers) in self.each(group, both, with_rows=True):
            for i, row in enumerate(rows):
                b = float(found.b[i])
                budget = float(sizes[row])
                if not b > 0 or b == float("inf"):
                    self.tally.infinite[group] += 1
                    self.tally.compared[group] += 1
                    continue
                said = f"{call} {budget:.6g} b {b:.9g} {found.status[i]}"
                self._respond(group, said, row, pair.order, b, name, budget, numbers[i])

    def _respond(
        self, group: str, call: str, row: int, order: int, b: float, name: str, budget: float, numbers: Numbers | None
    ) -> None:
        floors: Floors = tuple(budget if each == name else 1e300 for each in QUANTITIES)  # type: ignore[assignment]
        for width in (WIDTH, NARROWER):
            responses = self.truths[row].responses(
                order, b, self.seed, count=2, floors=floors, width=width, numbers=numbers
            )
            # only the worst is told
            worst = max((getattr(each, name) for each in responses), key=lambda x: x.upper())
            if verdict(worst, budget) != "open":
                break
        self.tally.compared[group] += len(responses) - 1
        self._judge(group, call, row, name, budget, worst)

    def _evaluates(self) -> bool:
        try:
            sf.evaluate(self.states, sf.DebyePair(order=2))
        except (ValueError, RuntimeError):
            return False
        return True

    def executed(self, pair: sf.DebyePair, contract: str, dtype: torch.dtype, *, compiled: bool = False) -> None:
        """Bounds of scope execution against the numbers that were executed."""
        budgets = self.budgets()
        kind = f"{'compiled' if compiled else 'eager'} {str(dtype).removeprefix('torch.')}"
        group = f"{kind} {contract}"
        call = f"{group} order {pair.order} {budgets}"

        def both(some: sf.States) -> Any:
            found = sf.certify(some, budgets, pair, contract, scope="execution", dtype=dtype, compiled=compiled)
            return found, execute(some, pair.order, dtype, compiled=compiled)

        for rows, (found, ran) in self.each(group, both):
            for i, (row, numbers) in enumerate(zip(rows, _numbers(ran), strict=True)):
                if numbers.loss == found.executed_loss[i].item():
                    self._judge_numbers(group, call, row, _three(found, i), numbers, found, i, budgets)
                elif not math.isnan(numbers.loss):
                    self.broken(call, row, "executed loss", numbers.loss, f"{found.executed_loss[i].item()} is told")

    def _judge_numbers(
        self, group: str, call: str, row: int, bounds: Floors, numbers: Numbers, found: Any, i: int, budgets: sf.Budgets
    ) -> None:
        if not all(map(math.isfinite, (numbers.loss, *numbers.probabilities, *numbers.gradient))):
            self.tally.compared[group] += 3
            self.tally.infinite[group] += 3
            for name, bound in zip(QUANTITIES, bounds, strict=True):
                if bound != float("inf"):
                    self.broken(call, row, name, bound, "not finite")
            return

        first = self.truths[row].distances(numbers, bounds)
        self.compare(group, call, row, bounds, first, lambda: self.truths[row].distances(numbers, width=NARROWER))
        if found is not None:
            self._consistent(group, call, row, found, i, first, budgets)

    def executed_tiers(self, pair: sf.DebyePair, dtype: torch.dtype) -> None:
        budgets = self.budgets()
        group = f"eager {str(dtype).removeprefix('torch.')} cascade"
        call = f"{group} order {pair.order} {budgets}"

        def both(some: sf.States) -> Any:
            found = sf.cascade(some, budgets, pair, scope="execution", dtype=dtype)
            return found, execute(some, pair.order, dtype)

        for rows, (found, ran) in self.each(group, both):
            for i, (row, numbers) in enumerate(zip(rows, _numbers(ran), strict=True)):
                self._judge_numbers(group, call, row, _three(found, i), numbers, None, i, budgets)

    def adaptive(self) -> None:
        """Loss and gradient as they come, by sums where those do."""
        size = self.rng.choice((1e10, 1.0, 1e-2, 1e-3, 1e-6, 1e-12))
        budgets = sf.Budgets(**self.rng.choice(({"loss": size, "gradient": size}, {"gradient": size}, {"loss": size})))
        contract = self.rng.choice(CONTRACTS)
        group = "adaptive"
        for rows, found in self.each(group, lambda some: sf.adaptive(some, budgets, contract)):
            for i, row in enumerate(rows):
                call = f"{group} order of {found.rung[i]} {contract} {budgets}"
                pair = found.loss[i].item(), found.gradient[i].tolist()
                bounds: Floors = (found.loss_bound[i].item(), float("inf"), found.gradient_bound[i].item())
                if found.certified[i]:
                    # a certified state keeps its budgets
                    bounds = (
                        bounds[0] if budgets.loss is None else min(bounds[0], float(budgets.loss)),
                        bounds[1],
                        bounds[2] if budgets.gradient is None else min(bounds[2], float(budgets.gradient)),
                    )
                numbers = Numbers(pair[0], [0.0] * self.states.bank.num_classes, pair[1], 0)
                self._judge_numbers(group, call, row, bounds, numbers, None, i, budgets)

    def compare(
        self, group: str, call: str, row: int, bounds: Floors, truth: Errors, again: Callable[[], Errors]
    ) -> None:
        for name, bound in zip(QUANTITIES, bounds, strict=True):
            # an adaptive evaluation says nothing of probabilities
            if group == "adaptive" and name == "probability":
                continue
            error = getattr(truth, name)
            if verdict(error, bound) == "open":
                error = getattr(again(), name)
            self._judge(group, call, row, name, bound, error)

    def _judge(self, group: str, call: str, row: int, name: str, bound: float, error: arb) -> None:
        self.tally.compared[group] += 1
        said = verdict(error, bound)
        if said == "above":
            self.broken(call, row, name, bound, str(error))
        elif said == "open":
            self.open_(call, row, name, bound, str(error))
        if bound == float("inf"):
            self.tally.infinite[group] += 1
        elif error > 0:
            ratio = float((arb(bound) / error).mid())
            if not math.isnan(ratio):
                self.tally.closest[group] = min(ratio, self.tally.closest.get(group, ratio))

    def broken(self, call: str, row: int, quantity: str, bound: float, truth: str) -> None:
        self.tally.violations.append(Violation(self.seed, row, kind_of(self.seed), call, quantity, bound, truth))

    def open_(self, call: str, row: int, quantity: str, bound: float, truth: str) -> None:
        self.tally.open.append(Violation(self.seed, row, kind_of(self.seed), call, quantity, bound, truth))

    def each(self, group: str, call: Callable[..., Any], *, with_rows: bool = False) -> list[tuple[list[int], Any]]:
        """The call's answer for all states, or row by row where it raises for some; what it says then is counted."""
        everywhere = list(range(len(self.states)))

        def ask(rows: list[int]) -> Any:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                # torch.compile's own
                warnings.simplefilter("ignore", DeprecationWarning)
                found = call(self.states[rows], rows) if with_rows else call(self.states[rows])
            for message in {f"{each.category.__name__}: {each.message}" for each in said}:
                self.tally.warned[f"{group}: {message[:160]}"] += 1
            return found

        try:
            return [(everywhere, ask(everywhere))]
        except _REFUSALS:
            pass
        found = []
        for row in everywhere:
            try:
                found.append(([row], ask([row])))
            except _REFUSALS as error:
                words = re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "#", f"{type(error).__name__}: {error}")
                self.tally.raised[f"{group}: {words[:160]}"] += 1
        return found


def _numbers(ran: Executed) -> list[Numbers]:
    return [
        Numbers(*each)
        for each in zip(
            ran.loss.tolist(),
            ran.log_probabilities.exp().tolist(),
            ran.gradient.tolist(),
            ran.scores.argmax(dim=1).tolist(),
            strict=True,
        )
    ]


def _three(found: Any, i: int) -> Floors:
    return found.loss[i].item(), found.probability[i].item(), found.gradient[i].item()


def attack(first: int, banks: int, *, compiled: bool = False) -> Tally:
    """Banks from `first` on, with compiled executions of some if asked for."""
    tally = Tally()
    for seed in range(first, first + banks):
        Attack(seed, tally).run(compiled=compiled)
    return tally


if __name__ == "__main__":
    # python -m tests.attacks.soundness FIRST BANKS
    made = attack(int(sys.argv[1]), int(sys.argv[2]), compiled=True)
    sys.stdout.write("\n".join([str(made), *map(str, made.violations), *map(str, made.open)]) + "\n")
