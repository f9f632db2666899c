"""The program that certificates of scope execution are about: what it computes, keeps, refuses and leaves alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.objectives.contrastive import evaluate
from suffice.realizations.executed.program import Executed, executable, execute, has_bfloat16
from tests.reference.exact import actual_errors
from tests.reference.states import random_states

ROWS = ("scaled", "squared_gaps", "scores", "log_probabilities", "weights", "slopes", "loss", "gradient")


def _states(seed: int, classes: int = 5, dim: int = 16) -> sf.States:
    g = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=g, dtype=torch.float64)

    k = 10 + 50 * torch.rand(classes, generator=g, dtype=torch.float64)
    return sf.States(
        sf.ClassBank(torch.nn.functional.normalize(normal(classes, dim), dim=1), k), normal(4, dim), [0, 1, 2, 1], 0.3
    )


@pytest.mark.parametrize("order", [2, 4, 6])
def test_it_is_the_formula_of_evaluate(order: int) -> None:
    """In float64 to some roundings; in float32 to as many of that."""
    for seed in range(20):
        states = random_states(seed, 6, [(2, 7), (5, 16), (20, 33), (100, 128)])
        exact = evaluate(states, sf.DebyePair(order=order))
        for dtype, close in ((torch.float64, 1e-8), (torch.float32, 1e-1)):
            found = execute(states, order, dtype)
            size = 1 + exact.loss.abs()
            assert ((found.loss.double() - exact.loss).abs() <= close * size).all()
            assert found.dtype == dtype
            assert {getattr(found, name).dtype for name in ROWS} == {dtype}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_belong_together(dtype: torch.dtype) -> None:
    states = _states(0)
    found = execute(states, 4, dtype)
    assert torch.equal(found.loss, -found.log_probabilities[torch.arange(4), states.labels])
    # weights are pi - 1_y: their sum is nothing, and the target's is minus the sum of the others
    assert (found.weights.double().sum(dim=1).abs() < 4 * torch.finfo(dtype).eps).all()
    assert (found.weights[torch.arange(4), states.labels] < 0).all()
    assert torch.equal(found.scaled, states.features.to(dtype) / states.temperature.to(dtype)[:, None])
    assert torch.equal(found.concentrations, states.bank.concentrations.to(dtype))


def test_rows_are_taken_and_not_computed_again() -> None:
    found = execute(_states(1), 2, torch.float32)
    rows = torch.tensor([3, 1])
    some = found[rows]
    for name in ROWS:
        assert torch.equal(getattr(some, name), getattr(found, name)[rows])
    assert some.directions is found.directions
    assert (some.order, some.inputs, some.dtype) == (2, torch.float32, torch.float32)


def test_a_radius_of_zero_has_no_slope() -> None:
    """f = -tau k mu, exactly."""
    eye = torch.eye(8, dtype=torch.float64)
    states = sf.States(sf.ClassBank(eye[:2], [2.0, 4.0]), -2 * eye[:1], [0], 1.0)
    for dtype in (torch.float32, torch.float64):
        found = execute(states, 2, dtype)
        assert found.slopes[0, 0] == 0
        assert found.slopes[0, 1] > 0
        assert torch.isfinite(found.gradient).all()


def test_what_is_stored_is_rounded_first() -> None:
    """In float32 nothing is computed in float64: errors are of the size of its roundoff, where the formula has none."""
    state = _states(2, dim=512)[:1]
    fine, coarse = (actual_errors(state, execute(state, 6, dtype)) for dtype in (torch.float64, torch.float32))
    assert 1e-9 < coarse["gradient"] < 1e-4
    assert fine["gradient"] < 1e-12


def test_inputs_of_a_narrower_dtype() -> None:
    """bfloat16 beside float32: other scores, of the same dtype; beside float64 it is refused."""
    states = _states(3)
    plain, narrow = execute(states, 2, torch.float32), execute(states, 2, torch.float32, inputs=torch.bfloat16)
    assert narrow.inputs == torch.bfloat16
    assert narrow.scores.dtype == torch.float32
    assert 1e-4 < (narrow.scores - plain.scores).abs().max() < 1
    for dtype, inputs in (
        (torch.float64, torch.bfloat16),
        (torch.float32, torch.float16),
        (torch.float64, torch.float32),
    ):
        with pytest.raises(ValueError, match=rf"Expected inputs of dtype {dtype}, or bfloat16 beside float32"):
            execute(states, 2, dtype, inputs=inputs)


def test_what_is_executable() -> None:
    """Orders that are proved at a nu, with digits left in the dtype."""
    assert executable(2, torch.float64, 1.5)
    assert not executable(2, torch.float32, 1.5)
    assert executable(6, torch.float32, 2.0)
    assert not executable(2, torch.float64, 0.5)
    assert not executable(7, torch.float64, 31.0)
    with pytest.raises(ValueError, match="Expected dtype in"):
        executable(2, torch.float16, 31.0)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected nu >= 2\.0 in float32, but got 1\.5; use float64"):
        execute(_states(0, 3, 5), 2, torch.float32)
    with pytest.raises(ValueError, match=r"Expected dtype in \['float32', 'float64'\], but got bfloat16"):
        execute(_states(0), 2, torch.bfloat16)
    with pytest.raises(ValueError, match="order"):
        execute(_states(0), 7)


def test_autograd_and_autocast_change_nothing() -> None:
    states = _states(4)
    plain = execute(states, 4, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside: Executed = execute(states, 4, torch.float32)
    for name in ROWS:
        assert torch.equal(getattr(plain, name), getattr(inside, name))
    assert not plain.loss.requires_grad


def test_instructions_for_bfloat16_are_asked_of_the_device() -> None:
    assert isinstance(has_bfloat16(torch.device("cpu")), bool)
    assert not has_bfloat16(torch.device("meta"))
