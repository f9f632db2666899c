"""The special functions against Arb over every nu >= 0, their derivatives, the fit, and bad input."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
import torch
from flint import arb, ctx

from suffice import special
from suffice.truth import bessel

NUS = [0.0, 0.5, 1.0, 2.0, 5.0, 31.5, 63.0, 63.9, 64.0, 511.0, 1e4]
X = torch.logspace(-6, 8, 113, dtype=torch.float64)


def _log_bessel(nu: float, x: float) -> arb:
    with ctx.workprec(256):
        return arb(x).bessel_i(arb(nu), scaled=True).log() + x


@pytest.mark.parametrize("nu", NUS)
def test_ratio_and_logarithm_are_accurate(nu: float) -> None:
    ratios, logs = special.bessel_i_ratio(nu, X).tolist(), special.log_bessel_i(nu, X).tolist()
    for x, ratio, log in zip(X.tolist(), ratios, logs, strict=True):
        with ctx.workprec(256):
            assert abs(float(arb(ratio) / bessel.ratio(nu, x) - 1)) <= 1e-13
            truth = _log_bessel(nu, x)
            assert abs(float(arb(log) - truth)) <= 1e-13 * max(1.0, abs(float(truth)))


@pytest.mark.parametrize("nu", [5.0, 63.9, 511.0, 1e4, 1e5])
def test_logarithm_near_its_zero(nu: float) -> None:
    # s and nu log(...) are of size nu and cancel there
    low, high = 0.3 * nu, 1.2 * nu
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_bessel(nu, middle) < 0 else (low, middle)
    x = torch.linspace(0.99 * low, 1.01 * low, 41, dtype=torch.float64)
    for point, value in zip(x.tolist(), special.log_bessel_i(nu, x).tolist(), strict=True):
        truth = _log_bessel(nu, point)
        assert abs(float(arb(value) - truth)) <= 1e-13 * max(1.0, abs(float(truth)))


def test_limits() -> None:
    x = torch.tensor([0.0, 1e-320, 1e300], dtype=torch.float64)
    assert special.log_bessel_i(0, x).tolist() == [0.0, 0.0, 1e300]
    assert special.log_bessel_i(511, x)[0].item() == -math.inf
    assert special.log_bessel_i(3, x)[0].item() == -math.inf
    assert special.bessel_i_ratio(0, x).tolist()[::2] == [0.0, 1.0]
    assert special.bessel_i_ratio(511, x).tolist()[::2] == [0.0, 1.0]


def test_the_ends_of_the_range() -> None:
    for nu, x in ((100.0, 3e307), (1.0, 5e-324), (1.0, 1.5e-323), (100.0, 5e-324), (100.0, 1e-320), (100.0, 1e-285)):
        truth = float(_log_bessel(nu, x))
        assert special.log_bessel_i(nu, x).item() == pytest.approx(truth, rel=1e-13), (nu, x)


def test_index_convention() -> None:
    # bessel_i_ratio(nu) is I_{nu+1}/I_nu, not I_nu/I_{nu-1}: at nu = 1/2 it is coth(x) - 1/x
    assert special.bessel_i_ratio(0.5, 2.0).item() == pytest.approx(1 / math.tanh(2) - 0.5, rel=1e-15)


@pytest.mark.parametrize("dim", [2, 3, 5, 128, 1023, 4096])
def test_vmf_normalizer(dim: int) -> None:
    nu = dim / 2 - 1
    kappas = [0.0, 1e-3, 1.0, 50.0, 1000.0, 1e5]
    values = special.vmf_log_normalizer(dim, torch.tensor(kappas, dtype=torch.float64)).tolist()
    for kappa, value in zip(kappas, values, strict=True):
        with ctx.workprec(256):
            truth = -bessel.potential(nu, kappa) - arb(dim) / 2 * (2 * arb.pi()).log()
            assert abs(float(arb(value) - truth)) <= 1e-13 * max(1.0, abs(float(truth)))
    # near its zero, where terms of size nu log nu cancel
    for kappa in (2.745 * nu, 5.504 * nu, 7.92 * nu, 9.69 * nu):
        with ctx.workprec(256):
            truth = -bessel.potential(nu, kappa) - arb(dim) / 2 * (2 * arb.pi()).log()
        value = special.vmf_log_normalizer(dim, kappa).item()
        assert abs(value - float(truth)) <= 1e-13 * max(1.0, abs(float(truth)))
    # uniform density at kappa = 0: one over the sphere's area
    area = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    assert values[0] == pytest.approx(-area, rel=1e-14)


@pytest.mark.parametrize("dim", [2, 3, 16, 22, 129, 130, 512, 10_000])
def test_scaled_normalizer_complement_and_derivative_keep_their_digits(dim: int) -> None:
    nu = dim / 2 - 1
    # about the branches at 256, and about the zero of the scaled normaliser
    kappas = [0.0, 1e-9, 0.5, 7.0, 255.9, 256.0, 1e3, 1e4, 1e6, 1e9, *(c * nu for c in (0.5, 1.0, 3.0, 5.5))]
    k = torch.tensor(kappas, dtype=torch.float64)
    scaled = special.vmf_log_normalizer(dim, k, scaled=True).tolist()
    short, steep = special.bessel_i_ratio_complement(nu, k).tolist(), special.bessel_i_ratio_derivative(nu, k).tolist()
    for j, kappa in enumerate(kappas):
        with ctx.workprec(512):
            r = bessel.ratio(nu, kappa, relative_width=1e-80)
            truth = arb(kappa) - bessel.potential(nu, kappa, relative_width=1e-40) - arb(dim) / 2 * (2 * arb.pi()).log()
            assert abs(float(arb(scaled[j]) - truth)) <= 2e-13 * max(1.0, abs(float(truth))), kappa
            assert abs(float(arb(short[j]) / (1 - r) - 1)) <= 2e-13, kappa
            slope = 1 - r * r - (2 * arb(nu) + 1) * r / kappa if kappa else 1 / arb(dim)
            assert abs(float(arb(steep[j]) / slope - 1)) <= 2e-13, kappa


@pytest.mark.parametrize("nu", [0.0, 3.0, 70.0])
def test_derivatives_of_the_scaled_forms(nu: float) -> None:
    x = torch.tensor([0.1, 4.0, 30.0, 300.0], dtype=torch.float64, requires_grad=True)
    for function in (
        lambda y: special.vmf_log_normalizer(2 * nu + 2, y, scaled=True),
        lambda y: special.bessel_i_ratio_complement(nu, y),
        lambda y: special.bessel_i_ratio_derivative(nu, y),
    ):
        assert torch.autograd.gradcheck(function, (x,), rtol=1e-4)
    tensor = torch.tensor([nu, nu + 0.5], dtype=torch.float64)
    at = torch.tensor([300.0, 2.0], dtype=torch.float64)
    together = special.vmf_log_normalizer(2 * tensor + 2, at, scaled=True)
    apart = [
        special.vmf_log_normalizer(2 * n + 2, y, scaled=True).item()
        for n, y in zip(tensor.tolist(), at.tolist(), strict=True)
    ]
    assert together.tolist() == pytest.approx(apart, rel=1e-13)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 10, 67, 128, 1000, 4096])
def test_fit_inverts_the_ratio(dim: int) -> None:
    nu = dim / 2 - 1
    kappas = [1e-6, 1e-3, 0.5, 1.0, 7.0, 100.0, 1247.0, 1e4]
    lengths = torch.tensor([float(bessel.ratio(nu, kappa)) for kappa in kappas], dtype=torch.float64)
    fitted = special.fit_concentration(dim, lengths)
    assert (special.bessel_i_ratio(nu, fitted) - lengths).abs().max().item() <= 4e-15
    torch.testing.assert_close(fitted, torch.tensor(kappas, dtype=torch.float64), rtol=1e-10, atol=0)
    assert special.fit_concentration(dim, 0.0).item() == 0


@pytest.mark.parametrize("dim", [2, 3, 4, 16, 67, 512, 4096])
def test_fit_near_the_ends(dim: int) -> None:
    # the float is taken as exact, so that 1 - R determines kappa ~ (p-1)/(2(1-R)) to all digits
    nu = dim / 2 - 1
    for length in (1e-300, 1e-12, 0.6, 0.999, 1 - 1e-6, 1 - 1e-12, 1 - 1e-15):
        kappa = special.fit_concentration(dim, length).item()
        with ctx.workprec(300):
            excess = bessel.ratio(nu, kappa, relative_width=1e-60) - arb(length)
            slope = 1 - arb(length) ** 2 - (2 * arb(nu) + 1) / kappa * arb(length)
            # one Newton step is the error, and at small kappa R is kappa/(2 nu + 2)
            error = excess / length if length < 1e-6 else excess / slope / kappa
            assert abs(float(error)) < 1e-11
    with pytest.raises(ValueError, match=r"Expected mean_resultant_length < 1 .*, but got 1\.0 at index \(1,\)"):
        special.fit_concentration(512, torch.tensor([0.5, 1.0]))


@pytest.mark.parametrize("nu", [0.0, 0.5, 3.0, 70.0, torch.tensor([0.0, 2.5, 63.0, 64.0, 500.0], dtype=torch.float64)])
def test_derivatives(nu: float | torch.Tensor) -> None:
    x = torch.tensor([0.1, 1.0, 4.0, 30.0, 200.0], dtype=torch.float64, requires_grad=True)
    dim = 2 * nu + 2
    for function in (
        lambda y: special.log_bessel_i(nu, y),
        lambda y: special.bessel_i_ratio(nu, y),
        lambda y: special.vmf_log_normalizer(dim, y),
        lambda y: special.fit_concentration(dim, y / 400),
    ):
        assert torch.autograd.gradcheck(function, (x,), rtol=1e-4)
        assert torch.autograd.gradgradcheck(function, (x,), rtol=1e-4)


def test_derivative_of_the_ratio_keeps_its_digits() -> None:
    for nu in (0.0, 2.0, 100.0):
        x = torch.logspace(-3, 8, 23, dtype=torch.float64, requires_grad=True)
        (grad,) = torch.autograd.grad(special.bessel_i_ratio(nu, x).sum(), x)
        for point, value in zip(x.tolist(), grad.tolist(), strict=True):
            with ctx.workprec(1024):
                r = bessel.ratio(nu, point, relative_width=1e-200)
                # eq:riccati-app in x
                assert abs(float(arb(value) / (1 - r * r - (2 * arb(nu) + 1) / point * r) - 1)) < 1e-13


def test_derivative_at_zero() -> None:
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(special.log_bessel_i(0.0, x), x)
    assert grad.item() == 0
    (grad,) = torch.autograd.grad(special.bessel_i_ratio(3.0, x), x)
    assert grad.item() == pytest.approx(1 / 8)
    # second derivatives too, for a number and for a tensor nu
    for nu in (0.0, torch.tensor(0.0, dtype=torch.float64)):
        (first,) = torch.autograd.grad(special.log_bessel_i(nu, x), x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
        assert second.item() == pytest.approx(0.5)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_equals_eager() -> None:
    x = torch.tensor([0.0, 1e-3, 5.0, 300.0, 1e5], dtype=torch.float64)
    for nu in (2.0, 100.0):
        compiled = torch.compile(lambda y, nu=nu: special.log_bessel_i(nu, y))
        torch.testing.assert_close(compiled(x), special.log_bessel_i(nu, x), rtol=1e-13, atol=1e-14)


def test_nu_has_no_derivative_and_says_so() -> None:
    nu = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    for function in (special.log_bessel_i, special.bessel_i_ratio):
        with pytest.raises(ValueError, match="no derivative in nu is provided"):
            function(nu, torch.tensor(1.0, dtype=torch.float64))


def test_float32_in_float32_out() -> None:
    value = special.log_bessel_i(511, torch.tensor([10.0, 400.0]))
    assert value.dtype == torch.float32
    wide = special.log_bessel_i(511, torch.tensor([10.0, 400.0], dtype=torch.float64))
    assert torch.equal(value, wide.float())


def test_tensor_nu_mixes_both_sides_of_the_lift() -> None:
    nu = torch.tensor([0.0, 3.0, 63.9, 64.0, 500.0], dtype=torch.float64)
    for function in (special.log_bessel_i, special.bessel_i_ratio):
        together = function(nu, torch.full_like(nu, 7.0))
        one_by_one = torch.stack([function(n, 7.0) for n in nu.tolist()])
        torch.testing.assert_close(together, one_by_one, rtol=1e-14, atol=0)


def test_bad_input() -> None:
    for value in (math.nan, math.inf, -1.0):
        with pytest.raises(ValueError, match=rf"Expected x to be finite and >= 0, but got {value} at index \(1,\)"):
            special.log_bessel_i(1.0, torch.tensor([1.0, value]))
        with pytest.raises(ValueError, match=f"Expected kappa to be finite and >= 0, but got {value}"):
            special.vmf_log_normalizer(3, value)
        with pytest.raises(ValueError, match="Expected nu to be finite and >= 0"):
            special.bessel_i_ratio(value, 1.0)
    with pytest.raises(TypeError, match=r"Expected x in float32 or float64, but got torch\.int64"):
        special.bessel_i_ratio(1.0, torch.tensor([1]))
    with pytest.raises(ValueError, match="Expected dim >= 2, but got 1"):
        special.vmf_log_normalizer(1, 1.0)
    with pytest.raises(ValueError, match="Expected dim >= 2, but got 1"):
        special.vmf_log_normalizer(torch.tensor(1.0), torch.tensor(1.0))
    with pytest.raises(TypeError, match="Expected dim to be a number or a tensor, but got str"):
        special.vmf_log_normalizer("3", 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Expected dim in float32 or float64"):
        special.vmf_log_normalizer(torch.tensor(512), torch.tensor(1.0))
    with pytest.raises(TypeError, match="Expected nu and x in one dtype"):
        special.log_bessel_i(torch.tensor(2.0), torch.tensor(1.0, dtype=torch.float64))
    with pytest.raises(ValueError, match="Expected nu within the range of float64"):
        special.log_bessel_i(10**400, 1.0)
    with pytest.raises(TypeError, match="Expected x as a plain float32 or float64 array"):
        special.log_bessel_i(1.0, np.ones(4)[::-1])
    with pytest.raises(ValueError, match="Expected nu and x to broadcast"):
        special.log_bessel_i(torch.ones(2), torch.ones(3))
