"""Enclosures of heads' exact outputs: every truth contains what Arb finds, and ties are ties."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.truth.heads import ByProduct, HeadInArb, HeadTies, gradient_of, head_differences, realized_errors
from suffice.truth.outputs import Outputs
from tests.reference.heads import exact_head, head_errors, head_of_scores
from tests.support.moved_heads import MovedRows, adversarial_states, errors_of, gaussian_states

ADVERSARIAL = adversarial_states()


def outputs_of(states: sf.HeadStates, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """What a program in some dtype makes of them."""
    h, w = states.hidden.to(dtype), states.bank.weight.to(dtype)
    scores = (h @ w.T + states.bank.bias.to(dtype)) / states.temperature[:, None].to(dtype)
    log_p = scores.log_softmax(dim=1)
    assert states.labels is not None
    pull = log_p.exp().scatter_add(1, states.labels[:, None], -torch.ones_like(log_p[:, :1]))
    gradient = pull @ w / states.temperature[:, None].to(dtype)
    loss = -log_p.gather(1, states.labels[:, None]).squeeze(1)
    return {"loss": loss, "log_probabilities": log_p, "gradient": gradient, "prediction": scores.argmax(dim=1)}


def true_errors(states: sf.HeadStates, given: dict[str, Tensor], n: int) -> dict[str, arb]:
    exact = exact_head(states[n : n + 1])
    with ctx.workprec(2600):
        lp = [None if x == -torch.inf else arb(x) for x in given["log_probabilities"][n].double().tolist()]
        other = head_of_scores(states[n : n + 1], lp, states.bank.weight)
        apart = [abs((arb(0) if a is None else a.exp()) - b) for a, b in zip(lp, exact.probabilities, strict=True)]
        y = int(states.labels[n]) if states.labels is not None else 0
        here = exact.log_probabilities[y]
        assert here is not None
        squares = [
            (arb(a) - b) * (arb(a) - b)
            for a, b in zip(given["gradient"][n].double().tolist(), exact.gradient, strict=True)
        ]
        return {
            "loss": abs(arb(given["loss"][n].item()) + here),
            "probability": sum(apart, arb(0)) / 2,
            "gradient": arb(sum(squares, arb(0)).abs_upper()).sqrt(),
            "kl": head_errors(states[n : n + 1], exact, other).kl,
        }


@pytest.mark.parametrize("truth", [ByProduct(), HeadInArb()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_intervals_contain_the_errors(truth: ByProduct | HeadInArb, dtype: torch.dtype) -> None:
    for seed in range(4):
        states = gaussian_states(seed)
        given = outputs_of(states, dtype)
        outputs = Outputs(
            **{name: x if name == "prediction" else x.double() for name, x in given.items()}, divergence=True
        )
        found = truth.errors(states, outputs, {})
        for n in range(len(states)):
            for name, error in true_errors(states, given, n).items():
                assert found[name].low[n].item() <= error.upper()
                assert error <= found[name].high[n].item(), name
                if dtype == torch.float32 and name != "kl" and float(error) > 1e-7:
                    assert found[name].high[n] <= 1.001 * found[name].low[n]


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_states_are_judged(name: str) -> None:
    """A float32 program on them: nothing is said that Arb contradicts."""
    states = ADVERSARIAL[name]
    given = outputs_of(states)
    budgets = sf.Budgets(loss=1e-6, probability=1e-6, gradient=1e-5, kl=1e-12)
    found = sf.judge(
        states, budgets, loss=given["loss"], log_probabilities=given["log_probabilities"], gradient=given["gradient"]
    )
    limits = {"loss": 1e-6, "probability": 1e-6, "gradient": 1e-5, "kl": 1e-12}
    for n in range(len(states)):
        if not torch.isfinite(given["gradient"][n]).all() or not torch.isfinite(given["loss"][n]):
            assert found.verdict[n] == "violated"
            continue
        if (given["log_probabilities"][n].isnan()).any():
            assert found.verdict[n] == "violated"
            continue
        if (torch.isinf(given["log_probabilities"][n]) & ~states.bank.masked).any():
            assert found.verdict[n] == "violated"
            continue
        errors = true_errors(states, given, n)
        kept = all(error <= limits[key] for key, error in errors.items())
        assert found.verdict[n] == ("certified" if kept else "violated"), (n, {k: float(v) for k, v in errors.items()})


def test_predictions_of_ties() -> None:
    """Equal sums are equal, one ulp is not; a masked class is never right, and no class neither."""
    weight = torch.tensor([[1.0, 0.0], [1.0, 2.0**-60], [1.0, 2.0**-60], [0.5, 0.0], [9.0, 9.0]], dtype=torch.float64)
    head = sf.LinearHead(weight, [0.0, 0.0, 0.0, 0.0, -torch.inf])
    states = sf.HeadStates(head, torch.ones(6, 2), [0, 0, 0, 0, 0, 0])
    found = sf.judge(states, sf.Budgets(prediction=True), prediction=[0, 1, 2, 3, 4, 7])
    assert found.verdict.tolist() == ["violated", "certified", "certified", "violated", "violated", "violated"]
    assert found.truth[0] == "rational arithmetic"
    assert found.prediction is not None
    assert found.prediction.low[0] <= 2.0**-60 <= found.prediction.high[0]
    assert head_differences(states[:1], [1, 3], 0) == [Fraction(1, 2**60), Fraction(-1, 2)]
    unlabelled = sf.HeadStates(head, torch.ones(1, 2))
    assert sf.judge(unlabelled, sf.Budgets(prediction=True), prediction=[1]).certified.all()
    with pytest.raises(sf.BudgetError, match="Expected labels to judge loss"):
        sf.judge(unlabelled, sf.Budgets(prediction=True), prediction=[1], loss=torch.zeros(1))
    in_weights = sf.HeadStates(head, torch.ones(1, 2), [0], coordinate="weights")
    with pytest.raises(sf.BudgetError, match="coordinate='hidden'"):
        sf.judge(in_weights, sf.Budgets(gradient=1.0), gradient=torch.zeros(1, 2))


def test_a_masked_class_is_never_right() -> None:
    """Not beside the best class either, whose place it has where masked ones are left out."""
    head = sf.LinearHead(torch.tensor([[2.0], [9.0], [1.0]]), [0.0, -torch.inf, 0.0])
    found = sf.judge(sf.HeadStates(head, torch.ones(3, 1)), sf.Budgets(prediction=True), prediction=[0, 1, 2])
    assert found.verdict.tolist() == ["certified", "violated", "violated"]


def test_ties_are_all_that_rational_arithmetic_is_asked_for() -> None:
    states = gaussian_states(1)
    outputs = Outputs(loss=torch.zeros(6).double(), prediction=torch.zeros(6).long())
    found = HeadTies().errors(states, outputs, {})
    assert torch.isinf(found["loss"].high).all()
    product = ByProduct().errors(states, outputs, {})
    assert (found["prediction"].low <= product["prediction"].high).all()
    assert (product["prediction"].low <= found["prediction"].high).all()


def test_large_heads_are_left_to_the_product() -> None:
    head = sf.LinearHead(torch.zeros(3000, 1024, dtype=torch.float16))
    assert not HeadInArb.takes(sf.HeadStates(head, torch.ones(1, 1024)))
    assert HeadInArb.takes(gaussian_states(1))


@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_within_their_radius(seed: int) -> None:
    states = gaussian_states(seed)
    assert states.labels is not None
    found = gradient_of(states.bank, sf.ExactHead().at(states), states.labels)
    for n in range(len(states)):
        exact = exact_head(states[n : n + 1]).gradient
        with ctx.workprec(500):
            square = sum(
                ((arb(a) - b) * (arb(a) - b) for a, b in zip(found.value[n].tolist(), exact, strict=True)), arb(0)
            )
            assert square <= arb(found.radius[n].item()) ** 2
        assert found.radius[n] < 1e-9 * (1 + found.value[n].norm())


def test_a_realization_s_true_errors_are_enclosed() -> None:
    """Rows in float16 against the stored ones: the ends are those of Arb, far below what a contract can say."""
    for seed in (1, 3):
        states = gaussian_states(seed)
        realization = MovedRows(states.bank.weight.half().double())
        made = realization.at(states)
        like = states.temperature
        limits = dict.fromkeys(("loss", "probability", "kl", "gradient", "prediction"), torch.full_like(like, 1e-3))
        found = realized_errors(states, made, limits)
        for n in range(len(states)):
            errors = errors_of(made, n, realization.rows)
            for name in ("loss", "probability", "kl", "gradient"):
                assert found[name].low[n].item() <= getattr(errors, name)
                assert getattr(errors, name) <= found[name].high[n].item()
            assert errors.same == (found["prediction"].high[n].item() == 0)
        assert (found["probability"].high <= 1.001 * found["probability"].low + 1e-9).all()
