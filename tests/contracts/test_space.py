"""Buffers are the same ones at the next call, and large ones are not kept."""

from __future__ import annotations

import threading

import torch

from suffice.contracts.space import Space, kept_space


def test_a_buffer_is_used_again() -> None:
    space, like = Space(), torch.zeros(4, 6, dtype=torch.float64)
    first = space("a", like)
    assert first.shape == (4, 6)
    assert first.dtype == torch.float64
    assert space("a", like).data_ptr() == first.data_ptr()
    assert space("b", like).data_ptr() != first.data_ptr()
    # what is smaller fits in, in any shape, and what is larger does not
    assert space("a", like[:3, :5]).data_ptr() == first.data_ptr()
    assert space("a", like[:3, :5]).shape == (3, 5)
    assert space("a", torch.zeros(5, 6, dtype=torch.float64)).shape == (5, 6)
    assert space("a", like, torch.float32).dtype == torch.float32


def test_large_buffers_are_not_kept() -> None:
    space = Space()
    large = torch.empty(1, (1 << 18) + 1)
    assert space("a", large).data_ptr() != space("a", large).data_ptr()


def test_a_thread_has_its_own() -> None:
    assert kept_space() is kept_space()
    others: list[Space] = []
    thread = threading.Thread(target=lambda: others.append(kept_space()))
    thread.start()
    thread.join()
    assert others[0] is not kept_space()


def test_what_was_made_in_inference_mode_serves_outside() -> None:
    space, like = Space(), torch.ones(2, 3)
    with torch.inference_mode():
        space("a", like).copy_(like)
    assert space("a", like).add_(like).sum().item() == 12.0
