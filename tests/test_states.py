"""Banks and states: validation, geometry, chunks, invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import suffice as sf
from tests.reference.states import many_states

DIRECTIONS = torch.eye(6, dtype=torch.float64)[:3]


def test_directions_are_renormalised_in_float64_and_recorded() -> None:
    rough = torch.nn.functional.normalize(torch.randn(4, 64, generator=torch.Generator().manual_seed(0)), dim=1)
    bank = sf.ClassBank(rough, torch.ones(4))
    assert bank.directions.dtype == torch.float64
    assert (torch.linalg.vector_norm(bank.directions, dim=1) - 1).abs().max() < 1e-15
    assert 0 < bank.norm_error < 1e-6
    with pytest.raises(ValueError, match=r"Expected directions of norm 1 up to 0\.001, but got norm 1\.5 at row 1"):
        sf.ClassBank(torch.diag(torch.tensor([1.0, 1.5, 1.0, 1.0, 1.0])), torch.ones(5))


def test_geometry_matches_the_definition() -> None:
    for states in many_states(140, queries=10):
        geometry = states.geometry()
        if states.bank.num_classes * states.bank.dim > 20_000:
            continue
        v = (
            states.bank.concentrations[:, None] * states.bank.directions
            + states.features[:, None] / states.temperature[:, None, None]
        )
        norms = torch.linalg.vector_norm(v, dim=2)
        scale = (
            states.bank.concentrations
            + torch.linalg.vector_norm(states.features, dim=1)[:, None] / states.temperature[:, None]
        )
        assert ((geometry.radii - norms).abs() <= 1e-6 * scale).all()
        # g_j <= |f|/tau, with room for rounding of the product
        limit = torch.linalg.vector_norm(states.features, dim=1) / states.temperature
        assert (geometry.gaps <= limit[:, None] * (1 + 1e-12) + 1e-12).all()
        assert (geometry.radii >= 0).all()


def test_zero_radius_and_zero_concentration() -> None:
    bank = sf.ClassBank(DIRECTIONS, [3.0, 0.0, 5.0])
    f = -3.0 * DIRECTIONS[:1]
    state = sf.States(bank, f, [0], 1.0)
    geometry = state.geometry()
    assert geometry.radii[0].tolist() == [0.0, 3.0, pytest.approx(math.sqrt(34))]
    evaluation = sf.evaluate(state, sf.DebyePair())
    assert torch.isfinite(evaluation.gradient).all()
    assert torch.isfinite(evaluation.loss).all()
    resting = sf.evaluate(sf.States(bank, torch.zeros(1, 6), [0], 1.0), sf.DebyePair())
    assert resting.scores[0].tolist() == [0.0, 0.0, 0.0]
    assert resting.loss.item() == pytest.approx(math.log(3))


@pytest.mark.parametrize(
    ("classes", "rows"), [(2, 65_536), (1000, 131), (16_384, 8), (50_000, 8), (131_072, 4), (600_000, 1)]
)
def test_chunks_are_bounded(classes: int, rows: int) -> None:
    """In entries: eight rows are kept while they are no more than four times as many."""
    bank = sf.ClassBank(DIRECTIONS[:1].expand(classes, 6), torch.ones(classes))
    assert sf.States(bank, DIRECTIONS[:1], [0], 1.0).chunk == rows


def test_chunks_cover_the_states_in_order() -> None:
    g = torch.Generator().manual_seed(2)
    mu = torch.nn.functional.normalize(torch.randn(2000, 16, generator=g, dtype=torch.float64), dim=1)
    states = sf.States(sf.ClassBank(mu, torch.ones(2000)), torch.randn(150, 16, generator=g), [0] * 150, 0.5)
    parts = list(states.chunks())
    assert len(parts) > 1
    assert torch.equal(torch.cat([part.features for part in parts]), states.features)
    whole = sf.evaluate(states, sf.DebyePair())
    alone = sf.evaluate(states[100:101], sf.DebyePair())
    torch.testing.assert_close(whole.loss[100:101], alone.loss, rtol=1e-12, atol=0)


def test_numpy_and_lists_are_taken() -> None:
    bank = sf.ClassBank(DIRECTIONS.numpy(), [1.0, 2.0, 3.0], np.zeros(3))
    states = sf.States(bank, np.ones((2, 6), dtype=np.float32), np.array([0, 2], dtype=np.uint8), 0.1)
    assert states.features.dtype == torch.float64
    assert sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair()).loss.numpy().shape == (2,)


def test_bad_input() -> None:
    bank = sf.ClassBank(DIRECTIONS, [1.0, 2.0, 3.0])
    f = torch.ones(2, 6)
    for arguments, error, message in [
        ((DIRECTIONS[:1], [1.0]), ValueError, r"C >= 2 and p >= 2, but got shape \(1, 6\)"),
        ((DIRECTIONS[:, :1], [1.0, 1.0, 1.0]), ValueError, "p >= 2"),
        ((DIRECTIONS, [1.0, -1.0, 1.0]), ValueError, r"Expected concentrations .* got -1\.0 at index \(1,\)"),
        ((DIRECTIONS, [1.0, 1.0]), ValueError, "Expected one of concentrations for each of 3 directions, but got 2"),
        ((DIRECTIONS, [1.0, 1.0, 1.0], [0.0, math.inf, 0.0]), ValueError, "Expected biases to be finite"),
        ((DIRECTIONS.long(), [1.0, 1.0, 1.0]), TypeError, "Expected directions in float32 or float64"),
        ((DIRECTIONS * math.nan, [1.0, 1.0, 1.0]), ValueError, "Expected directions to be finite"),
    ]:
        with pytest.raises(error, match=message):
            sf.ClassBank(*arguments)  # type: ignore[arg-type]
    for arguments, error, message in [
        ((f, [0, 3], 0.1), ValueError, r"Expected labels in \[0, 3\), but got 3 at row 1"),
        ((f, [0, -1], 0.1), ValueError, r"Expected labels in \[0, 3\), but got -1 at row 1"),
        ((f, [0], 0.1), ValueError, "Expected one label for each of 2 queries"),
        ((f, torch.tensor([0.0, 1.0]), 0.1), TypeError, "Expected labels to be integers"),
        ((f, [0, 1], 0.0), ValueError, "Expected temperature > 0, but got 0 at row 0"),
        ((f, [0, 1], -1.0), ValueError, "Expected temperature to be finite and >= 0"),
        ((f, [0, 1], torch.ones(3)), ValueError, "Expected one temperature, or one for each of 2 queries"),
        ((f[:, :5], [0, 1], 0.1), ValueError, "Expected features of dimension 6"),
        ((f * math.inf, [0, 1], 0.1), ValueError, "Expected features to be finite"),
        ((f.long(), [0, 1], 0.1), TypeError, "Expected features in float32 or float64"),
    ]:
        with pytest.raises(error, match=message):
            sf.States(bank, *arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Expected a slice or a list of rows"):
        sf.States(bank, f, [0, 1], 0.1)[0]  # type: ignore[index]
