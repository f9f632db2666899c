"""Distances of class gradients at ordinary rows, against Arb: also where one class has nearly all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.numerics.arrays import Scalars
from suffice.numerics.compensated import squared_radius
from suffice.pairs import ladder
from suffice.realizations.analytic import computable, realize_contrastive
from suffice.realizations.ordinary import ordinary_rows
from suffice.realizations.ordinary_distances import ordinary_distances, raised_squares, sizes_of
from suffice.realizations.row_widening import RowWidening, row_widening
from tests.attacks.extremes import extreme_states
from tests.support.ordinary import exact_distances, ordinary_states, shaken_cases


@pytest.mark.parametrize("order", [1, 2, 6])
def test_they_are_above_the_exact_ones(order: int) -> None:
    seen, dominated = 0, 0
    for seed in range(15):
        states = ordinary_states(seed)
        made = realize_contrastive(states, sf.DebyePair(order=order))._ordinary
        assert made is not None
        for i in made.narrow.nonzero().squeeze(1).tolist():
            with ctx.workprec(1200):
                for rho, found in zip(exact_distances(states[i : i + 1], order), made.distances[i], strict=True):
                    assert rho <= arb(found.item())
                    assert arb(found.item()) <= rho * (1 + 1e-6) + arb(1e-12)
            seen += 1
            dominated += bool(made.head.pi[i].max() > 0.9)
    assert seen > 30
    assert dominated > 3


@pytest.mark.parametrize("order", [1, 2, 6])
def test_a_geometry_that_is_off_by_its_widening(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Radii, slopes and probabilities that are off by more than roundings."""
    for state, computed, _ in shaken_cases(10, monkeypatch):
        made = ordinary_rows(state, computed, sf.DebyePair(order=order), torch.zeros(1, dtype=torch.bool))
        assert made is not None
        with ctx.workprec(1200):
            for rho, found in zip(exact_distances(state, order), made.distances[0], strict=True):
                assert rho <= arb(found.item())


Distances = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]


def _around(dominates: float) -> tuple[sf.States, RowWidening, Distances]:
    """A top class between two others, so that its distance nearly cancels; and distances as if the geometry were exact.

    Of given log-probabilities, s(r_j) at which slopes are taken, radii, and errors of the first two.
    """
    eye = torch.eye(16, dtype=torch.float64)
    mu = torch.stack([eye[0], eye[0] + 0.05 * eye[1], eye[0] - 0.05 * eye[1]])
    bank = sf.ClassBank(torch.nn.functional.normalize(mu, dim=1), torch.full((3,), 20.0), [dominates, 0.0, 0.0])
    features = 2 * eye[:1] + 1e-3 * torch.linspace(-1, 1, 16, dtype=torch.float64)
    states = sf.States(bank, features, [0], 1.0)
    geometry = states.geometry()
    wide, head = row_widening(states, geometry), realize_contrastive(states, sf.DebyePair()).head()
    nothing, none = torch.zeros(1, dtype=torch.float64), np.zeros(1)
    wide = replace(wide, per_k=none, constant=none, over_r=none, over_s=none, relative=none)

    def distances(log_pi: Tensor, s: Tensor, radii: Tensor, eps: float, over_s: float) -> Tensor:
        at = replace(head, log_probabilities=log_pi, probabilities=log_pi.exp(), log_error=nothing + eps)
        slopes = ladder.slope_from_radii(2, geometry.nu, s, 1 / s)
        off = replace(wide, over_s=none + over_s, s_least=wide.s_least - 2 * over_s)
        return ordinary_distances(states, replace(geometry, radii=radii), 2, off, slopes, at)

    return states, wide, distances


@pytest.mark.parametrize("dominates", [0.5, 5.0])
def test_distances_move_with_slopes_and_probabilities(dominates: float) -> None:
    """Distances at slopes and log-probabilities that are off are within those that know by how much."""
    states, _, distances = _around(dominates)
    g, geometry = torch.Generator().manual_seed(0), states.geometry()
    log_pi, radii = realize_contrastive(states, sf.DebyePair()).head().log_probabilities, geometry.radii
    s, eps, over_s = torch.hypot(radii, torch.tensor(geometry.nu, dtype=torch.float64)), 0.2, 0.1
    known = distances(log_pi, s, radii, eps, 0.0), distances(log_pi, s, radii, 0.0, over_s)
    plain = distances(log_pi, s, radii, 0.0, 0.0)
    farthest = torch.zeros(2, 3, dtype=torch.float64)
    for _ in range(100):
        signs = 2 * (torch.rand(log_pi.shape, generator=g) < 0.5).double() - 1
        moved = log_pi + eps / 2 * signs
        moved = moved - moved.logsumexp(dim=1, keepdim=True)
        at = distances(moved, s, radii, 0.0, 0.0), distances(log_pi, s + signs * over_s, radii, 0.0, 0.0)
        for kind, (found, most) in enumerate(zip(at, known, strict=True)):
            assert (found <= most).all()
            farthest[kind] = torch.maximum(farthest[kind], (found / plain)[0])
    # of the top class, and of the others where they are near enough to it
    assert (farthest[:, 0] > 1.1).all()


def test_radii_that_are_not_those_of_the_vectors() -> None:
    """Squared radii that are off by what the row is widened by: the squares are not those of the vectors."""
    states, wide, distances = _around(0.5)
    geometry = states.geometry()
    log_pi, radii = realize_contrastive(states, sf.DebyePair()).head().log_probabilities, geometry.radii
    s = torch.hypot(radii, torch.tensor(geometry.nu, dtype=torch.float64))
    right = distances(log_pi, s, radii, 0.0, 0.0)
    for size in (1e-3, 1e-5):
        for of_product, of_square in ((1.0, 0.0), (0.0, 1.0)):
            per_k, constant = size * of_product * wide.length, size * of_square * wide.length**2
            off = torch.from_numpy(per_k)[:, None] * geometry.concentrations + torch.from_numpy(constant)[:, None]
            shorter = torch.sqrt(radii**2 - off)
            head = realize_contrastive(states, sf.DebyePair()).head()
            slopes = ladder.slope_from_radii(2, geometry.nu, s, 1 / s)
            found = ordinary_distances(
                states,
                replace(geometry, radii=shorter),
                2,
                replace(wide, per_k=per_k, constant=constant),
                slopes,
                replace(head, log_error=torch.zeros(1, dtype=torch.float64)),
            )
            assert (right <= found * (1 + 1e-6)).all()


def test_the_top_class_of_a_saturated_row() -> None:
    """1 - pi from 1e-3 to 1e-250: the distance of the top class is as small, and right to some digits."""
    states = ordinary_states(2, queries=1)
    for lower in (5.0, 30.0, 200.0, 570.0):
        biases = torch.full((states.num_classes,), -lower, dtype=torch.float64)
        biases[0] = 0.0
        bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, biases)
        there = sf.States(bank, states.features, states.labels, states.temperature)
        made = realize_contrastive(there, sf.DebyePair())._ordinary
        assert made is not None
        assert bool(made.narrow)
        with ctx.workprec(3000):
            exact = exact_distances(there, bits=3000)
            for rho, found in zip(exact, made.distances[0], strict=True):
                assert rho <= arb(found.item())
            top = int(made.head.pi.argmax())
            assert arb(made.distances[0, top].item()) <= exact[top] * (1 + arb(1e-8))


def test_they_are_those_of_classes() -> None:
    for seed in range(20):
        realized = realize_contrastive(ordinary_states(seed), sf.DebyePair())
        made = realized._ordinary
        assert made is not None
        rows = made.narrow
        torch.testing.assert_close(made.distances[rows], realized._each.distances[rows], rtol=1e-7, atol=1e-12)


def _narrow_rows(order: int) -> Iterator[tuple[sf.States, RowWidening, Scalars, Scalars, Scalars]]:
    """States with narrow rows, their widening, slopes, k + |phi| and radii."""
    for states in [*(ordinary_states(seed) for seed in range(20)), *(extreme_states(seed) for seed in range(20))]:
        inside, _ = computable(states)
        geometry = inside.geometry()
        wide = row_widening(inside, geometry)
        rows = torch.from_numpy(wide.narrow).nonzero().squeeze(1)
        if inside.bank.nu < 2 or not len(rows):
            continue
        geometry, wide = geometry[rows], row_widening(inside[rows], geometry[rows])
        s = (squared_radius(geometry.concentrations, geometry.squared_gaps) + geometry.nu**2).sqrt()
        slopes = ladder.slope_from_radii(order, geometry.nu, s, 1 / s).numpy()
        ends = geometry.concentrations.numpy() + wide.length[:, None]
        yield inside[rows], wide, slopes, ends, geometry.radii.numpy()


@pytest.mark.parametrize("order", [1, 2, 6])
def test_sizes_are_above_those_of_every_class(order: int) -> None:
    """And not by much where every class is alike."""
    seen, tight = 0, 0
    for states, wide, slopes, ends, radii in _narrow_rows(order):
        found = sizes_of(states.bank.nu, order, wide)
        assert (found.slope >= slopes.max(axis=1)).all()
        assert (found.size >= (slopes * ends).max(axis=1)).all()
        assert (found.beyond >= (slopes * (ends - radii)).max(axis=1)).all()
        seen += len(slopes)
        tight += int((found.size <= 2 * (slopes * ends).max(axis=1)).sum())
    assert seen > 50
    assert tight > seen / 5
    # phi along the direction of a class of the largest concentration, and against it; the series counts at small nu
    for dim, sign in ((6, 1.0), (6, -1.0), (64, 1.0), (64, -1.0)):
        eye = torch.eye(dim, dtype=torch.float64)
        states = sf.States(sf.ClassBank(eye[:2], [4.0, 4.0]), sign * 3.0 * eye[:1], [0], 1.0)
        geometry, nu = states.geometry(), dim / 2 - 1
        s = torch.hypot(geometry.radii, torch.full_like(geometry.radii, nu))
        found = sizes_of(nu, order, row_widening(states, geometry))
        slopes = ladder.slope_from_radii(order, nu, s, 1 / s).numpy()
        assert (found.slope >= slopes.max(axis=1)).all()
        assert (found.size >= (slopes * 7.0).max(axis=1)).all()
        assert (found.beyond >= (slopes * (7.0 - geometry.radii.numpy())).max(axis=1)).all()


def test_raised_squares_are_above_the_roundings_of_every_class() -> None:
    """With a gamma that is seen, and close to them where the radius is nothing beside |phi|."""
    least = np.inf
    for states, wide, slopes, ends, radii in _narrow_rows(2):
        sizes, gamma = sizes_of(states.bank.nu, 2, wide), 0.1
        for share in (0.0, 0.5, 1.0):
            mean = share * sizes.size
            raised = raised_squares(gamma, wide, sizes, mean)[:, None] + 5 * gamma * (slopes * radii) ** 2
            needed = gamma * (slopes * ends + mean[:, None]) ** 2
            assert (raised >= needed).all()
            least = min(least, (raised / needed).min())
    assert least < 1.3


def test_a_vector_and_the_mean_move_apart() -> None:
    """Two vectors in one direction, of which one is longer than computed and the other, which is the mean, shorter."""
    eye = torch.eye(16, dtype=torch.float64)
    bank = sf.ClassBank(eye[[0, 0]], [1e3, 1.1e3], [3.0, 0.0])
    states = sf.States(bank, 2 * eye[:1], [0], 1.0)
    geometry, head = states.geometry(), realize_contrastive(states, sf.DebyePair()).head()
    assert 0.9 < head.pi.max().item() < 0.99
    s = torch.hypot(geometry.radii, torch.full_like(geometry.radii, geometry.nu))
    wide, over_s = row_widening(states, geometry), 1.0

    def distances(at: Tensor, off: float) -> float:
        slopes = ladder.slope_from_radii(2, geometry.nu, at, 1 / at)
        here = replace(wide, over_s=np.full(1, off), s_least=wide.s_least - 2 * off)
        found = ordinary_distances(states, geometry, 2, here, slopes, head)
        return found[0, 1 - int(head.top)].item()

    signs = torch.ones_like(s).scatter(1, head.top[:, None], -1.0)
    plain = distances(s, 0.0)
    for sign in (signs, -signs):
        assert distances(s + over_s * sign, 0.0) <= distances(s, over_s)
    # by more than one of them moves
    alone = torch.where(signs > 0, s, s + over_s)
    farthest = max(distances(s + over_s * sign, 0.0) for sign in (signs, -signs))
    assert farthest - plain > 1.5 * abs(distances(alone, 0.0) - plain)
