"""Every term after the executed scores is needed: states in which that term alone makes the bound true.

Where no state shows a term, because others that are always there are larger, an error of the declared size is put in
by hand and followed to the output.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.geometry import GEOMETRY
from suffice.numerics.formats import FORMATS, format_of
from suffice.numerics.rounding import smallest_normal, ulps, unit_roundoff
from suffice.objectives.contrastive import combine
from suffice.realizations.class_by_class import softmax_head
from suffice.realizations.executed import outputs
from suffice.realizations.executed.placed import Placed
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.realization import executed_geometry
from tests.realizations.executed.judging import U32, errors_of, holds, unit_rows
from tests.reference.exact import actual_errors


def test_softmax_and_its_logarithm_are_rounded() -> None:
    """Scores that are exactly zero: all of the error, 5.3e-8 of log 7, comes after them."""
    eye = torch.eye(16, dtype=torch.float64)
    state = sf.States(sf.ClassBank(eye[:7], [0.0] * 7), 1e-20 * eye[:1], [0], 1.0)
    assert actual_errors(state, execute(state, 2, torch.float32))["loss"] > 5e-8
    assert actual_errors(state, execute(state, 2, torch.float32))["probability"] > 2e-8
    holds(state, 2)


def test_a_product_over_classes_that_loses_every_small_term() -> None:
    """One large term, and 93 of nearly half of its ulp: added one by one they are all lost.

    Without features there are no score errors, and the product's own roundings are most of the bound.
    """
    classes = 95
    mu = torch.eye(128, dtype=torch.float64)[:1]
    k = torch.full((classes,), 0.98 * U32, dtype=torch.float64)
    k[0], k[-1] = 1.0, 0.0
    state = sf.States(sf.ClassBank(mu.repeat(classes, 1), k), 1e-20 * mu, [classes - 1], 1.0)
    assert actual_errors(state, execute(state, 6, torch.float32))["gradient"] > 2e-10
    holds(state, 6)


@pytest.mark.parametrize(
    ("dim", "k", "length"), [(64, 1e-23, 1e-24), (128, 1e-23, 1e-24), (64, 2e-23, 0.0), (8, 1e-24, 2e-23)]
)
def test_a_squared_radius_that_underflows_in_float32(dim: int, k: float, length: float) -> None:
    """The executed slope is 0, and all of a gradient of 1e-25 is missing: bounds were once a third of that."""
    eye = torch.eye(dim, dtype=torch.float64)
    state = sf.States(sf.ClassBank(eye[:2], [k, k / 2]), length * eye[2:3], [0], 1.0)
    executed = execute(state, 6, torch.float32)
    assert (executed.slopes == 0).all()
    assert actual_errors(state, executed)["gradient"] > 1e-27
    holds(state, 6)


@pytest.fixture
def two_classes() -> sf.States:
    """A state whose score errors are small beside an error of 1e-3 somewhere else."""
    g = torch.Generator().manual_seed(5)
    return sf.States(sf.ClassBank(unit_rows(g, 2, 64), [40.0, 60.0], [0.5, 0.0]), unit_rows(g, 1, 64), [0], 1.0)


def _gradient_with(states: sf.States, executed: Executed, weights: Tensor, slopes: Tensor) -> Tensor:
    """How far the gradient moves with other weights and slopes."""
    before = combine(states, executed.weights.double() * executed.slopes.double())
    return torch.linalg.vector_norm(combine(states, weights * slopes) - before, dim=1) / states.temperature


def _carried(states: sf.States, executed: Executed) -> float:
    after = errors_of(states, executed).after
    assert after is not None
    return after.gradient.item()


def test_errors_of_weights_reach_the_gradient(two_classes: sf.States, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponentials that are off by 1e-3, as their allowance then says."""
    executed = execute(two_classes, 6, torch.float32)
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
    executed = execute(two_classes, 6, torch.float32)
    small = _carried(two_classes, executed)
    size = 1e-3 / U32
    monkeypatch.setattr(outputs, "ratio_roundings", lambda _order, _nu, _dtype: (size, 0.0))
    nu = two_classes.bank.nu
    r = executed_geometry(two_classes, executed).radii
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64)
    slopes = executed.slopes.double() + sign * 1e-3 / (nu + torch.sqrt(r * r + nu * nu))
    moved = _gradient_with(two_classes, executed, executed.weights.double(), slopes).item()
    assert small < moved <= _carried(two_classes, executed)


def test_errors_along_the_feature_reach_the_gradient(two_classes: sf.States, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum over classes that multiplies f/tau, off by a thousandth of its terms."""
    executed = execute(two_classes, 6, torch.float32)
    small = _carried(two_classes, executed)
    plain = outputs.gamma
    monkeypatch.setattr(outputs, "gamma", lambda n, dtype, model="proved": 1e-3 if n == 12 else plain(n, dtype, model))
    terms = (executed.weights * executed.slopes).double().abs().sum()
    moved = (1e-3 * terms * torch.linalg.vector_norm(two_classes.features)).item()
    assert small < moved <= _carried(two_classes, executed)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_exponents_grow_by_what_a_dtype_rounds(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """e^x - 1 <= x e^x needs the largest e^x of an exponent's errors x: in float16 these are above a thousandth."""
    monkeypatch.setitem(FORMATS, dtype, dataclasses.replace(format_of(torch.float32), dtype=dtype))
    g = torch.Generator().manual_seed(0)
    k = 1 + 10 * torch.rand(100, generator=g, dtype=torch.float64)
    states = sf.States(sf.ClassBank(unit_rows(g, 100, 16), k), 20 * unit_rows(g, 4, 16), [0, 1, 2, 3], 1.0)
    executed = execute(states, 2, torch.float32)
    geometry = executed_geometry(states, executed)
    head = softmax_head(states, executed.scores.double(), torch.zeros_like(geometry.radii))
    placed = Placed(geometry=geometry, head=head, top=head.log_probabilities.argmax(dim=1))
    found = outputs._softmax_error(placed, dtype, "proved")
    u, e = unit_roundoff(dtype), ulps("exp", dtype)
    weights = u * found.shift + e + 3 * u
    probabilities = u * found.shift - u * head.log_probabilities + 2 * smallest_normal(dtype)
    assert (torch.maximum(weights, probabilities) <= found.grown.log()).all()
    assert (found.grown < 1.1).all()


def test_rows_that_left_the_model_have_no_bound(two_classes: sf.States) -> None:
    """A NaN in one output makes every bound of its row infinite, and no other row's."""
    both = two_classes[[0, 0]]
    executed = execute(both, 6, torch.float32)
    gradient = executed.gradient.clone()
    gradient[1, 0] = torch.nan
    made = errors_of(both, dataclasses.replace(executed, gradient=gradient))
    assert made.status is not None
    assert made.status.tolist() == ["inside", "gradient"]
    for contract in (GEOMETRY, CONDITIONED):
        found = made.bounds(contract)
        for bound in (found.loss, found.probability, found.gradient, found.margin_use):
            assert torch.isfinite(bound).tolist() == [True, False]
