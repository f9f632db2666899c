"""What float64 computes is widened past the exact geometry: radii, scores, allowances, distances, class by class."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.objectives.contrastive import class_scores
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.geometry_error import GeometryError, direction_error, feature_lengths, geometry_error
from tests.attacks.extremes import KINDS, extreme_states
from tests.reference.oracle import Geometry, states_of

BITS = 2400
PAIR = sf.DebyePair(order=2)


def _error(states: sf.States) -> GeometryError:
    return geometry_error(states, states.geometry(), torch.float64, torch.float64, "proved")


def off_unit(seed: int, dim: int = 5) -> sf.States:
    """Rows whose length is off by as much as is left alone, and features that nearly cancel them."""
    g = torch.Generator().manual_seed(seed)
    mu = torch.nn.functional.normalize(torch.randn(3, dim, generator=g, dtype=torch.float64), dim=1)
    mu = mu * (1 + (2.0 * (seed % 2) - 1) * 7 * 2.0**-53)
    k = 10 ** (2 + 3 * torch.rand(3, generator=g, dtype=torch.float64))
    features = -k[:1] * mu[:1] * (1 + 10 ** (-12 + 8 * torch.rand(1, generator=g, dtype=torch.float64)))
    return sf.States(sf.ClassBank(mu, k), features, [0], 1.0)


def short(seed: int) -> sf.States:
    """Features far shorter than k: the rounding of the radius itself is more than that of the gap."""
    g = torch.Generator().manual_seed(seed)
    mu = torch.nn.functional.normalize(torch.randn(3, 7, generator=g, dtype=torch.float64), dim=1)
    k = 10 ** (2 + 2 * torch.rand(3, generator=g, dtype=torch.float64))
    return sf.States(sf.ClassBank(mu, k), 1e-6 * torch.randn(4, 7, generator=g, dtype=torch.float64), [0, 1, 2, 0], 1.0)


def cases(banks: int) -> Iterator[tuple[sf.States, Geometry]]:
    """States of every extreme kind whose numbers are in range, one by one, with their exact geometry."""
    for seed in range(banks):
        whole = off_unit(seed) if seed % 4 == 3 else short(seed) if seed % 8 == 4 else extreme_states(seed)
        inside = realize_contrastive(whole, PAIR).head().known
        for i in range(len(whole)):
            state = whole[i : i + 1]
            with ctx.workprec(BITS):
                geometry = states_of(state)[0].at(BITS)
                # without a feature all is exactly zero, and a ball never is
                if bool(inside[i]) and geometry.decided and bool(state.features.any()):
                    yield state, geometry


def test_radii_lie_in_their_intervals() -> None:
    seen = 0
    for state, exact in cases(8 * len(KINDS)):
        off, computed = _error(state), state.geometry()
        with ctx.workprec(BITS):
            for j, r in enumerate(exact.r):
                assert arb(off.low[0, j].item()) <= r <= arb(off.high[0, j].item())
                k, gap = arb(computed.concentrations[j].item()), arb(computed.squared_gaps[0, j].item())
                assert abs(k * k + gap - r * r) <= arb(off.of_gap[0, j].item())
                nu = arb(computed.nu)
                assert arb(off.s_r[0, j].item()) <= (nu * nu + r * r).sqrt()
                seen += 1
    assert seen > 1000


def test_directions_are_unit_vectors_to_the_proven_error() -> None:
    """Rows of any length near one, float32 rows among them, and rows that are left as they are."""
    g = torch.Generator().manual_seed(0)
    for dim in (5, 33, 512):
        rows = torch.nn.functional.normalize(torch.randn(40, dim, generator=g, dtype=torch.float64), dim=1)
        rows = rows * (1 + torch.cat([torch.linspace(-9e-4, 9e-4, 20), torch.linspace(-8.9e-16, 8.9e-16, 20)])[:, None])
        for stored in (rows, rows.float()):
            kept = sf.ClassBank(stored, torch.ones(40)).directions.tolist()
            with ctx.workprec(300):
                for before, after in zip(stored.double().tolist(), kept, strict=True):
                    length = sum((arb(x) ** 2 for x in before), arb(0)).sqrt()
                    apart = sum(((arb(x) / length - arb(y)) ** 2 for x, y in zip(before, after, strict=True)), arb(0))
                    assert apart.sqrt() <= arb(direction_error(dim))


@pytest.mark.parametrize("order", [1, 2, 4])
def test_scores_are_within_their_error(order: int) -> None:
    pair, large = sf.DebyePair(order=order), 0
    for state, exact in cases(4 * len(KINDS)):
        computed = state.geometry()
        scores = class_scores(state, computed, pair)
        error = realize_contrastive(state, pair)._each._score_error()
        with ctx.workprec(BITS):
            ends = exact.bank.surrogate_ends(order)
            for j, r in enumerate(exact.r):
                true = exact.bank.surrogate(order, r)[0] - ends[j] + arb(exact.bank.c[j])
                off = abs(arb(scores[0, j].item()) - true)
                assert off <= arb(error[0, j].item())
                large += off > 1e-6
    # radii of the size of their rounding are among them
    assert large > 10


ENVELOPES = [None, sf.ClosedForm(2), sf.Uniform("quarter"), sf.StateEnvelope()]


@pytest.mark.parametrize("envelope", ENVELOPES, ids=str)
def test_allowances_hold_at_the_exact_geometry(envelope: sf.Allowance | None) -> None:
    """Scores, ratios and differences of score errors of F_2 against the Bessel functions."""
    pair = sf.DebyePair(order=2, envelope=envelope)
    for state, exact in cases(2 * len(KINDS)):
        realized = realize_contrastive(state, pair)
        own = realized.own(sf.Needs.MATCHED_GAPS)
        assert own.to_target is not None
        with ctx.workprec(BITS):
            ends = exact.bank.surrogate_ends(2)
            sides = [exact.bank.surrogate(2, r) for r in exact.r]
            e = [
                f - end + arb(c) - q for (f, _), end, c, q in zip(sides, ends, exact.bank.c, exact.scores, strict=True)
            ]
            for j, r in enumerate(exact.r):
                assert abs(e[j]) <= arb(own.d[0, j].item())
                assert abs(sides[j][1] - exact.slopes[j]) * r <= arb(own.a[0, j].item())
                if j != exact.label:
                    assert abs(e[j] - e[exact.label]) <= arb(own.to_target[0, j].item())


def test_score_allowances_reach_the_exact_radius() -> None:
    """The envelope's integral between k and the exact r, which no computed radius has to a digit."""
    for order in (1, 2):
        pair = sf.DebyePair(order=order, envelope=sf.ClosedForm(order))
        for state, exact in cases(3 * len(KINDS)):
            d = realize_contrastive(state, pair).own().d
            with ctx.workprec(BITS):
                nu = exact.bank.nu
                c = nu / (2 * (nu + 1))
                for j, (r, k) in enumerate(zip(exact.r, exact.k, strict=True)):
                    s_r, s_k = ((nu * nu + x * x).sqrt() for x in (r, k))
                    assert c / order * abs(s_k**-order - s_r**-order) <= arb(d[0, j].item())


def test_gaps_hold_at_the_exact_geometry() -> None:
    """The uniform family at b = 1: |r - k|, and differences of these for the error functions x and |x - k_y|."""
    for state, exact in cases(8 * len(KINDS)):
        unit = realize_contrastive(state, PAIR).unit(sf.Needs.MATCHED_GAPS)
        assert unit.to_target is not None
        y = exact.label
        with ctx.workprec(BITS):
            for j in exact.classes:
                r, k = exact.r[j], exact.k[j]
                assert abs(r - k) <= arb(unit.d[0, j].item())
                if j == y:
                    continue
                most = arb(unit.to_target[0, j].item())
                assert abs((r - k) - (exact.r[y] - exact.k[y])) <= most
                assert abs(abs(r - exact.k[y]) - abs(k - exact.k[y]) - abs(exact.r[y] - exact.k[y])) <= most


def test_distances_hold_at_the_exact_geometry() -> None:
    """rho_j of exact vectors and probabilities; at ordinary states the widening is nothing."""
    ordinary = 0
    for state, exact in cases(6 * len(KINDS)):
        head = realize_contrastive(state, PAIR).head(sf.Needs.DISTANCES)
        assert head.distances is not None
        assert head.log_error is not None
        with ctx.workprec(BITS):
            sides = [exact.bank.surrogate(2, r) for r in exact.r]
            ends, c = exact.bank.surrogate_ends(2), exact.bank.c
            p, top = exact.softmax([f - end + b for (f, _), end, b in zip(sides, ends, c, strict=True)])
            slopes = [slope for _, slope in sides]
            for j in exact.classes:
                # (1 - p_j) hhat_j - sum of the others, without a subtraction of probabilities
                others = sum((q for i, q in enumerate(p) if i != j), arb(0))
                weights = [others * slopes[j] if i == j else -q * slopes[i] for i, q in enumerate(p)]
                rho = sum(((x * exact.tau) ** 2 for x in exact.vector(weights)), arb(0)).sqrt()
                assert rho <= arb(head.distances[0, j].item())
                # only where vectors do not cancel is the rounding of their products below their distance
                if j == top and rho > 1e-290 and head.log_error.item() < 1e-10 and max(exact.bank.k) < 100:
                    assert arb(head.distances[0, j].item()) <= rho * (1 + 1e-6)
                    ordinary += 1
    assert ordinary > 10


def test_a_share_of_1e_minus_200_of_the_mass() -> None:
    """The top class's distance is a sum over the others, of shares that do not underflow."""
    bank = sf.ClassBank(torch.eye(5, dtype=torch.float64)[:3], [2.0, 3.0, 4.0], [0.0, -460.0, -460.0])
    state = sf.States(bank, torch.ones(1, 5, dtype=torch.float64), [0], 1.0)
    for scale in (1.0, 1e-170):
        small = sf.States(
            sf.ClassBank(bank.directions, bank.concentrations * scale, bank.biases), state.features * scale, [0], 1.0
        )
        head = realize_contrastive(small, PAIR).head(sf.Needs.DISTANCES)
        assert head.distances is not None
        with ctx.workprec(BITS):
            exact = states_of(small)[0].at(BITS)
            sides = [exact.bank.surrogate(2, r) for r in exact.r]
            ends = exact.bank.surrogate_ends(2)
            p, _ = exact.softmax([f - end + c for (f, _), end, c in zip(sides, ends, exact.bank.c, strict=True)])
            weights = [(p[1] + p[2]) * sides[0][1], -p[1] * sides[1][1], -p[2] * sides[2][1]]
            rho = sum((x * x for x in exact.vector(weights)), arb(0)).sqrt()
            found = arb(head.distances[0, 0].item())
            assert rho <= found <= rho.max(arb(3e-308)) * (1 + 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths_of_features_are_from_above(dtype: torch.dtype) -> None:
    """Also after the norm's own rounding."""
    g = torch.Generator().manual_seed(0)
    features = torch.randn(200, 33, generator=g, dtype=torch.float64).to(dtype)
    states = sf.States(sf.ClassBank(torch.eye(33)[:2], [1.0, 2.0]), features, [0] * 200, 0.3)
    with ctx.workprec(300):
        for row, found in zip(states.features.tolist(), feature_lengths(states).tolist(), strict=True):
            assert sum((arb(x) ** 2 for x in row), arb(0)).sqrt() / arb(0.3) <= found


@pytest.mark.parametrize(("size", "tau"), [(1e-170, 1e-100), (1e200, 1e100), (1e-170, 1.0), (3e-142, 1e-30)])
def test_lengths_of_features_whose_squares_are_out_of_range(size: float, tau: float) -> None:
    """Below the least square, past the largest one, and both in one batch."""
    features = torch.full((3, 6), size, dtype=torch.float64)
    features[1, 2:] = 0
    features[2] = 1.0
    for some in (features, features[:2]):
        states = sf.States(sf.ClassBank(torch.eye(6)[:2], [1.0, 2.0]), some, [0] * len(some), tau)
        for row, found in zip(some.tolist(), feature_lengths(states).tolist(), strict=True):
            exact = math.hypot(*row) / tau
            assert exact * (1 - 1e-15) <= found <= exact * (1 + 1e-13) + 2e-150
