"""Allowances at radii that are known to an interval: they hold at every radius in it, and for differences of errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.realizations.endpoints import Endpoints, OwnEnvelope, moved_allowance, uniform_allowances
from tests.reference.states import piecewise_errors

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
