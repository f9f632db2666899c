"""Stages: what is known of logits and what is not both end in the allowances of a realized head."""

from __future__ import annotations

from dataclasses import replace

import torch

import suffice as sf
from suffice.realizations.linear import head_scores
from suffice.realizations.stages import exact_stage, finished, logits_of, with_unknown
from tests.support.moved_heads import gaussian_states


def test_known_and_unknown_add_up() -> None:
    states = gaussian_states(1, count=3)
    stage = exact_stage(states)
    per = 1 / states.temperature[:, None]
    moved = replace(stage, moved=stage.moved + 0.25)
    both = with_unknown(moved, torch.full_like(stage.z, 0.5))
    made = finished(both)
    assert (made.d >= 0.75 * per).all()
    assert (made.d <= 0.76 * per).all()
    assert (made.off >= 0.5 * per).all()
    assert (made.off <= 0.51 * per).all()
    assert made.after is None


def test_an_error_of_the_hidden_vector() -> None:
    states = gaussian_states(2, count=3)
    off = torch.tensor([0.0, 0.1, 1.0], dtype=torch.float64)
    stage = exact_stage(states, off)
    assert (stage.unknown >= off[:, None] * states.bank.lengths).all()
    assert (stage.unknown[0] < 1e-9).all()
    assert torch.equal(finished(stage).hidden_error, off)


def test_logits_are_before_the_temperature() -> None:
    states = gaussian_states(1, count=3)
    z, error = logits_of(states)
    exact = states.hidden @ states.bank.weight.T + states.bank.bias
    assert ((z - exact).abs() <= 2 * error).all()
    assert torch.allclose(finished(exact_stage(states)).scores, exact / states.temperature[:, None])


def test_what_a_loss_is_off_after_all() -> None:
    states = gaussian_states(1, count=3)
    stage = exact_stage(states)
    made = finished(replace(stage, loss_error=torch.full_like(stage.loss_error, 0.125)))
    assert made.after is not None
    assert made.after.loss.tolist() == [0.125] * 3
    assert not made.after.gradient.any()


def test_what_is_not_finite_is_unknown() -> None:
    states = gaussian_states(1, count=3)
    stage = exact_stage(states)
    for field in ("moved", "unknown"):
        wrong = getattr(stage, field).clone()
        wrong[1, 2] = torch.nan
        assert finished(replace(stage, **{field: wrong})).unknown.tolist() == [False, True, False]


def test_one_class_that_overflows_leaves_nothing_known() -> None:
    """An infinite allowance stays one: the largest number in its place would be a statement."""
    head = sf.LinearHead(torch.tensor([[1.0], [2.0], [70.0]], dtype=torch.float64))
    states = sf.HeadStates(head, torch.tensor([[1000.0], [1.0]], dtype=torch.float64), [0, 1])
    for steps in ((sf.RoundedLogits(torch.float16),), (sf.ProductIn(torch.float16), sf.RoundedLogits(torch.float16))):
        made = sf.compose(*steps).at(states)
        assert made.unknown.tolist() == [True, False]
    far = sf.HeadStates(sf.LinearHead(torch.tensor([[1.0], [1e200]], dtype=torch.float64)), [[1e150]], [0])
    assert torch.isinf(head_scores(far).error[0, 1])
    assert sf.ExactHead().at(far).unknown.all()
