"""The ladder against Arb: ratio within its allowance, stable differences, derivatives, domain, dtypes, compile."""

from __future__ import annotations

import math
import shutil

import pytest
import torch
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import suffice as sf
from suffice.numerics.compensated import squared_radius
from suffice.truth import bessel, surrogate
from tests.support.grids import nus

ORDERS = range(1, 7)
POINTS = [0.0, *torch.logspace(-8, 8, 49, dtype=torch.float64).tolist()]


def _excess_in_ulps(order: int, nu: float, points: list[float]) -> float:
    """The largest (|float64 ratio - R| - allowance)/ulp(value) over the points."""
    pair = sf.DebyePair(order=order)
    x = torch.tensor(points, dtype=torch.float64)
    values, allowed = pair.ratio(nu, x).tolist(), pair.allowance(nu, x).tolist()
    worst = -math.inf
    for point, value, allowance in zip(points, values, allowed, strict=True):
        if point == 0:
            assert value == 0
            continue
        with ctx.workprec(256):
            error = abs(arb(value) - bessel.ratio(nu, point))
            worst = max(worst, float((error - arb(allowance)).upper()) / math.ulp(value))
    return worst


@pytest.mark.parametrize("order", ORDERS)
def test_ratio_is_within_its_allowance_and_four_ulps(order: int) -> None:
    assert max(_excess_in_ulps(order, nu, POINTS) for nu in nus(order)) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_ratio_is_within_its_allowance_on_a_dense_grid(order: int) -> None:
    points = torch.logspace(-8, 8, 801, dtype=torch.float64).tolist()
    assert max(_excess_in_ulps(order, nu, points) for nu in nus(order)) <= 4


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("nu", [63.0, 255.0, 2047.0])
def test_closed_form_is_within_two_percent_of_the_true_supremum(order: int, nu: float) -> None:
    supremum = 0.0
    for x in torch.logspace(-4, 6, 60, dtype=torch.float64).tolist():
        with ctx.workprec(256):
            s = (arb(nu) ** 2 + arb(x) ** 2).sqrt()
            error = abs(bessel.ratio(nu, x, relative_width=1e-60) - surrogate.ratio(order, nu, x, bits=512))
            supremum = max(supremum, float(error * s ** (order + 2) / x))
    constant = float(sf.ClosedForm(order).allowance(nu, 1.0)) * math.hypot(nu, 1.0) ** (order + 2)
    assert supremum <= constant <= 1.02 * supremum


def _relative_errors(order: int, nu: float, k: torch.Tensor, gap: torch.Tensor) -> float:
    """The worst relative error of `difference`, with k and the squared gap taken as exact."""
    r = (k.double() ** 2 + gap.double()).clamp_min(0).sqrt().to(k.dtype)
    values = sf.DebyePair(order=order).difference(nu, r, k, gap)
    assert values.dtype == k.dtype
    worst = 0.0
    for value, low, square in zip(values.tolist(), k.tolist(), gap.tolist(), strict=True):
        with ctx.workprec(512):
            exact = surrogate.potential_difference(order, nu, 0.0, low, square)
            worst = max(worst, float(abs((arb(value) - exact) / exact).upper()))
    return worst


def _gaps(dtype: torch.dtype, generator: torch.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """k from 1e-3 to 1e5 (and 0), relative squared gaps from 1 down to 1e-12 of both signs, r = 0 among them."""
    k = 10 ** (8 * torch.rand(count, generator=generator, dtype=torch.float64) - 3)
    gap = 10 ** (-12 * torch.rand(count, generator=generator, dtype=torch.float64))
    gap *= torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    # the radius nearly or exactly vanishes
    gap[:8] = -1 + torch.tensor([0.0, 1e-3, 1e-6, 1e-9, 1e-12, 1e-14, 3e-16, 0.5], dtype=torch.float64)
    k = k.to(dtype)
    squared = k * k * gap.to(dtype)
    k[8:12], squared[8:12] = 0.0, squared[8:12].abs()
    return k, squared


@pytest.mark.parametrize("order", ORDERS)
def test_difference_is_accurate_at_every_gap(order: int, generator: torch.Generator) -> None:
    for nu in [*nus(order), 49_999.0]:
        assert _relative_errors(order, nu, *_gaps(torch.float64, generator, 120)) <= 1e-14, nu
        assert _relative_errors(order, nu, *_gaps(torch.float32, generator, 120)) <= 1e-6, nu


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_difference_is_accurate_at_many_gaps(order: int, generator: torch.Generator) -> None:
    for nu in [*nus(order), 49_999.0]:
        assert _relative_errors(order, nu, *_gaps(torch.float64, generator, 4000)) <= 1e-14, nu
        assert _relative_errors(order, nu, *_gaps(torch.float32, generator, 4000)) <= 1e-6, nu


@pytest.mark.parametrize("order", ORDERS)
def test_difference_without_a_gap_agrees_with_the_surrogate(order: int) -> None:
    pair = sf.DebyePair(order=order)
    for nu in (1.5, 63.0):
        for r, k in [(3.0, 2.0), (2.0, 3.0), (0.0, 5.0), (5.0, 0.0), (100.0, 100.00001), (1e8, 1.0)]:
            exact = surrogate.potential_difference(order, nu, r, k)
            value = pair.difference(nu, r, k).item()
            assert abs(float(arb(value) / exact - 1)) <= 1e-14
            assert math.isclose(value, (pair.potential(nu, r) - pair.potential(nu, k)).item(), rel_tol=1e-6)
        assert pair.difference(nu, 7.0, 7.0).item() == 0


@given(
    order=st.integers(1, 6),
    nu=st.floats(1.5, 2000),
    k=st.floats(0, 1e4),
    r=st.floats(0, 1e4),
)
@settings(max_examples=150, deadline=None)
def test_allowances_contain_the_actual_error(order: int, nu: float, k: float, r: float) -> None:
    pair = sf.DebyePair(order=order)
    # subnormal differences have no relative width to ask for
    if abs(r - k) < 1e-100 or max(r, k) < 1e-100:
        return
    with ctx.workprec(512):
        error = abs(bessel.ratio(nu, max(r, k), relative_width=1e-60) - surrogate.ratio(order, nu, max(r, k), bits=512))
        assert error.upper() <= arb(pair.allowance(nu, max(r, k)).item())
        truth = bessel.potential_difference(nu, r, k, relative_width=1e-60)
        score = abs(truth - surrogate.potential_difference(order, nu, r, k, bits=1024))
        assert score.upper() <= arb(pair.score_allowance(nu, k, r).item())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("nu", [1.5, 7.5, torch.tensor([1.5, 2.0, 63.0, 511.0, 3.0], dtype=torch.float64)])
def test_first_and_second_derivatives(order: int, nu: float | torch.Tensor, generator: torch.Generator) -> None:
    pair = sf.DebyePair(order=order)
    r = (30 * torch.rand(5, generator=generator, dtype=torch.float64)).requires_grad_()
    k = (30 * torch.rand(5, generator=generator, dtype=torch.float64)).requires_grad_()
    gap = ((r - k) * (r + k)).detach().requires_grad_()
    for function, inputs in (
        (lambda x: pair.ratio(nu, x), (r,)),
        (lambda x: pair.potential(nu, x), (r,)),
        (lambda a, b: pair.difference(nu, a, b), (r, k)),
        (lambda b, d: pair.difference(nu, (b * b + d).detach().sqrt(), b, d), (k, gap)),
    ):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_the_derivative_of_the_difference_is_the_pairs_own_ratio() -> None:
    r = torch.tensor([0.0, 3.0, 100.0], dtype=torch.float64, requires_grad=True)
    k = torch.tensor([2.0, 0.0, 99.0], dtype=torch.float64, requires_grad=True)
    pair = sf.DebyePair(order=4)
    grad_r, grad_k = torch.autograd.grad(pair.difference(63.0, r, k).sum(), (r, k))
    assert torch.equal(grad_r, pair.ratio(63.0, r.detach()))
    assert torch.equal(grad_k, -pair.ratio(63.0, k.detach()))
    # through the squared gap, r = 0 included: A(r)/(2r) has a limit there
    gap = ((r - k) * (r + k)).detach().requires_grad_()
    (grad_gap,) = torch.autograd.grad(pair.difference(63.0, r.detach(), k.detach(), gap).sum(), gap)
    assert torch.isfinite(grad_gap).all()
    torch.testing.assert_close(grad_gap[1:] * 2 * r.detach()[1:], grad_r[1:], rtol=1e-14, atol=0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_in_k_at_a_fixed_squared_gap_keeps_its_digits(order: int, dtype: torch.dtype) -> None:
    # k (A(r)/r - A(k)/k) is a small difference: its relative error must not grow as the gap shrinks
    pair = sf.DebyePair(order=order)
    for nu in (2.5, 63.0, 255.0):
        for relative in (1.0, 1e-2, 1e-4, 1e-8, 1e-12):
            k = torch.tensor([1.0, 10.0, 100.0, 1e4], dtype=dtype, requires_grad=True)
            gap = (k.detach() ** 2 * relative).requires_grad_()
            r = torch.sqrt(k.detach() ** 2 + gap.detach())
            (grad,) = torch.autograd.grad(pair.difference(nu, r, k, gap).sum(), k)
            for point, square, value in zip(k.tolist(), gap.tolist(), grad.tolist(), strict=True):
                with ctx.workprec(600):
                    y, x = arb(point), (arb(point) ** 2 + arb(square)).sqrt()
                    exact = y * (surrogate_at(order, nu, x) / x - surrogate_at(order, nu, y) / y)
                    error = abs(float(arb(value) / exact - 1))
                # the bracket of the formula itself crosses zero nowhere, but cancels by a factor of some tens
                assert error < (2e-5 if dtype == torch.float32 else 1e-13), (nu, relative, point)


@pytest.mark.parametrize("order", ORDERS)
def test_ratio_derivative_keeps_its_digits_at_large_x(order: int) -> None:
    x = torch.logspace(-3, 8, 23, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(sf.DebyePair(order=order).ratio(63.0, x).sum(), x)
    for point, value in zip(x.tolist(), grad.tolist(), strict=True):
        with ctx.workprec(512):
            h = arb(2) ** -160
            slope = (surrogate_at(order, 63.0, arb(point) + h) - surrogate_at(order, 63.0, arb(point) - h)) / (2 * h)
            assert abs(float(arb(value) / slope.mid() - 1)) < 1e-13


def surrogate_at(order: int, nu: float, x: arb) -> arb:
    return surrogate.ratio(order, nu, x, bits=512)  # type: ignore[arg-type]


def test_broadcasting_and_tensor_nu() -> None:
    pair = sf.DebyePair(order=3)
    nu = torch.tensor([[1.5], [63.0]], dtype=torch.float64)
    x = torch.tensor([0.0, 1.0, 5.0], dtype=torch.float64)
    table = pair.ratio(nu, x)
    assert table.shape == (2, 3)
    assert pair.allowance(nu, x).shape == (2, 3)
    for row, order in zip(table, (1.5, 63.0), strict=True):
        torch.testing.assert_close(row, pair.ratio(order, x), rtol=1e-15, atol=0)
    k = torch.tensor([[2.0], [4.0]], dtype=torch.float64)
    assert pair.difference(63.0, x, k).shape == (2, 3)
    assert pair.score_allowance(nu, k, x).shape == (2, 3)
    assert pair.ratio(63.0, torch.zeros(0)).shape == (0,)


def test_dtype_is_kept_and_float32_does_not_overflow() -> None:
    x = torch.tensor([1e-30, 1.0, 1e20, 3e38], dtype=torch.float32)
    for order in ORDERS:
        value = sf.DebyePair(order=order).ratio(63.0, x)
        assert value.dtype == torch.float32
        assert value[-2:].tolist() == [1.0, 1.0]
        # where the allowance underflows it is raised, not dropped: only x = 0 has none
        assert (sf.DebyePair(order=order).allowance(63.0, x) > 0).all()
    assert sf.DebyePair().difference(63.0, torch.tensor(1e20), torch.tensor(0.0)).item() == pytest.approx(1e20)


def test_the_far_ends_of_the_range() -> None:
    pair = sf.DebyePair()
    assert pair.difference(63.0, 1.7e308, 1e308).item() == pytest.approx(7e307, rel=1e-12)
    assert math.isfinite(pair.score_allowance(63.0, 1e308, 1.7e308).item())
    # distinct endpoints keep an allowance where their distance underflows
    tiny = pair.score_allowance(63.0, torch.tensor(1e10), torch.tensor(1e10), torch.tensor(1e-38))
    assert tiny.item() > 0
    with pytest.raises(ValueError, match=r"Expected nu <= .*, where its square is finite"):
        pair.difference(1e155, 1e150, 1e150, 1e290)


def test_swapped_endpoints_are_refused() -> None:
    pair = sf.DebyePair()
    assert pair.score_allowance(63.0, 1.0, 100.0, 9999.0).item() > 0
    with pytest.raises(ValueError, match=r"Expected r = sqrt\(k\*\*2 \+ squared_gap\), but got r = 1\.0.*swapped"):
        pair.score_allowance(63.0, 100.0, 1.0, 9999.0)


def test_domain_errors_name_the_valid_orders() -> None:
    with pytest.raises(ValueError, match=r"nu >= 3/2 for order 4.*got 1\.2; orders valid there: 1, 2, 3"):
        sf.DebyePair(order=4).ratio(1.2, 1.0)
    with pytest.raises(ValueError, match=r"got 1\.0; no order is valid there; suffice\.special"):
        sf.DebyePair().ratio(1.0, 1.0)
    with pytest.raises(ValueError, match="nu >= 10/9"):
        sf.DebyePair().score_allowance(torch.tensor([63.0, 1.0], dtype=torch.float64), 1.0, 2.0)
    assert sf.DebyePair(order=3).ratio(10 / 9, 1.0).item() > 0
    assert sf.DebyePair(order=6).ratio(49_999.0, 1.0).item() > 0


@pytest.mark.parametrize("order", [0, 7, True, 2.0])
def test_order_out_of_range(order: object) -> None:
    for kind in (sf.DebyePair, sf.ClosedForm, sf.BestAllowance):
        with pytest.raises(ValueError, match=r"Expected order in 1\.\.6"):
            kind(order=order)  # type: ignore[arg-type]


def test_bad_values_are_named_with_their_place() -> None:
    pair = sf.DebyePair()
    good = torch.ones(2, 3, dtype=torch.float64)
    for value in (math.nan, math.inf, -1.0):
        bad = good.clone()
        bad[1, 2] = value
        with pytest.raises(ValueError, match=rf"Expected x to be finite and >= 0, but got {value} at index \(1, 2\)"):
            pair.ratio(63.0, bad)
        with pytest.raises(ValueError, match=r"Expected r .* at index \(1, 2\)"):
            pair.difference(63.0, bad, good)
        with pytest.raises(ValueError, match=r"Expected k .* at index \(1, 2\)"):
            pair.score_allowance(63.0, bad, good)
        with pytest.raises(ValueError, match=r"Expected x .* at index \(1, 2\)"):
            pair.allowance(63.0, bad)
        with pytest.raises(ValueError, match=rf"Expected nu to be finite and >= 0, but got {value}"):
            pair.ratio(value, 1.0)
    with pytest.raises(ValueError, match=r"Expected x to be finite and >= 0, but got -2\.0$"):
        pair.ratio(63.0, -2.0)
    with pytest.raises(ValueError, match=r"squared_gap >= -k\*\*2, but got -4\.0 at index \(0,\), where k = 1\.0"):
        pair.difference(63.0, torch.zeros(1), torch.ones(1), torch.tensor([-4.0]))
    with pytest.raises(ValueError, match=r"Expected squared_gap to be finite, but got nan at index \(0,\)"):
        pair.difference(63.0, torch.zeros(1), torch.ones(1), torch.tensor([math.nan]))
    with pytest.raises(ValueError, match="where its square is finite"):
        pair.difference(63.0, torch.ones(1), torch.tensor([1e30]), torch.ones(1))


def test_bad_kinds_are_named() -> None:
    pair = sf.DebyePair()
    with pytest.raises(TypeError, match=r"Expected x in float32 or float64, but got torch.int64"):
        pair.ratio(63.0, torch.ones(3, dtype=torch.int64))
    with pytest.raises(TypeError, match="float16"):
        pair.ratio(63.0, torch.ones(3, dtype=torch.float16))
    with pytest.raises(TypeError, match="Expected x to be a tensor, a NumPy array or a number, but got str"):
        pair.ratio(63.0, "1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Expected r and k in one dtype"):
        pair.difference(63.0, torch.ones(3), torch.ones(3, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"Expected r and k to broadcast, but got shapes \(3,\) and \(4,\)"):
        pair.difference(63.0, torch.ones(3), torch.ones(4))
    with pytest.raises(ValueError, match=r"Expected nu and x to broadcast"):
        pair.ratio(torch.full((4,), 63.0), torch.ones(3))
    with pytest.raises(ValueError, match="no derivative in nu is provided"):
        pair.ratio(torch.tensor(63.0, requires_grad=True), torch.ones(3))
    with pytest.raises(ValueError, match="Expected squared_gap to carry the gradient of r"):
        pair.difference(63.0, torch.ones(1, requires_grad=True), torch.ones(1), torch.zeros(1))
    with pytest.raises(ValueError, match="Expected an envelope proved for order 3"):
        sf.DebyePair(order=3, envelope=sf.Uniform())
    with pytest.raises(TypeError, match="Expected envelope to be one of the ladder's"):
        sf.DebyePair(order=3, envelope=sf.DebyePair())


def test_numpy_arrays_are_taken() -> None:
    x = torch.linspace(0, 5, 4, dtype=torch.float64)
    assert torch.equal(sf.DebyePair().ratio(63.0, x.numpy()), sf.DebyePair().ratio(63.0, x))


def test_a_pair_satisfies_the_protocol() -> None:
    assert isinstance(sf.DebyePair(), sf.Pair)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("order", [2, 6])
def test_compiled_equals_eager(order: int, generator: torch.Generator) -> None:
    pair = sf.DebyePair(order=order)
    k, gap = _gaps(torch.float64, generator, 64)
    r = squared_radius(k, gap).sqrt()

    def both(r: torch.Tensor, k: torch.Tensor, gap: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return pair.difference(63.0, r, k, gap), pair.ratio(63.0, r), pair.allowance(63.0, r)

    compiled = torch.compile(both, fullgraph=True)
    for fast, plain in zip(compiled(r, k, gap), both(r, k, gap), strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-14, atol=0)
    # float32 below nu = 2 is worked in float64 also where a tensor nu hides its value from the compiler
    nu, a, b = torch.tensor([1.5128518]), torch.tensor([0.0123257]), torch.tensor([0.0947523])
    narrow = torch.compile(lambda x, y, z: pair.difference(x, y, z))(nu, a, b)
    torch.testing.assert_close(narrow, pair.difference(nu, a, b), rtol=2e-7, atol=0)
    gap.requires_grad_()
    (fast,) = torch.autograd.grad(compiled(r, k, gap)[0].sum(), gap)
    (plain,) = torch.autograd.grad(both(r, k, gap)[0].sum(), gap)
    torch.testing.assert_close(fast, plain, rtol=1e-13, atol=0)
