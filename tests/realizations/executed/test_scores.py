"""Every term on the way to the executed scores is needed: states in which that term alone makes the bound true."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.numerics.rounding import unit_roundoff
from suffice.realizations.class_by_class import softmax_head
from suffice.realizations.executed.placed import Placed
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.realization import executed_geometry
from suffice.realizations.executed.scores import rounding_allowances
from suffice.realizations.geometry_error import GeometryError
from suffice.truth import surrogate
from tests.realizations.executed.judging import errors_of, holds, unit_rows
from tests.reference.exact import actual_errors, exact_outputs


def test_biases_are_rounded() -> None:
    """Biases near 1e4 are off by 1e-4 in float32, and nothing else is off by more than 1e-6."""
    eye = torch.eye(16, dtype=torch.float64)
    state = sf.States(sf.ClassBank(eye[:2], [0.0, 0.0], [10000.0003, 10000.00049]), 1e-20 * eye[:1], [0], 1.0)
    assert actual_errors(state, execute(state, 2, torch.float32))["loss"] > 3e-4
    holds(state, 2)


def test_products_that_cancel() -> None:
    """2 k mu.u = -|u|^2: the scores are nothing but the roundings of the two products, and no score is large."""
    q = torch.linalg.qr(torch.randn(128, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q.T
    mu = torch.stack([-0.5 * q[0] + 0.75**0.5 * q[1], -0.5 * q[0] + 0.75**0.5 * q[2]])
    state = sf.States(sf.ClassBank(mu, [1e3, 1e3]), q[:1], [0], 1e-3)
    assert actual_errors(state, execute(state, 6, torch.float32))["loss"] > 1e-5
    holds(state, 6)


def test_features_that_become_zero() -> None:
    """Half of the smallest float32 number, a thousand times, over the smallest temperature that is normal."""
    mu = torch.ones(1, 1024, dtype=torch.float64) / 32
    features = torch.full((1, 1024), 0.49 * 2.0**-149, dtype=torch.float64)
    state = sf.States(sf.ClassBank(torch.cat([mu, -mu]), [2.0**17, 2.0**17]), features, [0], 2.0**-126)
    assert actual_errors(state, execute(state, 6, torch.float32))["loss"] > 1.5e-6
    holds(state, 6)


def test_vectors_that_are_longer_than_the_executed_radius() -> None:
    """Two short vectors whose squared lengths are all rounding: the formula's error is that of the exact length."""
    g = torch.Generator().manual_seed(0)
    for size in torch.linspace(4e-4, 7e-4, 30, dtype=torch.float64).tolist():
        mean, side = unit_rows(g, 2, 6)
        side = torch.nn.functional.normalize(side - (side @ mean) * mean, dim=0)
        k = float(torch.tensor(1e-3 * (1 + 1e-7 * torch.rand(1, generator=g).item()), dtype=torch.float32))
        mu = torch.nn.functional.normalize(torch.stack([mean + size * side, mean - size * side]), dim=1)
        holds(sf.States(sf.ClassBank(mu, [k, k]), -k * mean[None], [0], 1.0), 1)


@pytest.mark.parametrize("seed", [280, 1153, 2211, 2714, 3072, 4626, 6188])
def test_distances_between_vectors_that_are_longer_than_their_radii(seed: int) -> None:
    """The same with large score errors of opposite sign: biases whose conversion and addition lose half an ulp each.

    The seeds are those of thousands where both executed radii are far too short.
    """
    g = torch.Generator().manual_seed(seed)
    half, bias = 2.0**-4, 2.0**20 + 8
    # F(0) - F(k) is minus half an ulp of the biases: a little less is lost, a little more is doubled
    k = 2.829765281076325
    mu = unit_rows(g, 1, 64)
    apart = 2e-4 + 4e-4 * torch.rand(1, generator=g).item()
    biases = [bias - 0.9998 * half, bias + 0.9998 * half]
    bank = sf.ClassBank(mu.repeat(2, 1), [k * (1 - apart), k * (1 + apart)], biases)
    holds(sf.States(bank, -k * mu, [0], 1.0), 6)


def _classwise(state: sf.States, order: int, dtype: torch.dtype) -> Executed:
    """d and a hold class by class: the score, and the slope that the formula has at the executed radius times |v|."""
    executed = execute(state, order, dtype)
    made, exact = errors_of(state, executed), exact_outputs(state)
    nu = state.bank.nu
    radii, own = made.geometry.radii[0].tolist(), made.own()
    with ctx.workprec(900):
        for j, r in enumerate(radii):
            score = abs(arb(executed.scores[0, j].item()) - exact.scores[j])
            # the executed slope is 0 at r = 0
            slope = surrogate.ratio(order, nu, r, bits=900) / arb(r) if r > 0 else arb(0)
            assert score <= own.d[0, j].item()
            assert abs(slope - exact.slopes[j]) * exact.radii[j] <= own.a[0, j].item()
    return executed


def test_a_radius_that_is_executed_as_zero() -> None:
    """There the whole of R(r) is missing."""
    g = torch.Generator().manual_seed(0)
    zeros = 0
    for _ in range(40):
        mean, side = unit_rows(g, 2, 64)
        mu = torch.nn.functional.normalize(torch.stack([mean + 1e-4 * side, mean - 1e-4 * side]), dim=1)
        executed = _classwise(sf.States(sf.ClassBank(mu, [1.0, 1.0]), -mean[None], [0], 1.0), 6, torch.float32)
        zeros += int((executed.slopes == 0).sum())
    assert zeros > 10


def test_concentrations_are_rounded() -> None:
    """Without features the radius is k, and k in float32 is another number: slopes move by that alone."""
    mu = torch.eye(64, dtype=torch.float64)[:2]
    for k in (33.3, 100.1, 1000.3):
        _classwise(sf.States(sf.ClassBank(mu, [k, k * 1.01]), 1e-20 * mu[:1], [0], 1.0), 6, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [1, 2, 4, 6])
def test_roundings_of_the_formula(order: int, dtype: torch.dtype) -> None:
    """At the executed k and squared gap, taken as exact, the formula's own roundings are all that is left."""
    g = torch.Generator().manual_seed(order)
    k = 10 ** (4 * torch.rand(40, generator=g, dtype=torch.float64) - 1)
    states = sf.States(sf.ClassBank(unit_rows(g, 40, 32), k), unit_rows(g, 2, 32), [0, 1], 0.1)
    executed = execute(states, order, dtype)
    geometry = executed_geometry(states, executed)
    nothing, r = torch.zeros_like(geometry.radii), geometry.radii
    head = softmax_head(states, executed.scores.double(), nothing)
    placed = Placed(geometry=geometry, head=head, top=head.log_probabilities.argmax(dim=1))
    s, s_k = (torch.sqrt(x * x + geometry.nu**2) for x in (r, geometry.concentrations))
    off = GeometryError(of_gap=nothing, of_k=nothing[0], low=r, high=r, s_r=s, s_k=s_k)
    d = rounding_allowances(states, executed, placed, off, nothing, matched_gaps=False).d
    worst = 0.0
    for n in range(len(states)):
        for j, k_hat in enumerate(geometry.concentrations.tolist()):
            gap = geometry.squared_gaps[n, j].item()
            exact = surrogate.potential_difference(order, geometry.nu, geometry.radii[n, j].item(), k_hat, gap)
            with ctx.workprec(512):
                error = float(abs(arb(executed.scores[n, j].item()) - exact).mid())
            assert error <= d[n, j].item()
            worst = max(worst, error / abs(executed.scores[n, j].item()))
    # more than the last rounding, that of the sum with the bias
    assert worst > 1.5 * unit_roundoff(dtype)
