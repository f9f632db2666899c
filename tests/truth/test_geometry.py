"""The exact geometry: radii of the renormalised rows, one linear map, against fractions and against mpmath."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth.geometry import exact_geometry
from tests.reference.states import random_states

BITS = 300


def _mp(x: arb) -> mpmath.mpf:
    with ctx.workprec(BITS):
        return mpmath.mpf(x.mid().str(60, radius=False))


@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_radii_and_vectors_by_mpmath(seed: int) -> None:
    state = random_states(seed, 1, [(3, 7)])
    geometry = exact_geometry(state, BITS)
    weights = [0.3, -1.25, 2.0]
    with mpmath.workdps(60):
        tau = mpmath.mpf(state.temperature.item())
        u = [mpmath.mpf(x) / tau for x in state.features[0].tolist()]
        vectors = []
        for row, k in zip(state.bank.directions.tolist(), state.bank.concentrations.tolist(), strict=True):
            length = mpmath.sqrt(sum(mpmath.mpf(m) ** 2 for m in row))
            vectors.append([mpmath.mpf(k) * m / length + x for m, x in zip(row, u, strict=True)])
        squares = [sum(x * x for x in v) for v in vectors]
        combined = [sum(w * v[i] for w, v in zip(weights, vectors, strict=True)) / tau for i in range(7)]
        for found, exact in zip(geometry.squares, squares, strict=True):
            assert abs(_mp(found) - exact) < mpmath.mpf(10) ** -45 * (1 + exact)
        with ctx.workprec(BITS):
            balls = geometry.combined([arb(w) for w in weights])
            length_found = geometry.length([arb(w) for w in weights])
        for found, exact in zip(balls, combined, strict=True):
            assert abs(_mp(found) - exact) < mpmath.mpf(10) ** -40 * (1 + abs(exact))
        assert abs(_mp(length_found) - mpmath.sqrt(sum(x * x for x in combined))) < mpmath.mpf(10) ** -40


def test_it_does_not_use_computed_radii() -> None:
    """k^2 + D cancels to nothing in float64 here; exactly, it is what the fractions say."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:2], [1e8, 1.0])
    feature = torch.zeros(1, 6, dtype=torch.float64)
    feature[0, 0], feature[0, 1] = -1e8, 1e-4
    state = sf.States(bank, feature, [0], 1.0)
    assert state.geometry().radii[0, 0].item() != pytest.approx(1e-4, rel=1e-3)
    exact = Fraction(1e-4) ** 2
    with ctx.workprec(BITS):
        assert arb(exact.numerator) / exact.denominator in exact_geometry(state, BITS).squares[0]


def test_equal_endpoints_are_exactly_zero() -> None:
    bank = sf.ClassBank(torch.eye(6)[:2], [3.0, 5.0])
    geometry = exact_geometry(sf.States(bank, torch.zeros(1, 6), [0], 1.0), BITS)
    assert all(difference == 0 for difference in geometry.differences())
    assert all(difference == 0 for difference in geometry.surrogate_differences(3))


def test_one_state_at_a_time() -> None:
    with pytest.raises(ValueError, match="Expected one state, but got 2"):
        exact_geometry(random_states(0, 2, [(3, 7)]), BITS)
