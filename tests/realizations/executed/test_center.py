"""Distances from the mean of class gradients, by the executed gradient: never below the exact ones, and close."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.numerics.rounding import unit_roundoff
from suffice.pairs.roundings import ratio_roundings
from suffice.realizations.executed.center import distances_from_gradient
from suffice.realizations.executed.program import execute
from suffice.realizations.executed.realization import ExecutedRealized
from suffice.realizations.geometry_error import direction_error
from suffice.truth import surrogate
from tests.realizations.executed.judging import careful, states_of, unit_rows


def _peaked(bias: float) -> sf.States:
    """One class holds nearly all of the mass, and is the target of the first row."""
    g = torch.Generator().manual_seed(8)
    biases = [0.0, 0.0, bias, 0.0, 0.0, 0.0]
    bank = sf.ClassBank(unit_rows(g, 6, 30), [20.0 + j for j in range(6)], biases)
    return sf.States(bank, 0.1 * unit_rows(g, 2, 30), [2, 4], 1.0)


def _exact(
    states: sf.States, n: int, order: int, radii: list[float], scores: list[float], bits: int = 400
) -> list[arb]:
    """|hhat_j - c| of the exact softmax of the executed scores, and of the formula at the executed radii."""
    bank, nu = states.bank, states.bank.nu
    u = [arb(x) / arb(states.temperature[n].item()) for x in states.features[n].tolist()]
    vectors = []
    for row, k, r in zip(bank.directions.tolist(), bank.concentrations.tolist(), radii, strict=True):
        length = sum((arb(m) ** 2 for m in row), arb(0)).sqrt()
        slope = surrogate.ratio(order, nu, r, bits=bits) / arb(r)
        vectors.append([slope * (arb(k) * arb(m) / length + x) for m, x in zip(row, u, strict=True)])
    shares = [arb(q).exp() for q in scores]
    total = sum(shares, arb(0))
    center = [sum((s * v[i] for s, v in zip(shares, vectors, strict=True)), arb(0)) / total for i in range(len(u))]
    return [sum(((x - c) ** 2 for x, c in zip(v, center, strict=True)), arb(0)).sqrt() for v in vectors]


def _holds(states: sf.States, made: ExecutedRealized, distances: torch.Tensor) -> None:
    """Against Arb."""
    for n in range(len(states)):
        with ctx.workprec(900):
            radii, scores = made.geometry.radii[n].tolist(), made.executed.scores[n].tolist()
            for j, exact in enumerate(_exact(states, n, made.pair.order, radii, scores)):
                assert exact <= distances[n, j].item()


@pytest.mark.parametrize("bias", [360.0, 372.0, 400.0, 600.0, 690.0])
def test_the_distance_of_a_target_whose_squares_underflow(bias: float) -> None:
    """1 - pi_y from 1e-156 to 1e-299, against Arb: the length of the executed gradient is not 0, and is close."""
    states = _peaked(bias)
    made = ExecutedRealized(states, execute(states, 2), sf.DebyePair())
    assert made._ordinary is not None
    with ctx.workprec(3000):
        radii, scores = made.geometry.radii[0].tolist(), made.executed.scores[0].tolist()
        exact = _exact(states, 0, 2, radii, scores, bits=3000)[2]
        assert exact <= made.distances[0, 2].item()
        if bias <= 600:
            assert made.distances[0, 2].item() <= exact * (1 + arb(1e-9))


@pytest.mark.parametrize("order", [2, 5])
def test_they_are_at_least_the_exact_ones(order: int) -> None:
    """Flat, and with one class that has all but 1e-3, 1e-9 or 1e-86 of the mass."""
    for states in (states_of(1, queries=3, classes=5, dim=16), *map(_peaked, (0.0, 9.0, 22.0, 200.0))):
        executed = execute(states, order)
        made = ExecutedRealized(states, executed, sf.DebyePair(order=order))
        assert made._ordinary is not None
        _holds(states, made, made.distances)


def test_they_are_those_of_the_careful_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """To what squares that cancel were raised by there."""
    wrong = 0
    for seed in range(8):
        states = states_of(seed, classes=20, tau=0.5)
        executed = execute(states, 2)
        made, slow = ExecutedRealized(states, executed, sf.DebyePair()), careful(monkeypatch, states, executed)
        assert (made.distances <= slow.distances * (1 + 1e-9)).all()
        assert (made.distances >= slow.distances * (1 - 1e-7)).all()
        wrong += int((made.top != states.labels).sum())
    assert wrong > 10


def test_vectors_that_are_nearly_equal() -> None:
    """Distances of a billionth of the vectors: their squares are all rounding."""
    g = torch.Generator().manual_seed(3)
    mu = torch.nn.functional.normalize(unit_rows(g, 1, 20) + 1e-9 * unit_rows(g, 8, 20), dim=1)
    states = sf.States(sf.ClassBank(mu, [50.0] * 8), 0.3 * unit_rows(g, 2, 20), [0, 1], 0.1)
    made = ExecutedRealized(states, execute(states, 2), sf.DebyePair())
    assert made._ordinary is not None
    _holds(states, made, made.distances)


def test_gradients_that_are_off_by_their_bound() -> None:
    """By a thousandth, as is then said: the distances are still above those of the exact gradient."""
    states = states_of(2, queries=3, classes=6, dim=16)
    made = ExecutedRealized(states, execute(states, 2), sf.DebyePair())
    rows = made._ordinary
    assert rows is not None
    g = torch.Generator().manual_seed(1)
    for _ in range(5):
        off = 1e-3 * unit_rows(g, 3, 16)
        rows.executed = dataclasses.replace(made.executed, gradient=made.executed.gradient + off)
        found, _ = distances_from_gradient(rows, made._placed, torch.full_like(states.temperature, 1.001e-3))
        _holds(states, made, found)


def test_a_top_class_that_is_all_of_the_mean_is_left_alone() -> None:
    """Its distance is 1e-9 of the vectors: rounding, by a difference; and the target's own is none."""
    states = _peaked(22.0)
    made = ExecutedRealized(states, execute(states, 2), sf.DebyePair())
    assert made._ordinary is not None
    assert made.after is not None
    _, rough = distances_from_gradient(made._ordinary, made._placed, made.after.gradient)
    assert rough.tolist() == [False, True]
    direct = torch.linalg.vector_norm(made.executed.gradient[0])
    assert made.distances[0, 2] <= direct * (1 + 1e-9)
    # filled in by the mean itself
    assert made.distances[1, 2] < 1e-8
    torch.testing.assert_close(made.distances[1:], made[torch.tensor([1])]._distances(), rtol=1e-9, atol=0)


def _length(vector: list[arb]) -> arb:
    return sum((x * x for x in vector), arb(0)).sqrt()


@pytest.mark.parametrize("order", [1, 2, 6])
def test_every_term_of_their_derivation(order: int) -> None:
    """8.8d in Arb, from the executed slopes and gradient: errors are hardly ever as large as they may be."""
    seen, u = 0, arb(unit_roundoff(torch.float64))
    for seed in range(6):
        states = states_of(seed, queries=4, classes=5, dim=16, tau=(0.05, 0.5, 5.0)[seed % 3])
        made = ExecutedRealized(states, execute(states, order), sf.DebyePair(order=order))
        rows, ran, bank, nu = made._ordinary, made.executed, states.bank, states.bank.nu
        assert rows is not None
        assert made.after is not None
        found, rough = distances_from_gradient(rows, made._placed, made.after.gradient)
        first, second = ratio_roundings(order, nu)
        for n in (~rough).nonzero().squeeze(1).tolist():
            with ctx.workprec(300):
                y, w, tau = int(states.labels[n]), int(made.top[n]), arb(states.temperature[n].item())
                phi = [arb(x) / tau for x in states.features[n].tolist()]
                r, slopes = ([arb(x) for x in each[n].tolist()] for each in (made.geometry.radii, ran.slopes))
                k = [arb(x) for x in bank.concentrations.tolist()]
                h = [
                    [slope * (x * arb(m) + f) for m, f in zip(row, phi, strict=True)]
                    for slope, x, row in zip(slopes, k, bank.directions.tolist(), strict=True)
                ]
                pulled = [arb(x) * tau for x in ran.gradient[n].tolist()]
                center = [a + b for a, b in zip(h[y], pulled, strict=True)]
                s = [(arb(nu) ** 2 + x * x).sqrt() for x in r]
                longest = [(x * x + arb(d)).sqrt() for x, d in zip(r, rows.error.of_gap[n].tolist(), strict=True)]
                away = [u * (first / (nu + x) + second / x**2) * v for x, v in zip(s, longest, strict=True)]
                sizes = [slope * (x + _length(phi)) for slope, x in zip(slopes, k, strict=True)]
                rounded, after = arb(direction_error(bank.dim)) + 16 * u, arb(made.after.gradient[n].item()) * tau
                moved = after + away[y] + rounded * (sizes[y] + _length(pulled))
                for j, found_j in enumerate(found[n].tolist()):
                    asked = _length([a - b for a, b in zip(h[j], center, strict=True)]) + away[j] + moved
                    if j == y:
                        asked = _length(pulled) + after
                    elif j == w:
                        asked += rounded * (sizes[w] + _length(center))
                    assert asked <= arb(found_j)
                seen += w != y
    assert seen > 3
