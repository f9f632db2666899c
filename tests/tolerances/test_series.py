"""Inversion on scalars: a row is settled where enclosures prove both ends, and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.base import Flags, Scalars
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic
from suffice.tolerances.invert import invert, invert_directly
from suffice.tolerances.series import settle
from tests.reference.states import many_states


def _of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass
class Quadratic:
    """Bounds b + curve b^2 for the loss and three times that for the gradient, known up to a relative width."""

    curve: Scalars
    width: Scalars
    largest: Scalars

    def end(self, name: str, b: Scalars, *, upper: bool) -> Scalars:
        value = b + self.curve * b * b
        return {"loss": 1.0, "gradient": 3.0}[name] * value * (1 + self.width if upper else 1 - self.width)

    def slopes(self) -> dict[str, Scalars]:
        one = np.ones_like(self.curve)
        return {"loss": one, "probability": one, "gradient": 3 * one}

    def magnified(self) -> Scalars:
        return np.full_like(self.curve, 6.0)

    def usable(self) -> Flags:
        return self.curve >= 0

    def near(self, b: Scalars, factor: float) -> Flags:
        return b * self.largest <= factor


def _made(kind: type[Quadratic], *values: float) -> Quadratic:
    return kind(*(np.array([value]) for value in values))


def _settled(curve: float, width: float, largest: float = 1.0, slack: float = 1e-13) -> tuple[float, float, int, bool]:
    series = _made(Quadratic, curve, width, largest)
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
        def slopes(self) -> dict[str, Scalars]:
            return {name: 0 * value for name, value in super().slopes().items()}

    flat = _made(Flat, 1.0, 1e-13, 1.0)
    assert not settle(flat, {"loss": _of(1e-3)}, _of(1e-13))[1]


def test_an_end_that_is_not_accepted_is_not_settled() -> None:
    """A fifth power, which is no parabola: both of the ends that this gives are over the budget."""

    class Steep(Quadratic):
        def end(self, _name: str, b: Scalars, *, upper: bool) -> Scalars:
            del upper
            return 1e-3 * (b / 1e-3) ** 5 * (1 - 1e-4)

    inverse, settled = settle(_made(Steep, 1.0, 0.0, 1.0), {"loss": _of(1e-3)}, _of(1e-13))
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


def _row_settled(contract: str, log_pi: Tensor, unit: sf.Allowances, budgets: sf.Budgets, **head: Any) -> bool:
    """Whether the series settle the one row of a head; b* must be what direct evaluation accepts in any case."""
    usual: dict[str, Any] = {"gradient_scale": _of(1.0), "distances": torch.ones_like(log_pi)} | head
    family = SoftmaxFamily(
        contract=contract_named(contract),
        head=sf.SoftmaxHead(log_probabilities=log_pi, target=torch.tensor([0]), **usual),
        unit=unit,
    )
    series = family.series()
    assert series is not None
    _, settled = settle(series, budgets.limits(family.slack()), family.slack())
    b, direct = (way(family, budgets).accepted.item() for way in (invert, invert_directly))
    assert b <= direct * (1 + 1e-8)
    return bool(settled)


_HALVES = math.log(0.5)
_ONES = torch.ones(1, 3, dtype=torch.float64)


@pytest.mark.parametrize("last", [-760.0, -742.0])
def test_a_distance_is_not_lost_with_its_probability(last: float) -> None:
    """A probability that vanishes times a distance of 1e300 is no zero."""
    log_pi = _of(_HALVES, _HALVES, last)[None]
    unit = sf.Allowances(d=_ONES, a=0 * _ONES)
    budgets = sf.Budgets(gradient=1e-45 if last < -750 else 1e-30)
    near = _of(1e-40, 1e-40, 1e-40)[None] * (1.0 if last < -750 else 1e20)
    assert _row_settled("centered", log_pi, unit, budgets, distances=near)
    assert not _row_settled("centered", log_pi, unit, budgets, distances=_of(1e-40, 1e-40, 1e300)[None])


@pytest.mark.parametrize("contract", ["conditioned", "centered"])
def test_a_ratio_allowance_is_not_lost_with_its_probability(contract: str) -> None:
    log_pi, d = _of(_HALVES, _HALVES, -760.0)[None], 1e-40 * _ONES
    budgets = sf.Budgets(gradient=1e-42)
    assert _row_settled(contract, log_pi, sf.Allowances(d=d, a=0 * d), budgets)
    assert not _row_settled(contract, log_pi, sf.Allowances(d=d, a=_of(0.0, 0.0, 1e300)[None]), budgets)


@pytest.mark.parametrize("contract", ["conditioned", "centered"])
def test_budgets_among_the_subnormal_numbers(contract: str) -> None:
    """There a product with the scale loses all digits."""
    log_pi = _of(_HALVES, _HALVES)[None]
    size = 1.5 * (1 - 1e-10) * 2.0**-74 * (2.0**-1000 / 1e-300)
    unit = sf.Allowances(d=_of(size, size)[None], a=_of(0.0, 0.0)[None])
    assert _row_settled(contract, log_pi, unit, sf.Budgets(gradient=2.0**-300), gradient_scale=_of(1e-60))
    assert not _row_settled(contract, log_pi, unit, sf.Budgets(gradient=2.0**-1074), gradient_scale=_of(1e-300))


@pytest.mark.parametrize(
    ("contract", "scale", "h_bound"), [("conditioned", 200, 0), ("centered", 200, 0), ("centered", 0, 150)]
)
def test_budgets_that_are_subnormal_before_the_scale(contract: str, scale: int, h_bound: int) -> None:
    """A gradient's budget of 1e-263 over a temperature of 1e-60 is met by total variations of two subnormal steps.

    The numbers are such that the last point of a secant method lies at one of these steps: 43% past the budget.
    """
    log_pi, ones = _of(_HALVES, _HALVES)[None], torch.ones(1, 2, dtype=torch.float64)
    unit, steps = sf.Allowances(d=1.37 * 2.0**-74 * ones, a=0 * ones), float.fromhex("0x1.0d4f2f29e7d0ap+1")
    head = {"gradient_scale": _of(2.0**scale), "h_bound": 2.0**h_bound, "distances": 2.0 ** (h_bound + 1) * ones}
    subnormal = sf.Budgets(gradient=steps * 2.0 ** (scale + h_bound - 1074))
    assert not _row_settled(contract, log_pi, unit, subnormal, **head)
    assert _row_settled(contract, log_pi, unit, sf.Budgets(gradient=2.0 ** (scale + h_bound - 940)), **head)


def test_probabilities_that_do_not_add_up_to_one() -> None:
    log_pi = torch.log_softmax(_of(0.3, -0.4, 1.1)[None], dim=1)
    unit = sf.Allowances(d=_of(1.0, 0.5, 0.7)[None], a=_ONES)
    budgets = sf.Budgets(probability=1e-6)
    assert _row_settled("centered", log_pi, unit, budgets)
    for off in (0.99e-6, 1e-11):
        assert not _row_settled("centered", log_pi - off, unit, budgets)


def test_budgets_that_are_nearly_subnormal_are_not_for_series() -> None:
    """Also those on the gradient that are so before their scale, of 6 here: sums near them have lost their digits."""

    def settled(loss: float, gradient: float) -> bool:
        budgets = {"loss": _of(loss), "gradient": _of(gradient)}
        return bool(settle(_made(Quadratic, 1.0, 1e-13, 1.0), budgets, _of(1e-13))[1])

    assert settled(2.0**-950, 2.0**-940)
    assert not settled(2.0**-970, 2.0**-940)
    assert settled(1e-3, 2.0**-950)
    assert not settled(1e-3, 2.0**-959)
