"""Intervals from balls, and as many bits as the budgets ask for."""

from __future__ import annotations

import math

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth.in_arb import BITS, InArb, interval, length_interval, most_bits, shortfall
from suffice.truth.outputs import Outputs
from tests.reference.exact import exact_outputs
from tests.support.judged import small_states


def test_ends_are_the_neighbouring_numbers() -> None:
    with ctx.workprec(200):
        third = arb(1) / 3
        low, high = interval(third)
        assert math.nextafter(low, 1.0) == high
        assert arb(low) < third < arb(high)
        assert interval(arb(0.5)) == (0.5, 0.5)
        low, high = interval(arb(0, 1.0))
        assert low == 0
        assert 1.0 <= high < 1.0 + 1e-8
        assert interval(arb(10) ** -400) == (0.0, 5e-324)
        assert interval(arb(10) ** 400) == (1.7976931348623157e308, math.inf)
        assert interval(arb("nan")) == (0.0, math.inf)


def test_lower_ends_are_rounded_down() -> None:
    with ctx.workprec(200):
        for n in range(1, 40):
            ball = arb(n) / 7
            low, high = interval(ball)
            assert not arb(low) > ball
            assert not arb(high) < ball


def test_lengths_of_vectors_that_touch_zero() -> None:
    assert length_interval([arb(3), arb(4)]) == (5.0, 5.0)
    low, high = length_interval([arb(0, 3.0), arb(4)])
    assert low <= 4.0
    assert 5.0 <= high < 6.0
    assert length_interval([arb("nan"), arb(1)]) == (0.0, math.inf)


def test_bits_grow_until_the_budget_is_decided() -> None:
    asked = []

    def at(bits: int) -> dict[str, tuple[float, float]]:
        asked.append(bits)
        return {"loss": (0.5, 1 + 2.0 ** -(bits // 64))}

    assert most_bits(at, {"loss": 1.1})["loss"] == (0.5, 1.0625)
    assert asked == [128, 256]
    asked.clear()
    most_bits(at, {"loss": 0.25})
    assert asked == [128]
    asked.clear()
    assert most_bits(at, {"loss": 0.75})["loss"][1] == 1 + 2.0**-64
    assert tuple(asked) == BITS
    asked.clear()
    most_bits(at, {})
    assert asked == [128]


def test_bits_grow_for_every_budget() -> None:
    asked = []

    def at(bits: int) -> dict[str, tuple[float, float]]:
        asked.append(bits)
        return {"loss": (0.0, 0.5), "gradient": (0.0, 128 / bits)}

    assert most_bits(at, {"loss": 1.0, "gradient": 0.25})["gradient"] == (0.0, 0.25)
    assert asked == [128, 256, 512]


def test_a_winner_is_proved_not_likely() -> None:
    """At 128 bits the balls of two scores of 1e4 that differ by 1e-40 overlap: only more bits tell them apart."""
    bank = sf.ClassBank(torch.eye(8)[:2], [1e4, 1e4], [0.0, 1e-40])
    feature = torch.zeros(1, 8)
    feature[:, :2] = 0.75
    state = sf.States(bank, feature, [0], 0.1)
    for prediction, best in ((0, False), (1, True)):
        outputs = Outputs(prediction=torch.tensor([prediction]))
        few = InArb().errors(state, outputs, {})["prediction"]
        assert few.low.item() == 0
        assert few.high.item() > 0
        many = InArb().errors(state, outputs, {"prediction": torch.zeros(1)})["prediction"]
        assert (many.high.item() == 0) == best
        assert (many.low.item() > 0) != best


def test_balls_that_overlap_leave_the_winner_open() -> None:
    state = sf.States(sf.ClassBank(torch.eye(6)[:2], [1.0, 2.0]), torch.ones(1, 6), [0], 1.0)
    scores = [arb(0, 1e-3), arb(1e-6, 1e-3)]
    for prediction in (0, 1):
        low, high = shortfall(state, scores, prediction)
        assert low == 0
        assert high > 1e-3
    assert shortfall(state, [arb(0, 1e-3), arb(1, 1e-3)], 1) == (0.0, 0.0)


def test_what_a_few_bits_have_found_is_kept() -> None:
    ends = iter([(0.0, 2.0), (0.5, 3.0), (0.25, math.inf)])
    assert most_bits(lambda _: {"loss": next(ends, (0.0, math.inf))}, {"loss": 1.0})["loss"] == (0.5, 2.0)


@pytest.mark.parametrize("seed", range(12))
def test_all_errors_against_the_oracle(seed: int) -> None:
    state, generator = small_states(seed), torch.Generator().manual_seed(seed)
    exact, bank = exact_outputs(state), state.bank
    outputs = Outputs(
        loss=torch.rand(1, generator=generator, dtype=torch.float64),
        gradient=torch.randn(1, bank.dim, generator=generator, dtype=torch.float64),
        log_probabilities=torch.randn(1, bank.num_classes, generator=generator, dtype=torch.float64),
        prediction=torch.tensor([seed % bank.num_classes]),
    )
    with ctx.workprec(900):
        assert outputs.loss is not None
        assert outputs.gradient is not None
        assert outputs.log_probabilities is not None
        given = [arb(x).exp() for x in outputs.log_probabilities[0].tolist()]
        vector = zip(outputs.gradient[0].tolist(), exact.gradient, strict=True)
        best = max(exact.scores, key=lambda q: float(q.mid()))
        errors = {
            "loss": abs(arb(outputs.loss.item()) - exact.loss),
            "probability": sum((abs(a - b) for a, b in zip(given, exact.probabilities, strict=True)), arb(0)) / 2,
            "gradient": sum(((arb(x) - g) ** 2 for x, g in vector), arb(0)).sqrt(),
            "prediction": best - exact.scores[seed % bank.num_classes],
        }
        for name, error in errors.items():
            # a budget that only the last digits decide
            limit = {name: torch.tensor([float(error.mid())], dtype=torch.float64)}
            found = InArb().errors(state, outputs, {} if name == "prediction" else limit)
            low, high = found[name].low.item(), found[name].high.item()
            assert arb(low) <= error.upper()
            assert error.lower() <= arb(high)
            if name != "prediction":
                assert high - low <= 1e-15 * high


def test_probabilities_of_nothing_and_of_more_than_everything() -> None:
    state = sf.States(sf.ClassBank(torch.eye(3, dtype=torch.float64)[:2], [0.0, 0.0]), torch.ones(1, 3), [0], 1.0)
    for given, error in (([-math.inf, 0.0], 0.5), ([-math.inf, -math.inf], 0.5), ([800.0, -math.inf], math.inf)):
        outputs = Outputs(log_probabilities=torch.tensor([given], dtype=torch.float64))
        found = InArb().errors(state, outputs, {"probability": torch.ones(1)})["probability"]
        assert found.low.item() <= error <= found.high.item()
        assert found.low.item() >= min(error, 1e300) * (1 - 1e-15)
