"""Allowances at radii that are known to an interval: they hold at every radius in it, and for differences of errors."""

from __future__ import annotations

from collections.abc import Iterator
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
from tests.reference.states import piecewise_errors, random_states
from tests.support.collections import make_states

# of float64 sums
ROUNDED = 1 + 1e-12


def _wide(seed: int, width: float) -> tuple[sf.States, Endpoints]:
    """Classes of nearly the same concentration, and squared radii that are known to a share of them."""
    g = torch.Generator().manual_seed(seed)
    mu = torch.nn.functional.normalize(torch.randn(4, 9, generator=g, dtype=torch.float64), dim=1)
    k = 20 * (1 + 1e-2 * torch.rand(4, generator=g, dtype=torch.float64))
    features = 100 * torch.nn.functional.normalize(torch.randn(5, 9, generator=g, dtype=torch.float64), dim=1)
    states = sf.States(sf.ClassBank(mu, k), features, torch.arange(5) % 4, 1.0)
    geometry = states.geometry()
    square = geometry.radii**2
    of_gap = width * square
    return states, Endpoints(
        geometry=geometry, of_gap=of_gap, low=torch.sqrt(square - of_gap), high=torch.sqrt(square + of_gap)
    )


def _radii(ends: Endpoints, count: int = 60) -> Iterator[Tensor]:
    """Radii in the intervals: at their ends, class by class."""
    g = torch.Generator().manual_seed(0)
    for _ in range(count):
        yield torch.where(torch.rand(ends.low.shape, generator=g) < 0.5, ends.low, ends.high)


def _gathered(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, index[:, None])


@pytest.mark.parametrize("width", [1e-6, 1e-2, 0.3])
def test_the_uniform_family_holds_at_every_radius(width: float) -> None:
    """Errors of functions that are +1 or -1 everywhere, between k and any radius in its interval."""
    g = torch.Generator().manual_seed(0)
    closest = torch.zeros(3, dtype=torch.float64)
    for seed in range(4):
        states, ends = _wide(seed, width)
        top = (states.labels + 1) % 4
        unit = uniform_allowances(ends, (states.labels, top))
        assert unit.to_target is not None
        assert unit.to_top is not None
        assert (unit.a == 1).all()
        for radii in _radii(ends):
            ones = torch.ones(len(states), dtype=torch.float64)
            e, _ = piecewise_errors(ends.geometry.concentrations, radii, ones, g)
            for kind, (moved, most) in enumerate(
                (
                    (e.abs(), unit.d),
                    ((e - _gathered(e, states.labels)).abs(), unit.to_target),
                    ((e - _gathered(e, top)).abs(), unit.to_top),
                )
            ):
                assert (moved <= most * ROUNDED).all()
                closest[kind] = max(closest[kind].item(), (moved / most).nan_to_num(nan=0.0).max().item())
    assert (closest > 0.7).all()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("width", [1e-6, 1e-2, 0.3])
def test_an_envelope_of_its_own_holds_at_every_radius(width: float, order: int) -> None:
    """The closed form's integral between k and any radius in its interval, its differences, and its largest value."""
    envelope = sf.ClosedForm(order)
    for seed in range(4):
        states, ends = _wide(seed, width)
        nu, k = ends.geometry.nu, ends.geometry.concentrations
        made = OwnEnvelope(ends, envelope)
        own = made.matched((states.labels, states.labels))
        assert own.to_target is not None
        assert torch.equal(own.d, made.plain.d)
        for radii in _radii(ends):
            # one error function, the envelope itself
            signs = torch.where(radii >= k, 1.0, -1.0)
            e = signs * envelope.score_allowance(nu, k.expand_as(radii), radii)
            assert (e.abs() <= own.d * ROUNDED).all()
            assert ((e - _gathered(e, states.labels)).abs() <= own.to_target * ROUNDED + 1e-15 * own.d).all()
            assert (envelope.allowance(nu, radii) <= own.a * ROUNDED).all()


def test_what_a_radius_that_moves_adds() -> None:
    """Wherever two radii lie above `low` whose squares are `of_gap` apart, the integral between them is less."""
    for order in (1, 2):
        envelope = sf.ClosedForm(order)
        _, ends = _wide(0, 0.3)
        nu = ends.geometry.nu
        most = moved_allowance(envelope, nu, ends.low, ends.of_gap)
        for share in (1.0, 1.1, 2.0, 10.0):
            start = share * ends.low
            there = envelope.score_allowance(nu, start, torch.sqrt(start**2 + ends.of_gap))
            assert (there <= most * ROUNDED).all()
            assert share > 1 or (there >= most / ROUNDED).all()


def test_rows_are_those_of_the_whole() -> None:
    states, ends = _wide(0, 1e-2)
    rows = torch.tensor([3, 0, 4])
    towards = states.labels, (states.labels + 1) % 4
    for whole, some in (
        (uniform_allowances(ends, towards), uniform_allowances(ends[rows], (towards[0][rows], towards[1][rows]))),
        (OwnEnvelope(ends, sf.ClosedForm(2)).plain, OwnEnvelope(ends, sf.ClosedForm(2))[rows].plain),
    ):
        assert torch.equal(whole.d[rows], some.d)
        assert torch.equal(whole.a[rows], some.a)
        assert (whole.to_top is None) == (some.to_top is None)
        assert whole.to_top is None or torch.equal(whole.to_top[rows], some.to_top)
    # the computed radii alone are not widened
    computed = Endpoints.computed(ends.geometry)
    assert torch.equal(computed.low, computed.high)
    assert not computed.of_gap.any()


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
