"""Inversion on scalars: a row is settled where enclosures prove both ends, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.base import Enclosure
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic
from suffice.tolerances.series import settle
from tests.reference.states import many_states


def _of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass
class Quadratic:
    """Bounds b + curve b^2 for the loss and three times that for the gradient, known up to a relative width."""

    curve: Tensor
    width: Tensor
    largest: Tensor

    def enclosures(self, names: Sequence[str], b: Tensor) -> list[Enclosure]:
        value = b + self.curve * b * b
        factors = {"loss": 1.0, "gradient": 3.0}
        return [
            Enclosure(lower=factors[name] * value * (1 - self.width), upper=factors[name] * value * (1 + self.width))
            for name in names
        ]

    def slopes(self) -> dict[str, Tensor]:
        one = torch.ones_like(self.curve)
        return {"loss": one, "probability": one, "gradient": 3 * one}

    def usable(self) -> Tensor:
        return self.curve >= 0

    def near(self, b: Tensor, factor: float) -> Tensor:
        return b * self.largest <= factor


def _settled(curve: float, width: float, largest: float = 1.0, slack: float = 1e-13) -> tuple[float, float, int, bool]:
    series = Quadratic(_of(curve), _of(width), _of(largest))
    budgets = {"loss": _of(1e-3), "gradient": _of(1.5e-3)}
    inverse, settled = settle(series, budgets, _of(slack))
    return inverse.accepted.item(), inverse.rejected.item(), int(inverse.binding), bool(settled)


def test_the_root_by_hand() -> None:
    """3(b + c b^2) = 1.5e-3: the gradient binds."""
    for curve in (0.0, 1.0, 50.0):
        low, high, binding, settled = _settled(curve, 1e-13)
        root = 5e-4 if not curve else (-1 + (1 + 4 * curve * 5e-4) ** 0.5) / (2 * curve)
        assert settled
        assert low < root < high
        assert high / low - 1 <= 1e-9
        assert root / low - 1 < 1e-11
        assert binding == 1


def test_enclosures_that_are_too_wide_settle_nothing() -> None:
    assert _settled(1.0, 1e-11)[-1]
    assert not _settled(1.0, 1e-9)[-1]
    assert not _settled(1.0, 1e-3)[-1]
    # the slack of direct evaluation counts as well
    assert not _settled(1.0, 0.0, slack=1e-9)[-1]


def test_rows_that_are_not_for_series() -> None:
    """Not usable, a start that is too far, and bounds that are not near a line: left to direct evaluation."""
    assert not _settled(-1.0, 1e-13)[-1]
    assert _settled(1.0, 1e-13, largest=100.0)[-1]
    assert not _settled(1.0, 1e-13, largest=1000.0)[-1]
    assert not _settled(float("nan"), 1e-13)[-1]


def test_a_zero_slope_is_not_settled() -> None:
    class Flat(Quadratic):
        def slopes(self) -> dict[str, Tensor]:
            return {name: 0 * value for name, value in super().slopes().items()}

    flat = Flat(_of(1.0), _of(1e-13), _of(1.0))
    assert not settle(flat, {"loss": _of(1e-3)}, _of(1e-13))[1]


def test_an_end_that_is_not_accepted_is_not_settled() -> None:
    """A fifth power, on which the secant method swings away from the root: both of its ends are over the budget."""

    class Steep(Quadratic):
        def enclosures(self, names: Sequence[str], b: Tensor) -> list[Enclosure]:
            value = 1e-3 * (b / 1e-3) ** 5 * (1 + 1e-3)
            return [Enclosure(lower=value, upper=value) for _ in names]

    inverse, settled = settle(Steep(_of(1.0), _of(0.0), _of(1.0)), {"loss": _of(1e-3)}, _of(1e-13))
    assert (inverse.accepted / 1e-3) ** 5 > 1
    assert not settled


def test_direct_evaluation_agrees_on_both_ends() -> None:
    """On random and adversarial states: what is settled is accepted at one end and rejected at the other."""
    contract, judged = contract_named("conditioned"), 0
    for states in many_states(140, queries=20):
        family = Analytic(sf.DebyePair()).at(states).unit_family(contract)
        series = family.series()
        assert series is not None
        budgets = {name: torch.full_like(states.temperature, 1e-5) for name in ("loss", "gradient")}
        inverse, settled = settle(series, budgets, family.slack())
        below, above = family.at(inverse.accepted), family.at(inverse.rejected)
        met = (below.loss <= 1e-5) & (below.gradient <= 1e-5)
        assert met[settled].all()
        assert ((above.loss > 1e-5) | (above.gradient > 1e-5))[settled].all()
        assert (inverse.rejected <= inverse.accepted * (1 + 1e-9))[settled].all()
        judged += int(settled.sum())
    assert judged > 30
