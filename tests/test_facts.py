"""What other code returns today, as docs/primitives.md states it: a regression test for each fact."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
import torch
from scipy import special as scipy_special
from scipy import stats

import suffice as sf
from suffice.experiments.published import miller, miller_difference_and_ratio, scipy_difference_and_ratio


def test_scipy_version_is_the_one_spoken_of() -> None:
    assert scipy.__version__ == "1.17.1"


def test_scipy_ive_underflows_where_we_do_not() -> None:
    assert scipy_special.ive(511, 10.0) == 0.0
    assert math.isfinite(sf.special.log_bessel_i(511, 10.0).item())


@pytest.mark.parametrize("kappa", [1.0, 10.0, 50.0])
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_scipy_vmf_density_is_infinite_at_dimension_1024(kappa: float) -> None:
    mean = np.eye(1024)[0]
    assert stats.vonmises_fisher(mean, kappa).logpdf(mean) == math.inf
    assert math.isfinite(sf.special.vmf_log_normalizer(1024, kappa).item() + kappa)


@pytest.mark.parametrize("dim", [66, 67, 128])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_scipy_vmf_fit_collapses_from_dimension_67(dim: int) -> None:
    samples = stats.vonmises_fisher(np.eye(dim)[0], 50.0).rvs(200, random_state=np.random.default_rng(0))
    _, kappa = stats.vonmises_fisher.fit(samples)
    length = float(np.linalg.norm(samples.mean(axis=0)))
    ours = sf.special.fit_concentration(dim, length).item()
    assert ours == pytest.approx(50, rel=0.1)
    if dim < 67:
        assert kappa == pytest.approx(ours, rel=1e-5)
    else:
        assert kappa == pytest.approx(1e-8)


@pytest.mark.parametrize(("kappa", "error"), [(1247.0, 1.2e-4), (2101.0, 6e-3)])
def test_miller_from_twice_nu_loses_digits(kappa: float, error: float) -> None:
    _, _, ratio = miller(63, torch.tensor([kappa], dtype=torch.float64))
    truth = sf.special.bessel_i_ratio(63, kappa).item()
    assert abs(ratio.item() - truth) == pytest.approx(error, rel=0.05)


def test_miller_from_twice_nu_leaves_the_unit_interval() -> None:
    x = torch.tensor([6368.0, 1e5], dtype=torch.float64)
    _, _, ratio = miller(63, x)
    assert ratio[0].item() == pytest.approx(1.339, abs=2e-3)
    assert ratio[1].item() == pytest.approx(16, abs=0.5)
    assert sf.special.bessel_i_ratio(63, x).tolist() == pytest.approx([0.990, 0.99937], abs=1e-4)


def test_miller_truncates_odd_dimensions() -> None:
    # p = 129: the recurrence runs on int(63.5) = 63
    x = torch.tensor([200.0], dtype=torch.float64)
    _, _, truncated = miller(int(129 / 2 - 1), x)
    assert abs(truncated.item() - sf.special.bessel_i_ratio(63.5, 200.0).item()) > 1e-3
    assert truncated.item() == pytest.approx(sf.special.bessel_i_ratio(63, 200.0).item(), rel=1e-6)


def test_separate_float32_values_against_the_stable_difference() -> None:
    generator = torch.Generator().manual_seed(3407)
    worst_separate, worst_stable, best_separate = 0.0, 0.0, math.inf
    for dim in (128, 512, 1024):
        nu = dim / 2 - 1
        for kappa in (10.0, 100.0, 1000.0, 1e4):
            k = torch.full((500,), kappa)
            # unit features at temperature 0.1
            gap = 20 * kappa * (2 * torch.rand(500, generator=generator) - 1) + 100
            gap = torch.maximum(gap, -k * k)
            r = torch.sqrt(k.double() ** 2 + gap.double())
            exact = sf.DebyePair(order=6).difference(nu, r, k.double(), gap.double())
            log_r, log_k = (sf.special.log_bessel_i(nu, y).float() for y in (r, k.double()))
            separate = (log_r - nu * r.float().log()) - (log_k - nu * k.log())
            error = (separate.double() - exact).abs().max().item()
            worst_separate, best_separate = max(worst_separate, error), min(best_separate, error)
            stable = sf.DebyePair(order=2).difference(nu, r.float(), k, gap)
            allowed = sf.DebyePair(order=2).score_allowance(nu, k.double(), r, gap.double())
            relative = ((stable.double() - exact).abs() - allowed) / exact.abs()
            worst_stable = max(worst_stable, relative.max().item())
    assert best_separate > 3e-6
    assert 5e-4 < worst_separate < 3e-3
    assert worst_stable < 4e-7


def test_the_contenders_compute_what_we_compute() -> None:
    # where they work, they agree: the benchmark compares like with like
    r = torch.linspace(300, 600, 7, dtype=torch.float64)
    k = torch.full_like(r, 400.0)
    difference, ratio = sf.DebyePair(order=6).difference(127.0, r, k), sf.DebyePair(order=6).ratio(127.0, r)
    for theirs in (miller_difference_and_ratio(127, r, k), scipy_difference_and_ratio(127.0, r.numpy(), k.numpy())):
        torch.testing.assert_close(torch.as_tensor(theirs[0]), difference, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(torch.as_tensor(theirs[1]), ratio, rtol=1e-6, atol=0)
