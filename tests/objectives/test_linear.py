"""Heads and head states: what they keep exactly, and what they refuse, in words."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf


def test_a_head_keeps_its_dtype_and_its_numbers() -> None:
    weight = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        head = sf.LinearHead(weight.to(dtype), weight[:, 0].to(dtype))
        assert head.weight.dtype == dtype
        assert torch.equal(head.rows(slice(1, 3)), weight.to(dtype)[1:3].double())
        assert torch.equal(head.bias, weight[:, 0].to(dtype).double())
    assert [(part.start, part.stop) for part in head.blocks(6)] == [(0, 2), (2, 4), (4, 5)]
    assert sf.LinearHead(np.eye(3), [0.0, float("-inf"), 1.0]).num_classes == 3


def test_states_are_cut_with_all_that_they_have() -> None:
    head = sf.LinearHead(torch.eye(3))
    states = sf.HeadStates(
        head, torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 2, 0]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    )
    part = states[[2, 0]]
    assert part.labels is not None
    assert part.labels.tolist() == [2, 0]
    assert part.temperature.tolist() == [3.0, 1.0]
    assert part.hidden.tolist() == [[6.0, 7.0, 8.0], [0.0, 1.0, 2.0]]
    assert sf.HeadStates(head, torch.ones(2, 3))[:1].labels is None
    assert sum(len(some) for some in states.chunks()) == 4


def test_bad_input_is_refused_in_words() -> None:
    head = sf.LinearHead(torch.eye(3), [0.0, float("-inf"), 0.0])
    ones = torch.ones(2, 3)
    for wrong, words in (
        (lambda: sf.LinearHead(torch.ones(1, 3)), "V >= 2"),
        (lambda: sf.LinearHead(torch.ones(3)), "2 dimensions"),
        (lambda: sf.LinearHead(torch.full((2, 2), torch.nan)), "finite"),
        (lambda: sf.LinearHead(torch.eye(2), [0.0]), "one bias for each"),
        (lambda: sf.LinearHead(torch.eye(2), [0.0, torch.inf]), "-inf for a masked class"),
        (lambda: sf.LinearHead(torch.eye(2), [0.0, -torch.inf]), "at least two classes"),
        (lambda: sf.HeadStates(head, torch.ones(2, 4)), "dimension 3"),
        (lambda: sf.HeadStates(head, ones * torch.inf), "finite"),
        (lambda: sf.HeadStates(head, ones, [0, 1]), "not masked, but got 1 at 1"),
        (lambda: sf.HeadStates(head, ones, [0, -100]), "ignore_index"),
        (lambda: sf.HeadStates(head, ones, [0, 3]), r"\[0, 3\)"),
        (lambda: sf.HeadStates(head, ones, [0, 2], 0.0), "temperature > 0"),
        (lambda: list(sf.HeadStates(head, ones[:0]).chunks()), "at least one state"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()
    with pytest.raises(TypeError, match="int64"):
        sf.LinearHead(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match="LinearHead"):
        sf.HeadStates(torch.eye(3), ones)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"states\[0:1\]"):
        sf.HeadStates(head, ones)[0]  # type: ignore[index]
