"""Every term of the execution bound is needed: states in which that term alone makes the bound true.

Where no state shows a term, because others that are always there are larger, an error of the declared size is put in
by hand and followed to the output.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.geometry import geometry_bounds
from suffice.numerics.formats import FORMATS, format_of
from suffice.numerics.rounding import unit_roundoff
from suffice.objectives.contrastive import combine
from suffice.realizations.analytic import prepared_from
from suffice.realizations.executed import roundings
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.realization import ExecutedErrors, executed_errors, executed_geometry
from suffice.realizations.geometry_error import GeometryError, feature_lengths
from suffice.truth import surrogate
from tests.reference.exact import actual_errors, bounds_of, exact_outputs

ANY = sf.Budgets(loss=1.0)
U32 = unit_roundoff(torch.float32)


def _normal(generator: torch.Generator, *size: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*size, generator=generator, dtype=torch.float64), dim=-1)


def _executed(state: sf.States, order: int, dtype: torch.dtype = torch.float32) -> Executed:
    return execute(state, order, dtype)


def _errors(states: sf.States, executed: Executed) -> ExecutedErrors:
    return executed_errors(states, executed, sf.DebyePair(order=executed.order), distances=False)


def _holds(state: sf.States, order: int, dtype: torch.dtype = torch.float32) -> None:
    """The certificate's bounds are finite, and the executed numbers within them, against Arb."""
    found = sf.certify(state, ANY, sf.DebyePair(order=order), scope="execution", dtype=dtype)
    bounds, errors = bounds_of(found), actual_errors(state, _executed(state, order, dtype))
    assert all(math.isfinite(bound) for bound in bounds.values())
    for name, bound in bounds.items():
        assert errors[name] <= bound, name


def test_softmax_and_its_logarithm_are_rounded() -> None:
    """Scores that are exactly zero: all of the error, 5.3e-8 of log 7, comes after them."""
    eye = torch.eye(16, dtype=torch.float64)
    state = sf.States(sf.ClassBank(eye[:7], [0.0] * 7), 1e-20 * eye[:1], [0], 1.0)
    assert actual_errors(state, _executed(state, 2))["loss"] > 5e-8
    assert actual_errors(state, _executed(state, 2))["probability"] > 2e-8
    _holds(state, 2)


def test_biases_are_rounded() -> None:
    """Biases near 1e4 are off by 1e-4 in float32, and nothing else is off by more than 1e-6."""
    eye = torch.eye(16, dtype=torch.float64)
    state = sf.States(sf.ClassBank(eye[:2], [0.0, 0.0], [10000.0003, 10000.00049]), 1e-20 * eye[:1], [0], 1.0)
    assert actual_errors(state, _executed(state, 2))["loss"] > 3e-4
    _holds(state, 2)


def test_a_product_over_classes_that_loses_every_small_term() -> None:
    """One large term, and 93 of nearly half of its ulp: added one by one they are all lost.

    Without features there are no score errors, and the product's own roundings are most of the bound.
    """
    classes = 95
    mu = torch.eye(128, dtype=torch.float64)[:1]
    k = torch.full((classes,), 0.98 * U32, dtype=torch.float64)
    k[0], k[-1] = 1.0, 0.0
    state = sf.States(sf.ClassBank(mu.repeat(classes, 1), k), 1e-20 * mu, [classes - 1], 1.0)
    assert actual_errors(state, _executed(state, 6))["gradient"] > 2e-10
    _holds(state, 6)


def test_products_that_cancel() -> None:
    """2 k mu.u = -|u|^2: the scores are nothing but the roundings of the two products, and no score is large."""
    q = torch.linalg.qr(torch.randn(128, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q.T
    mu = torch.stack([-0.5 * q[0] + 0.75**0.5 * q[1], -0.5 * q[0] + 0.75**0.5 * q[2]])
    state = sf.States(sf.ClassBank(mu, [1e3, 1e3]), q[:1], [0], 1e-3)
    assert actual_errors(state, _executed(state, 6))["loss"] > 1e-5
    _holds(state, 6)


def test_features_that_become_zero() -> None:
    """Half of the smallest float32 number, a thousand times, over the smallest temperature that is normal."""
    mu = torch.ones(1, 1024, dtype=torch.float64) / 32
    features = torch.full((1, 1024), 0.49 * 2.0**-149, dtype=torch.float64)
    state = sf.States(sf.ClassBank(torch.cat([mu, -mu]), [2.0**17, 2.0**17]), features, [0], 2.0**-126)
    assert actual_errors(state, _executed(state, 6))["loss"] > 1.5e-6
    _holds(state, 6)


def test_vectors_that_are_longer_than_the_executed_radius() -> None:
    """Two short vectors whose squared lengths are all rounding: the formula's error is that of the exact length."""
    g = torch.Generator().manual_seed(0)
    for size in torch.linspace(4e-4, 7e-4, 30, dtype=torch.float64).tolist():
        mean, side = _normal(g, 2, 6)
        side = torch.nn.functional.normalize(side - (side @ mean) * mean, dim=0)
        k = float(torch.tensor(1e-3 * (1 + 1e-7 * torch.rand(1, generator=g).item()), dtype=torch.float32))
        mu = torch.nn.functional.normalize(torch.stack([mean + size * side, mean - size * side]), dim=1)
        _holds(sf.States(sf.ClassBank(mu, [k, k]), -k * mean[None], [0], 1.0), 1)


@pytest.mark.parametrize("seed", [280, 1153, 2211, 2714, 3072, 4626, 6188])
def test_distances_between_vectors_that_are_longer_than_their_radii(seed: int) -> None:
    """The same with large score errors of opposite sign: biases whose conversion and addition lose half an ulp each.

    The seeds are those of thousands where both executed radii are far too short.
    """
    g = torch.Generator().manual_seed(seed)
    half, bias = 2.0**-4, 2.0**20 + 8
    # F(0) - F(k) is minus half an ulp of the biases: a little less is lost, a little more is doubled
    k = 2.829765281076325
    mu = _normal(g, 1, 64)
    apart = 2e-4 + 4e-4 * torch.rand(1, generator=g).item()
    biases = [bias - 0.9998 * half, bias + 0.9998 * half]
    bank = sf.ClassBank(mu.repeat(2, 1), [k * (1 - apart), k * (1 + apart)], biases)
    _holds(sf.States(bank, -k * mu, [0], 1.0), 6)


def _classwise(state: sf.States, order: int, dtype: torch.dtype) -> Executed:
    """d and a hold class by class: the score, and the slope that the formula has at the executed radius times |v|."""
    executed = _executed(state, order, dtype)
    made, exact = _errors(state, executed), exact_outputs(state)
    nu = state.bank.nu
    radii = made.prepared.geometry.radii[0].tolist()
    with ctx.workprec(900):
        for j, r in enumerate(radii):
            score = abs(arb(executed.scores[0, j].item()) - exact.scores[j])
            # the executed slope is 0 at r = 0
            slope = surrogate.ratio(order, nu, r, bits=900) / arb(r) if r > 0 else arb(0)
            assert score <= made.allowances.d[0, j].item()
            assert abs(slope - exact.slopes[j]) * exact.radii[j] <= made.allowances.a[0, j].item()
    return executed


def test_a_radius_that_is_executed_as_zero() -> None:
    """There the whole of R(r) is missing."""
    g = torch.Generator().manual_seed(0)
    zeros = 0
    for _ in range(40):
        mean, side = _normal(g, 2, 64)
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
def test_lengths_of_features_are_from_above(dtype: torch.dtype) -> None:
    """Also after the norm's own rounding."""
    g = torch.Generator().manual_seed(0)
    features = torch.randn(200, 33, generator=g, dtype=torch.float64).to(dtype)
    states = sf.States(sf.ClassBank(torch.eye(33)[:2], [1.0, 2.0]), features, [0] * 200, 0.3)
    with ctx.workprec(300):
        for row, found in zip(states.features.tolist(), feature_lengths(states).tolist(), strict=True):
            assert sum((arb(x) ** 2 for x in row), arb(0)).sqrt() / arb(0.3) <= found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [1, 2, 4, 6])
def test_roundings_of_the_formula(order: int, dtype: torch.dtype) -> None:
    """At the executed k and squared gap, taken as exact, the formula's own roundings are all that is left."""
    g = torch.Generator().manual_seed(order)
    k = 10 ** (4 * torch.rand(40, generator=g, dtype=torch.float64) - 1)
    states = sf.States(sf.ClassBank(_normal(g, 40, 32), k), _normal(g, 2, 32), [0, 1], 0.1)
    executed = _executed(states, order, dtype)
    geometry = executed_geometry(states, executed)
    nothing, r = torch.zeros_like(geometry.radii), geometry.radii
    prepared = prepared_from(states, geometry, executed.scores.double(), nothing)
    s, s_k = (torch.sqrt(x * x + geometry.nu**2) for x in (r, geometry.concentrations))
    off = GeometryError(of_gap=nothing, of_k=nothing[0], low=r, high=r, s_r=s, s_k=s_k)
    d = roundings.rounding_allowances(states, executed, prepared, off, nothing, matched_gaps=False).d
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


@pytest.fixture
def two_classes() -> sf.States:
    """A state whose score errors are small beside an error of 1e-3 somewhere else."""
    g = torch.Generator().manual_seed(5)
    return sf.States(sf.ClassBank(_normal(g, 2, 64), [40.0, 60.0], [0.5, 0.0]), _normal(g, 1, 64), [0], 1.0)


def _gradient_with(states: sf.States, executed: Executed, weights: Tensor, slopes: Tensor) -> Tensor:
    """How far the gradient moves with other weights and slopes."""
    before = combine(states, executed.weights.double() * executed.slopes.double())
    return torch.linalg.vector_norm(combine(states, weights * slopes) - before, dim=1) / states.temperature


def _carried(states: sf.States, executed: Executed) -> float:
    return _errors(states, executed).rounding.gradient.item()


def test_errors_of_weights_reach_the_gradient(two_classes: sf.States, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponentials that are off by 1e-3, as their allowance then says."""
    executed = _executed(two_classes, 6)
    small = _carried(two_classes, executed)
    row = format_of(torch.float32)
    off = dataclasses.replace(row, ulps=row.ulps._replace(exp=1e-3 / (2 * U32)))
    monkeypatch.setitem(FORMATS, torch.float32, off)
    e = torch.exp(executed.scores.double() - executed.scores.double().amax())
    e = torch.where(e < 1, e * (1 + 1e-3), e)
    pi = e / e.sum()
    weights = torch.stack([pi[0, 1] * -1, pi[0, 1]])[None]
    moved = _gradient_with(two_classes, executed, weights, executed.slopes.double()).item()
    assert small < moved <= _carried(two_classes, executed)


def test_errors_of_slopes_reach_the_gradient(two_classes: sf.States, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios that are off by a thousandth of x/(nu + s), one up and one down."""
    executed = _executed(two_classes, 6)
    small = _carried(two_classes, executed)
    size = 1e-3 / U32
    monkeypatch.setattr(roundings, "ratio_roundings", lambda _order, _nu, _dtype: (size, 0.0))
    nu = two_classes.bank.nu
    r = executed_geometry(two_classes, executed).radii
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64)
    slopes = executed.slopes.double() + sign * 1e-3 / (nu + torch.sqrt(r * r + nu * nu))
    moved = _gradient_with(two_classes, executed, executed.weights.double(), slopes).item()
    assert small < moved <= _carried(two_classes, executed)


def test_errors_along_the_feature_reach_the_gradient(two_classes: sf.States, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum over classes that multiplies f/tau, off by a thousandth of its terms."""
    executed = _executed(two_classes, 6)
    small = _carried(two_classes, executed)
    plain = roundings.gamma
    monkeypatch.setattr(
        roundings, "gamma", lambda n, dtype, model="proved": 1e-3 if n == 12 else plain(n, dtype, model)
    )
    terms = (executed.weights * executed.slopes).double().abs().sum()
    moved = (1e-3 * terms * torch.linalg.vector_norm(two_classes.features)).item()
    assert small < moved <= _carried(two_classes, executed)


def test_rows_that_left_the_model_have_no_bound(two_classes: sf.States) -> None:
    """A NaN in one output makes every bound of its row infinite, and no other row's."""
    both = two_classes[[0, 0]]
    executed = _executed(both, 6)
    gradient = executed.gradient.clone()
    gradient[1, 0] = torch.nan
    made = _errors(both, dataclasses.replace(executed, gradient=gradient))
    assert made.status.tolist() == ["inside", "gradient"]
    for contract in (geometry_bounds, conditioned_bounds):
        found = made.bounds(contract)
        for bound in (found.loss, found.probability, found.gradient, found.margin_use):
            assert torch.isfinite(bound).tolist() == [True, False]
