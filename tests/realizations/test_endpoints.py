"""Allowances at endpoints: they cover integrals between exact radii, which mpmath and Arb know."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.realizations.analytic import Analytic, AnalyticRealized
from suffice.realizations.endpoints import Endpoints, OwnEnvelope, moved_allowance, uniform_allowances
from suffice.realizations.geometry_error import geometry_error
from tests.reference import high_precision
from tests.reference.exact import exact_outputs
from tests.reference.states import random_states
from tests.support.collections import make_states

PAIR = sf.DebyePair(order=2)


def _ends(states: sf.States) -> Endpoints:
    geometry = states.geometry()
    off = geometry_error(states, geometry, torch.float64, torch.float64, "proved")
    return Endpoints(geometry=geometry, of_gap=off.of_gap, low=off.low, high=off.high)


def _towards(states: sf.States) -> tuple[Tensor, Tensor]:
    realized = Analytic(PAIR).at(states)
    assert isinstance(realized, AnalyticRealized)
    return states.labels, realized.top


@pytest.mark.parametrize("seed", range(7))
def test_uniform_allowances_cover_the_exact_gaps(seed: int) -> None:
    """d_j >= |r_j - k_j|, and matched gaps >= what errors that integrate one function of size 1 can differ by."""
    states = random_states(seed, 3, [(4, 16)])
    found = uniform_allowances(_ends(states), _towards(states))
    assert found.to_target is not None
    assert found.to_top is not None
    assert torch.equal(found.a, torch.ones_like(found.d))
    k = states.bank.concentrations.tolist()
    for row in range(3):
        radii = exact_outputs(states[row : row + 1]).radii
        y, w = (int(index[row]) for index in _towards(states))
        with ctx.workprec(900):
            for j, r in enumerate(radii):
                assert not arb(found.d[row, j].item()) < abs(r - arb(k[j]))
                for i, matched in ((y, found.to_target), (w, found.to_top)):
                    bound = matched[row, j].item()
                    # the integral over the symmetric difference of two intervals, of a function of size 1
                    most = abs(abs(r - arb(k[j])) - abs(radii[i] - arb(k[i])))
                    assert not arb(bound) < most
                    assert bound <= (found.d[row, j] + found.d[row, i]).item()
        assert found.to_target[row, y] == 0
        assert found.to_top[row, w] == 0
    plain = uniform_allowances(_ends(states), None)
    assert plain.to_target is None
    assert torch.equal(plain.d, found.d)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_own_allowances_cover_the_exact_errors(order: int) -> None:
    """e_j = (F - Phi)(r_j) - (F - Phi)(k_j) at the exact radius, its differences, and the ratio's error there."""
    pair = sf.DebyePair(order=order)
    states = make_states(3, 4, 8, 5, single=False)
    nu = states.bank.nu
    envelope = OwnEnvelope(_ends(states), pair)
    found = envelope.matched(_towards(states))
    assert found.to_top is not None
    k = states.bank.concentrations
    for row in range(3):
        radii = [float(r.mid()) for r in exact_outputs(states[row : row + 1]).radii]
        w = int(_towards(states)[1][row])
        errors = []
        for j, r in enumerate(radii):
            with mpmath.workdps(30):
                at_r, at_k = (high_precision.potential(nu, mpmath.mpf(x)) for x in (r, float(k[j])))
                errors.append(float(pair.difference(nu, r, float(k[j])).item() - (at_r - at_k)))
                ratio = float(pair.ratio(nu, r).item() - high_precision.ratio(nu, r))
            assert abs(errors[j]) <= found.d[row, j].item() + 1e-13
            assert abs(ratio) <= found.a[row, j].item() + 1e-15
        for j, error in enumerate(errors):
            assert abs(error - errors[w]) <= found.to_top[row, j].item() + 2e-13
        # not idle
        assert max(abs(error) for error in errors) > 1e-3 * found.d[row].max().item()


def test_what_lies_between_computed_and_exact_radius() -> None:
    """At least the integral of the allowance between any two radii whose squares are `of_gap` apart from low on."""
    nu, low = 7.0, torch.tensor([[0.0, 0.5, 30.0]], dtype=torch.float64)
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(40))
    for size in (1e-12, 1e-3, 2.0):
        found = moved_allowance(PAIR, nu, low, torch.full_like(low, size))
        for j, x in enumerate(low[0].tolist()):
            for start in (x * x, x * x + 0.7, x * x + 20.0):
                # over squares y: dr = dy/(2 r)
                radii = torch.sqrt(start + size * (1 + nodes) / 2)
                integral = (size / 2 * weights * PAIR.allowance(nu, radii) / (2 * radii)).sum()
                assert found[0, j] >= integral * (1 - 1e-6)
                assert start > x * x or found[0, j] <= integral * 1.1


def test_wider_intervals_never_allow_less() -> None:
    states = make_states(4, 5, 16, 2)
    ends = _ends(states)
    computed = Endpoints.computed(ends.geometry)
    assert torch.equal(computed.low, computed.high)
    assert not computed.of_gap.any()
    wide = replace(ends, of_gap=ends.of_gap + 1e-3, low=(ends.low - 1e-3).clamp_min(0), high=ends.high + 1e-3)
    towards = _towards(states)
    for make in (lambda e: uniform_allowances(e, towards), lambda e: OwnEnvelope(e, PAIR).matched(towards)):
        narrow, middle, broad = make(computed), make(ends), make(wide)
        for name in ("d", "a", "to_target", "to_top"):
            assert (getattr(middle, name) >= getattr(narrow, name) * (1 - 1e-15)).all()
            assert (getattr(broad, name) >= getattr(middle, name)).all()


def test_allowances_hold_at_both_ends_of_the_interval() -> None:
    """Wherever the exact radius lies: paths from k to it, and differences of two such paths, by their definition."""
    # order 2 has the smaller of two allowances on each piece of a path, which in sum may be less than on the whole
    pair = sf.DebyePair(order=4)
    states = make_states(4, 5, 16, 2)
    geometry, nu, k = states.geometry(), states.bank.nu, states.bank.concentrations
    of_gap = 0.1 * geometry.radii**2
    low, high = (torch.sqrt(geometry.radii**2 + sign * of_gap) for sign in (-1, 1))
    ends = Endpoints(geometry=geometry, of_gap=of_gap, low=low, high=high)
    towards = _towards(states)
    uniform, own = uniform_allowances(ends, towards), OwnEnvelope(ends, pair).matched(towards)
    for r in (low, high):
        assert (uniform.d >= (r - k).abs()).all()
        assert (own.d >= pair.score_allowance(nu, k, r) * (1 - 1e-12)).all()
        assert (own.a >= pair.allowance(nu, r) * (1 - 1e-12)).all()
    for name, index in zip(("to_target", "to_top"), towards, strict=True):
        for ours, theirs in ((low, high), (high, low), (low, low), (high, high)):
            there, at_k = theirs.gather(1, index[:, None]), k[index][:, None]
            others = torch.arange(5) != index[:, None]
            apart = (ours - there).abs() + (k - at_k).abs()
            least = torch.minimum(apart, (ours - k).abs() + (there - at_k).abs())
            assert (getattr(uniform, name) >= least)[others].all()
            apart = pair.score_allowance(nu, there, ours) + pair.score_allowance(nu, at_k, k.expand_as(ours))
            paths = pair.score_allowance(nu, k, ours) + pair.score_allowance(nu, at_k, there)
            assert (getattr(own, name) >= torch.minimum(apart, paths) * (1 - 1e-12))[others].all()


def test_rows() -> None:
    states, rows = make_states(4, 5, 16, 2), torch.tensor([3, 1])
    envelope = OwnEnvelope(_ends(states), PAIR)
    before = envelope[rows].plain
    whole = envelope.plain
    after = envelope[rows]
    assert "plain" in vars(after)
    for part in (before, after.plain):
        assert torch.equal(part.d, whole.d[rows])
        assert torch.equal(part.a, whole.a[rows])


def test_radii_that_may_be_nothing() -> None:
    """f = -tau k mu: the exact radius is zero, and d is at least k."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:2], [2.0, 0.0])
    states = sf.States(bank, -torch.eye(6, dtype=torch.float64)[:1], [0], 0.5)
    found = uniform_allowances(_ends(states), _towards(states))
    assert torch.isfinite(found.d).all()
    assert found.d[0, 0] >= 2
    none = sf.States(bank, torch.zeros(1, 6), [0], 0.5)
    still = uniform_allowances(Endpoints.computed(none.geometry()), None)
    assert still.d.tolist() == [[0.0, 0.0]]
