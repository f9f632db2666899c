"""Any program's outputs, judged: never wrongly, in words, and refused where there is nothing to judge."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from flint import arb, ctx

import suffice as sf
from tests.reference.exact import exact_outputs
from tests.support.judged import Tally, judged_against_arb, small_states


def test_verdicts_agree_with_arb() -> None:
    """Errors of 0.5, 2 and 1 +- 10^-k times budgets of 1e-3 to 1e-14; p = 2 to 300, k up to 1e6."""
    tally = Tally()
    for seed in range(80):
        judged_against_arb(seed, 12, tally)
    assert tally.total == 960
    assert tally.words["certified"] > 300
    assert tally.words["violated"] > 300
    assert tally.words["inconclusive"] <= 2
    assert {"Arb", "debye6/float64"} <= set(tally.truths)


@pytest.mark.slow
def test_20000_verdicts_agree_with_arb() -> None:
    tally = Tally()
    for seed in range(400, 820):
        judged_against_arb(seed, 48, tally)
    assert tally.total >= 20_000
    assert tally.words["inconclusive"] <= 20


def _right(state: sf.States) -> dict[str, torch.Tensor]:
    exact = exact_outputs(state)
    with ctx.workprec(300):
        return {
            "loss": torch.tensor([float(exact.loss)], dtype=torch.float64),
            "gradient": torch.tensor([[float(g) for g in exact.gradient]], dtype=torch.float64),
            "log_probabilities": torch.tensor([[float(p.log()) for p in exact.probabilities]], dtype=torch.float64),
            "prediction": torch.tensor([max(range(len(exact.scores)), key=lambda j: float(exact.scores[j]))]),
        }


ALL = sf.Budgets(loss=1e-14, gradient=1e-12, probability=1e-14, prediction=True)


@pytest.mark.parametrize("seed", [0, 1, 3, 10, 21, 22, 23])
def test_what_is_right_to_the_last_digit_is_certified(seed: int) -> None:
    state = small_states(seed)
    given = _right(state)
    scale = {"loss": 1 + given["loss"].item(), "gradient": 1 + given["gradient"].norm().item()}
    budgets = sf.Budgets(
        loss=1e-15 * scale["loss"], gradient=1e-15 * scale["gradient"], probability=1e-15, prediction=True
    )
    found = sf.judge(state, budgets, **given)
    assert found.verdict.tolist() == ["certified"]
    # and the next number that a budget excludes is violated
    found = sf.judge(state, sf.Budgets(loss=1e-13), loss=given["loss"] + 1.1e-13 + 1e-15 * scale["loss"])
    assert found.verdict.tolist() == ["violated"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_violated(bad: float) -> None:
    state = small_states(3)
    given = _right(state)
    for name, budgets in (("loss", sf.Budgets(loss=1e3)), ("gradient", sf.Budgets(gradient=1e3))):
        values = given[name].clone()
        values.view(-1)[0] = bad
        found = sf.judge(state, budgets, **{name: values})
        assert found.verdict.tolist() == ["violated"]
        assert getattr(found, name).low.item() == math.inf
        assert "is no number" in str(found)
    log_p = given["log_probabilities"].clone()
    log_p[0, 0] = bad
    found = sf.judge(state, sf.Budgets(probability=1.0), log_probabilities=log_p)
    # a probability of zero is a probability
    assert found.verdict.tolist() == (["certified"] if bad == -math.inf else ["violated"])


def test_one_bad_output_is_enough() -> None:
    states = small_states(4)[[0, 0, 0]]
    given = {name: values[[0, 0, 0]] for name, values in _right(small_states(4)).items()}
    given["loss"][1] = math.nan
    given["prediction"][2] = 99
    found = sf.judge(states, sf.Budgets(loss=1e-3, gradient=1e-3, prediction=True), **given)
    assert found.verdict.tolist() == ["certified", "violated", "violated"]
    assert found.gradient is not None
    assert (found.gradient.high < 1e-3).all()
    assert found.counts == {"certified": 1, "inconclusive": 0, "violated": 2}
    assert found.certified.tolist() == [True, False, False]
    assert "no such class" in found.explain(2)


def test_tied_winners_are_right() -> None:
    """A feature at the same angle to two classes: both are best, the third is not."""
    for dim in (3, 8):
        bank = sf.ClassBank(torch.eye(dim)[:3], [50.0, 50.0, 50.0])
        feature = torch.zeros(3, dim)
        feature[:, :2] = 0.75
        found = sf.judge(sf.States(bank, feature, [0, 0, 0], 0.1), sf.Budgets(prediction=True), prediction=[0, 1, 2])
        assert found.verdict.tolist() == ["certified", "certified", "violated"]
        assert found.prediction is not None
        assert found.prediction.high.tolist()[:2] == [0.0, 0.0]
        assert found.prediction.low[2] > 1


def test_a_winner_by_a_hair() -> None:
    """A bias of 1e-30 decides between classes that are else equal: no float64 shows it."""
    bank = sf.ClassBank(torch.eye(8)[:2], [50.0, 50.0], [0.0, 1e-30])
    feature = torch.zeros(2, 8)
    feature[:, :2] = 0.75
    found = sf.judge(sf.States(bank, feature, [0, 0], 0.1), sf.Budgets(prediction=True), prediction=[0, 1])
    assert found.verdict.tolist() == ["violated", "certified"]
    assert found.truth.tolist() == ["Arb", "Arb"]


def test_every_state_has_its_own_budget_and_every_dtype_its_values() -> None:
    state = small_states(0)[[0] * 4]
    loss = _right(small_states(0))["loss"].item()
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        given = torch.full((4,), loss, dtype=dtype)
        with ctx.workprec(300):
            off = float(abs(arb(given[0].item()) - exact_outputs(small_states(0)).loss))
        budget = torch.tensor([0.5, 0.99, 1.01, 2.0], dtype=torch.float64) * max(off, 1e-15)
        expected = ["violated", "violated", "certified", "certified"] if off > 1e-15 else None
        found = sf.judge(state, sf.Budgets(loss=budget), loss=given)
        assert expected is None or found.verdict.tolist() == expected
        if dtype != torch.bfloat16:
            again = sf.judge(state, sf.Budgets(loss=budget), loss=given.numpy())
            assert again.verdict.tolist() == found.verdict.tolist()


def test_an_output_without_a_budget_is_enclosed_and_has_no_say() -> None:
    state = small_states(5)
    given = _right(state)
    found = sf.judge(state, sf.Budgets(loss=1e-3), loss=given["loss"], gradient=given["gradient"] + 5)
    assert found.verdict.tolist() == ["certified"]
    assert found.gradient is not None
    assert found.gradient.low.item() > 5
    assert "(no budget)" in found.explain(0)
    assert found.probability is None


def test_chunks_and_batches_change_nothing() -> None:
    states = next(iter(sf.builtin_collection())).states[:40]
    object.__setattr__(states, "chunk", 7)
    right = sf.evaluate(states, sf.DebyePair(order=2))
    budgets = torch.logspace(-8, -5, 40, dtype=torch.float64)
    found = sf.judge(states, sf.Budgets(gradient=budgets), gradient=right.gradient)
    assert set(found.verdict.tolist()) == {"certified", "violated"}
    assert found.gradient is not None
    for i in (0, 6, 7, 39):
        alone = sf.judge(states[i : i + 1], sf.Budgets(gradient=budgets[i].item()), gradient=right.gradient[i : i + 1])
        assert alone.verdict[0] == found.verdict[i]
        assert alone.gradient is not None
        assert alone.gradient.low[0] <= found.gradient.high[i]
        assert found.gradient.low[i] <= alone.gradient.high[0]
        assert alone.gradient.low[0] > 0.9 * found.gradient.high[i]


def test_the_worst_is_named() -> None:
    states = next(iter(sf.builtin_collection())).states[:6]
    right = sf.evaluate(states, sf.DebyePair(order=6))
    off = torch.tensor([0.0, 2e-5, 0.0, 5e-5, 0.0, 0.0], dtype=torch.float64)
    found = sf.judge(states, sf.Budgets(loss=1e-5, gradient=1e-3), loss=right.loss + off, gradient=right.gradient)
    assert found.worst() == (3, "loss")
    lines = str(found).splitlines()
    assert lines[0] == "6 states: 4 certified, 2 violated"
    assert lines[1] == "  loss: violated at 2 states, by up to 5 times the budget"
    assert lines[2].startswith("worst, by loss: state 3: violated")
    assert "5 times the budget" in str(found)
    clean = sf.judge(states, sf.Budgets(loss=1.0), loss=right.loss)
    assert "nearest to its budget" in str(clean)


def test_usage() -> None:
    states = small_states(3)
    dim, classes = states.dim, states.num_classes
    loss = torch.zeros(1)
    cases = [
        (
            sf.Budgets(loss=1.0, gradient=1.0),
            {"loss": loss},
            ValueError,
            "Expected gradient=, for which there",
        ),
        (sf.Budgets(probability=1.0), {"loss": loss}, ValueError, "Expected log_probabilities=, for which"),
        (sf.Budgets(loss=1.0), {"loss": torch.tensor(1.0)}, ValueError, "one number a state, not their mean"),
        (sf.Budgets(loss=1.0), {"loss": torch.zeros(2)}, ValueError, r"Expected loss of shape \[1\], but got \[2\]"),
        (
            sf.Budgets(loss=1.0),
            {"loss": torch.zeros(1, dtype=torch.int64)},
            TypeError,
            "loss to be a floating",
        ),
        (
            sf.Budgets(loss=1.0),
            {"loss": np.zeros(1, dtype=np.longdouble)},
            TypeError,
            "loss in float16, float32",
        ),
        (sf.Budgets(gradient=1.0), {"gradient": torch.zeros(1, dim + 1)}, ValueError, "Expected gradient of shape"),
        (
            sf.Budgets(probability=1.0),
            {"log_probabilities": torch.zeros(classes)},
            ValueError,
            "ies of shape",
        ),
        (sf.Budgets(prediction=True), {"prediction": torch.zeros(1)}, TypeError, "prediction to be integers"),
        (sf.Budgets(prediction=True), {"prediction": [True]}, TypeError, "prediction to be integers"),
        (sf.Budgets(prediction=True), {"prediction": [0, 0]}, ValueError, r"Expected prediction of shape \[1\]"),
        (sf.Budgets(loss=torch.ones(3)), {"loss": loss}, ValueError, "Expected one loss budget"),
    ]
    for budgets, given, error, message in cases:
        with pytest.raises(error, match=message):
            sf.judge(states, budgets, **given)
    found = sf.judge(states, sf.Budgets(loss=1e6), loss=np.zeros(1, dtype=">f4"))
    with pytest.raises(IndexError, match=r"Expected a state in \[0, 1\), but got 1"):
        found.explain(1)


def test_no_state_is_no_verdict() -> None:
    states = small_states(3)[[]]
    found = sf.judge(states, sf.Budgets(loss=1.0), loss=torch.zeros(0))
    assert len(found) == 0
    assert str(found) == "no state was judged"
