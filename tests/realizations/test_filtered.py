"""Filters: what they leave out moves gradients, losses and probabilities by no more than the bounds say."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.realizations.executed.realization import Execution
from suffice.realizations.filtered import FilteredRealized, residuals_of
from tests.support.batches import random_batch, trained_proco
from tests.support.skewed_heads import skewed_head_states

F64 = torch.float64


def _residuals(states: sf.HeadStates) -> Tensor:
    scores = (states.hidden @ states.head.weight.double().T + states.head.bias) / states.temperature[:, None]
    g = torch.softmax(scores, dim=1)
    rows = torch.arange(len(g))
    # the label's is minus the sum of the others: 1 - pi would have no digits where pi is nearly 1
    g[rows, states.labels] = 0
    g[rows, states.labels] = -g.sum(dim=1)
    return g


def _gradient(states: sf.HeadStates, g: Tensor) -> Tensor:
    if states.coordinate == "hidden":
        return g @ states.head.weight.double() / states.temperature[:, None]
    rows = torch.cat([states.hidden, torch.ones(len(states), 1, dtype=F64)], dim=1)
    return (g[:, :, None] * rows[:, None, :]).flatten(1) / states.temperature[:, None]


@pytest.mark.parametrize("coordinate", ["hidden", "weights"])
@pytest.mark.parametrize("threshold", [0.0, 2.0**-12, 0.05, 0.7, 2.0])
def test_what_is_left_out_of_a_heads_gradient(threshold: float, coordinate: str) -> None:
    moved = 0
    for seed in range(18):
        states = skewed_head_states(seed, coordinate)
        g = _residuals(states)
        kept = torch.where(g.abs() < threshold, 0.0, g)
        true = _gradient(states, g - kept).norm(dim=1)
        after = sf.Filtered(threshold).at(states).after
        assert after is not None
        assert bool((true <= after.gradient * (1 + 1e-12) + 1e-300).all())
        assert not after.loss.any()
        if coordinate == "weights":
            # orthogonal classes: nothing is lost, but where a class is near its threshold
            assert bool((after.gradient <= true * (1 + 1e-9) + 1e-140).all())
        moved += int((true > 0).sum())
    assert moved > 0 or threshold == 0


@pytest.mark.parametrize("threshold", [2.0**-12, 0.05, 0.3, 2.0])
def test_a_truncated_softmax(threshold: float) -> None:
    cut = 0
    for seed in range(18):
        states = skewed_head_states(seed)
        scores = (states.hidden @ states.head.weight.double().T + states.head.bias) / states.temperature[:, None]
        log_pi = torch.log_softmax(scores, dim=1)
        stay = log_pi.exp() >= threshold
        stay[torch.arange(len(states)), states.labels] = True
        short = torch.log_softmax(torch.where(stay, scores, -torch.inf), dim=1)
        made = sf.Filtered(threshold, truncated=True).at(states)
        after = made.after
        assert after is not None
        rows = torch.arange(len(states))
        loss = (short - log_pi)[rows, states.labels].abs()
        assert bool((loss <= after.loss + 1e-13).all())
        assert bool(((short.exp() - log_pi.exp()).abs().sum(dim=1) / 2 <= after.probability + 1e-14).all())
        g = short.exp() - log_pi.exp()
        assert bool((_gradient(states, g).norm(dim=1) <= after.gradient + 1e-12).all())
        same = short.argmax(dim=1) == log_pi.argmax(dim=1)
        assert bool(same[made.stays].all())
        use = made.bounds(_contract()).margin_use
        assert bool(torch.isinf(use[~made.stays]).all())
        cut += int((~same).sum())
    assert cut > 0 or threshold < 0.1


def _contract() -> sf.Contract:
    from suffice.contracts.registry import contract_named

    return contract_named("conditioned")


def test_what_is_left_out_of_a_vmf_gradient() -> None:
    loss = trained_proco(16)
    features, labels = random_batch(16)
    states = loss.states(features, labels)
    pair = sf.DebyePair()
    made = sf.Filtered(0.05, pair).at(states)
    found = sf.evaluate(states, pair)
    geometry = states.geometry()
    v = (
        geometry.concentrations[:, None] * states.bank.directions
        + (states.features / states.temperature[:, None])[:, None]
    )
    h = (pair.ratio(geometry.nu, geometry.radii) / geometry.radii)[:, :, None] * v
    g = found.log_probabilities.exp()
    g[torch.arange(len(g)), states.labels] -= 1
    torch.testing.assert_close((g[:, :, None] * h).sum(dim=1) / states.temperature[:, None], found.gradient)
    out = torch.where(g.abs() < 0.05, g, 0.0)
    true = ((out[:, :, None] * h).sum(dim=1) / states.temperature[:, None]).norm(dim=1)
    assert made.after is not None
    assert bool((true <= made.after.gradient).all())
    assert bool((true > 0).any())


def test_a_class_that_could_be_left_out_counts() -> None:
    # two equal probabilities at the threshold itself: rounding decides, so that both count
    states = sf.HeadStates(sf.LinearHead(torch.tensor([[1.0], [1.0], [5.0]])), torch.ones(1, 1), torch.tensor([2]))
    pi = torch.softmax(torch.tensor([1.0, 1.0, 5.0], dtype=F64), dim=0)
    made = sf.Filtered(float(pi[0])).at(states)
    assert made.after is not None
    assert float(made.after.gradient) >= 2 * float(pi[0]) * (1 - 1e-12)
    assert int(made.kept()) == 1


def test_the_residual_of_a_label_keeps_its_digits() -> None:
    # 1 - pi_y is 1e-100: as a difference it would be zero, and be left out by any filter
    states = sf.HeadStates(
        sf.LinearHead(torch.tensor([[1.0], [0.0]]), torch.tensor([230.0, 0.0], dtype=F64)),
        torch.zeros(1, 1),
        torch.tensor([0]),
    )
    found = residuals_of(sf.ExactHead().at(states))
    assert float(found.low[0, 0]) == pytest.approx(math.exp(-230), rel=1e-9)
    assert float(found.low[0, 0]) <= math.exp(-230) <= float(found.high[0, 0])
    assert sf.Filtered(1e-101).at(states).after.gradient.tolist() == [0.0]  # type: ignore[union-attr]
    assert float(sf.Filtered(1e-99).at(states).after.gradient) >= math.exp(-230)  # type: ignore[union-attr]


def test_certificates_and_words() -> None:
    states = skewed_head_states(2)
    budgets = sf.Budgets(gradient=1e-2)
    strict, loose = (sf.certify(states, budgets, sf.Filtered(t)) for t in (1e-7, 0.3))
    assert (strict.verdict == "certified").mean() > (loose.verdict == "certified").mean()
    rows = torch.tensor([3, 1])
    part, whole = sf.Filtered(0.01).at(states)[rows], sf.Filtered(0.01).at(states)
    assert torch.equal(part.bounds(_contract()).gradient, whole.bounds(_contract()).gradient[rows])
    assert sf.Filtered(0.5, sf.DebyePair()).words == "residuals below 0.5 left out of debye2"
    assert sf.Filtered(0.5, truncated=True).record() == {
        "name": "filtered",
        "threshold": 0.5,
        "truncated": True,
        "of": None,
    }
    assert sf.Filtered(1, sf.DebyePair()).record()["of"] == {"name": "debye2", "scope": "analytic", "pair": "debye2"}
    assert sf.Filtered(0.1).at(states).unit_words == sf.ExactHead().at(states).unit_words
    assert sf.Filtered(0.1).at(states).wording.feature == "|h|"
    assert sf.tolerance(states, budgets, sf.Filtered(1e-7), family="weights").status[0] in ("bounded", "unbounded")
    with pytest.raises(ValueError, match="Expected threshold >= 0, but got -1"):
        sf.Filtered(-1.0)


def test_states_without_labels_have_probabilities_only() -> None:
    labelled = skewed_head_states(2)
    states = sf.HeadStates(labelled.head, labelled.hidden, None, labelled.temperature)
    made = sf.Filtered(0.01, truncated=True).at(states)
    found = made.bounds(_contract())
    assert bool(torch.isinf(found.gradient).all())
    assert bool(torch.isfinite(found.probability).any())
    with pytest.raises(sf.BudgetError, match="Expected labels"):
        made.refuse(sf.Budgets(gradient=1.0))


def test_without_labels_the_top_class_may_be_cut_off() -> None:
    """There is none that is kept whatever it is: 0.84 is below a threshold of 0.9, and nothing would be left."""
    states = sf.HeadStates(sf.LinearHead(torch.eye(3)), torch.tensor([[3.0, 0.0, 1.0]]))
    pi = torch.softmax(torch.tensor([3.0, 0.0, 1.0], dtype=F64), dim=0)
    for threshold, verdict in ((0.01, "certified"), (0.5, "certified"), (0.9, "inconclusive")):
        filtered = sf.Filtered(threshold, truncated=True)
        assert sf.certify(states, sf.Budgets(prediction=True), filtered).verdict[0] == verdict
        after = filtered.at(states).after
        assert after is not None
        assert float(after.probability) >= float(pi[pi < threshold].sum()) * (1 - 1e-12)
    assert sf.certify(states, sf.Budgets(probability=0.5), sf.Filtered(0.9, truncated=True)).verdict[0] != "certified"


def test_ends_of_residuals_enclose_them_to_the_smallest() -> None:
    """Logarithms of hundreds have roundings of their own; what is subnormal has few digits, and no lower end."""
    g = torch.Generator().manual_seed(0)
    for classes in (2, 3, 9):
        bias = torch.randn(classes, generator=g, dtype=F64) * 400
        bias[0] = -745 + bias.max()
        states = sf.HeadStates(sf.LinearHead(torch.zeros(classes, 1), bias), torch.zeros(64, 1), torch.arange(64) % 2)
        states = sf.HeadStates(states.head, states.hidden, states.labels, 1 + torch.rand(64, generator=g, dtype=F64))
        found = residuals_of(sf.ExactHead().at(states))
        for row, (y, temperature) in enumerate(zip(states.labels.tolist(), states.temperature.tolist(), strict=True)):  # type: ignore[union-attr]
            with mpmath.workdps(50):
                weights = [mpmath.exp(mpmath.mpf(c) / mpmath.mpf(temperature)) for c in bias.tolist()]
                total = mpmath.fsum(weights)
                for j, weight in enumerate(weights):
                    exact = (total - weights[y] if j == y else weight) / total
                    assert mpmath.mpf(float(found.low[row, j])) <= exact <= mpmath.mpf(float(found.high[row, j]))
    least = sf.HeadStates(
        sf.LinearHead(torch.zeros(2, 1), torch.tensor([0.0, -744.0], dtype=F64)), torch.zeros(1, 1), torch.tensor([0])
    )
    # exp(-744) is 9.9e-324, to a digit
    assert residuals_of(sf.ExactHead().at(least)).low.tolist() == [[0.0, 0.0]]


def test_a_filter_sees_what_was_executed() -> None:
    # the smallest weight as executed, and a threshold just above it: an exact residual may well be above that
    states = trained_proco(16).states(*random_batch(16))
    execution = Execution(sf.DebyePair(), torch.float32)
    weights = execution.run(states).weights.abs()
    least = weights.amin(dim=1)
    threshold = torch.nextafter(least, torch.full_like(least, torch.inf)).double()
    made = sf.Filtered(0.0, execution).at(states)
    assert isinstance(made, FilteredRealized)
    filtered = made.at_threshold(threshold)
    assert bool((filtered.residuals.low < threshold[:, None])[weights.double() < threshold[:, None]].all())
    assert filtered.after is not None
    assert made.after is not None
    assert bool((filtered.after.gradient > made.after.gradient).all())
    with pytest.raises(TypeError, match="Expected a formula or a head to truncate, but got an executed program"):
        sf.Filtered(0.1, execution, truncated=True).at(states)


def test_a_hidden_vector_that_is_off_may_be_longer() -> None:
    states = skewed_head_states(4, "weights")
    plain, off = (residuals_of(sf.compose(hidden_error=error).at(states)) for error in (0.0, 3.0))
    joint = torch.cat([states.hidden, torch.ones(len(states), 1)], dim=1).norm(dim=1)
    assert bool((plain.scale >= joint / states.temperature).all())
    assert bool((off.scale >= (joint + 3.0) / states.temperature).all())


def test_class_vectors_of_vmf_states_have_lengths_of_their_own() -> None:
    states = trained_proco(16).states(*random_batch(16))
    pair = sf.DebyePair()
    for of in (pair, Execution(pair, torch.float32)):
        found = residuals_of(sf.Filtered(0.1, of).at(states).made)  # type: ignore[attr-defined]
        geometry = states.geometry()
        ratio = pair.ratio(geometry.nu, geometry.radii)
        assert found.lengths is not None
        assert bool((found.lengths >= ratio).all())
        assert bool((found.lengths <= ratio + 0.1).all())
        assert bool((found.lengths < 0.99).any())


def test_without_a_realization_it_is_the_states_own() -> None:
    vmf, budgets = trained_proco(16).states(*random_batch(16)), sf.Budgets(gradient=1.0)
    ours, theirs = (sf.certify(vmf, budgets, sf.Filtered(0.01, of)).gradient for of in (None, sf.DebyePair()))
    assert torch.equal(ours, theirs)
    head = skewed_head_states(2)
    ours, theirs = (sf.certify(head, budgets, sf.Filtered(0.01, of)).gradient for of in (None, sf.ExactHead()))
    assert torch.equal(ours, theirs)
    with pytest.raises(TypeError, match="Expected something that is not filtered yet"):
        sf.Filtered(0.1, sf.Filtered(0.2, truncated=True))


def test_supervised_states_are_refused() -> None:
    bank = sf.ClassBank(torch.eye(6)[:3], np.full(3, 4.0))
    states = sf.SupervisedStates(bank, torch.eye(6)[:3], torch.arange(3), torch.eye(6)[:3, None], 2.0)
    with pytest.raises(TypeError, match="Expected states of one softmax"):
        sf.Filtered(0.1, sf.DebyePair()).at(states)


def test_where_the_top_class_may_be_cut_off_no_prediction_is_left() -> None:
    states = sf.HeadStates(sf.LinearHead(torch.eye(3)), torch.tensor([[3.0, 0.0, 1.0]]), torch.tensor([1]))
    budgets = sf.Budgets(prediction=True)
    # the label is kept, the top class has 0.84
    for threshold, status in ((0.5, "bounded"), (0.9, "zero")):
        found = sf.tolerance(states, budgets, sf.Filtered(threshold, truncated=True))
        assert found.status.tolist() == [status]
    assert sf.certify(states, budgets, sf.Filtered(0.9, truncated=True)).verdict[0] != "certified"
    with pytest.raises(sf.BudgetError, match="Expected no KL budget for a truncated softmax"):
        sf.certify(states, sf.Budgets(kl=1.0), sf.Filtered(0.5, truncated=True))
    assert sf.certify(states, sf.Budgets(kl=1e-9), sf.Filtered(0.5)).verdict[0] == "certified"


def test_what_is_not_a_number_is_not_zero() -> None:
    found = residuals_of(sf.ExactHead().at(skewed_head_states(1)))
    broken = replace(found, high=torch.full_like(found.high, math.nan))
    assert bool(torch.isinf(broken.filtered(torch.full_like(found.scale, 2.0)).gradient).all())
    # nothing is left out at a threshold of zero, whatever there is
    assert not broken.filtered(torch.zeros_like(found.scale)).gradient.any()


@pytest.mark.slow
def test_five_thousand_states() -> None:
    count = 0
    for seed in range(60):
        for coordinate in ("hidden", "weights"):
            states = skewed_head_states(seed, coordinate, 42)
            g = _residuals(states)
            for threshold in (2.0**-12, 0.02, 0.3):
                out = torch.where(g.abs() < threshold, g, 0.0)
                # in other units: squares of what a saturated state leaves out underflow
                true = _gradient(states, out * 1e150).norm(dim=1) / 1e150
                after = sf.Filtered(threshold).at(states).after
                assert after is not None
                assert bool((true <= after.gradient * (1 + 1e-12) + 1e-300).all())
            count += len(states)
    assert count == 5040
