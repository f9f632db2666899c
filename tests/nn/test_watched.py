"""A watched head gives its inputs as states, shifted and without what is ignored, on the steps that are wanted."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import suffice as sf
from suffice.contracts.noise import covariance_trace
from suffice.nn.watched import WatchedHead, gradient_noise


def test_inputs_are_kept_while_wanted_and_in_training() -> None:
    head = nn.Linear(3, 4)
    watched = WatchedHead(head)
    x = torch.randn(2, 3)
    head(x)
    taken = watched.taken()
    assert taken is not None
    assert taken.data_ptr() == x.data_ptr()
    assert watched.taken() is None
    watched.wanted = False
    head(x)
    assert watched.taken() is None
    watched.wanted = True
    head.eval()
    head(x)
    assert watched.taken() is None
    head.train()
    head(input=x)
    assert watched.taken() is not None
    watched.remove()
    head(x)
    assert watched.taken() is None


def test_the_causal_shift_and_ignored_labels() -> None:
    head = nn.Linear(3, 4)
    hidden = torch.arange(2 * 3 * 3).reshape(2, 3, 3).float()
    labels = torch.tensor([[9, 1, -100], [9, 3, 2]])
    states, skipped, count = WatchedHead(head, causal=True).states(hidden, labels, 10)
    assert states is not None
    assert states.labels is not None
    # rows 0 of the first, 0 and 1 of the second predict labels 1, 3 and 2
    assert states.labels.tolist() == [1, 3, 2]
    assert torch.equal(states.hidden, torch.stack([hidden[0, 0], hidden[1, 0], hidden[1, 1]]).double())
    assert (skipped, count) == (1, 3)
    plain, skipped, count = WatchedHead(head).states(hidden, labels, 2)
    assert plain is not None
    assert len(plain) == 2
    assert (skipped, count) == (3, 3)


def test_what_is_no_state_is_left_out() -> None:
    head = nn.Linear(3, 4)
    watched = WatchedHead(head)
    hidden = torch.ones(3, 3)
    hidden[1, 0] = math.nan
    states, skipped, count = watched.states(hidden, torch.tensor([0, 1, 7]), 5)
    assert states is not None
    assert (len(states), skipped, count) == (1, 2, 1)
    assert watched.states(hidden * math.nan, torch.zeros(3, dtype=torch.int64), 5) == (None, 3, 0)
    with torch.no_grad():
        head.weight[0, 0] = math.inf
    assert watched.states(torch.ones(3, 3), torch.zeros(3, dtype=torch.int64), 5) == (None, 3, 0)
    with pytest.raises(ValueError, match="Expected a label for each row of the head's inputs"):
        watched.states(hidden, torch.zeros(2, dtype=torch.int64), 5)


def test_the_noise_is_that_of_gradients_in_the_parameters() -> None:
    g = torch.Generator().manual_seed(0)
    head = nn.Linear(3, 4)
    hidden, labels = torch.randn(6, 3, generator=g), torch.randint(0, 4, (6,), generator=g)
    rows = []
    for h, y in zip(hidden, labels, strict=True):
        loss = nn.functional.cross_entropy(head(h[None]), y[None])
        rows.append(torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(head.parameters()))]))
    states = sf.HeadStates(sf.LinearHead(head.weight, head.bias), hidden, labels, coordinate="weights")
    assert gradient_noise(states) == pytest.approx(covariance_trace(torch.stack(rows)), rel=1e-5)
    assert gradient_noise(states[:1]) == 0
    of_weight = torch.stack([row[: head.weight.numel()] for row in rows])
    assert gradient_noise(states, bias=False) == pytest.approx(covariance_trace(of_weight), rel=1e-5)
