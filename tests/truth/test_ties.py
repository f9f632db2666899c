"""Equal scores are found equal, and unequal ones are not."""

from __future__ import annotations

import torch

import suffice as sf
from suffice.truth.ties import tied


def _state(rows: list[list[float]], k: list[float], c: list[float], f: list[float]) -> sf.States:
    bank = sf.ClassBank(torch.tensor(rows, dtype=torch.float64), k, c)
    return sf.States(bank, torch.tensor([f], dtype=torch.float64), [0], 0.1)


def test_equal_classes_are_tied() -> None:
    state = _state([[0.6, 0.8], [0.6, 0.8], [1.0, 0.0]], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0], [0.3, 0.1])
    assert tied(state, 0, 1)
    assert tied(state, 2, 2)
    assert not tied(state, 0, 2)


def test_classes_at_one_angle_are_tied() -> None:
    state = _state([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], [2.0] * 3, [0.5] * 3, [1.0, 1.0])
    assert tied(state, 0, 1)
    # of the other sign
    assert not tied(state, 0, 2)


def test_rows_of_other_lengths_may_point_one_way() -> None:
    """0.6 and 0.8 are no floats: the stored rows have lengths that are not 1, and one is the other's double."""
    bank = sf.ClassBank(torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64), [1.0, 1.0])
    for scale in (1.0, 1 + 2.0**-52):
        object.__setattr__(bank, "directions", torch.tensor([[1.0, 0.0], [scale, 0.0]], dtype=torch.float64))
        assert tied(sf.States(bank, torch.tensor([[0.3, 0.7]], dtype=torch.float64), [0], 1.0), 0, 1)


def test_a_hair_is_no_tie() -> None:
    up = 1.0 + 2.0**-52
    state = _state([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0], [0.0, 0.0], [1.0, up])
    assert not tied(state, 0, 1)
    assert not tied(_state([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0 * up], [0.0, 0.0], [1.0, 1.0]), 0, 1)
    assert not tied(_state([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0], [0.0, 1e-300], [1.0, 1.0]), 0, 1)


def test_without_concentration_directions_do_not_matter() -> None:
    assert tied(_state([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], [1.0, 1.0], [3.0, 1.0]), 0, 1)
    # a feature at right angles to both
    assert tied(_state([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [3.0, 3.0], [1.0, 1.0], [0.0, 0.0, 2.0]), 0, 1)
