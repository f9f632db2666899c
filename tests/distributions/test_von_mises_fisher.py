"""The distribution against Arb and SciPy, its gradients, its samples' moments, its shapes and its refusals."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy.stats import vonmises_fisher
from torch.distributions import Independent, kl_divergence

import suffice as sf
from benchmarks.distributions import COPIES, copied_errors, own_errors, table_of
from suffice.distributions import VonMisesFisher
from tests.reference import von_mises_fisher as exact

DIMS = [2, 3, 4, 16, 129, 130, 512, 10_000]
KAPPAS = [0.0, 1e-6, 0.3, 1.0, 20.0, 255.9, 256.0, 1e3, 1e4, 1e6]


def _unit(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, dtype=torch.float64), dim=-1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", DIMS)
def test_density_entropy_and_moments_against_arb(dim: int, dtype: torch.dtype) -> None:
    torch.manual_seed(dim)
    loc, k = _unit(dim, dtype=dtype), torch.tensor(KAPPAS, dtype=dtype)
    p = VonMisesFisher(loc, k)
    # samples, the mode, its antipode and something far from either
    others = torch.stack([loc, -loc, _unit(dim, dtype=dtype)])[:, None].expand(3, len(k), dim)
    values = torch.cat([p.sample((2,)), others])
    found, entropies = p.log_prob(values), p.entropy().tolist()
    mean, variance = (p.mean / p.mode)[:, 0].tolist(), p.variance.sum(dim=-1).tolist()
    # float32 is rounded once, from float64
    limit, of_moments = (5.97e-8, 4e-7) if dtype == torch.float32 else (2e-13, 4e-13)
    for j, kappa in enumerate(k.tolist()):
        truth = float(exact.entropy(dim, kappa))
        assert abs(entropies[j] - truth) <= limit * max(1.0, abs(truth))
        r, slope = float(exact.ratio(dim, kappa)), float(exact.ratio_derivative(dim, kappa))
        assert mean[j] == pytest.approx(r, rel=of_moments)
        across = r / kappa if kappa else 1 / dim
        # the trace of the covariance
        assert variance[j] == pytest.approx((dim - 1) * across + slope, rel=of_moments)
        for value, answer in zip(values[:, j].tolist(), found[:, j].tolist(), strict=True):
            truth = float(exact.log_prob(loc.tolist(), kappa, value))
            assert abs(answer - truth) <= limit * max(1.0, abs(truth)), (kappa, truth)


@pytest.mark.parametrize("dim", [2, 3, 10, 40])
def test_scipy_agrees_where_it_is_right(dim: int) -> None:
    torch.manual_seed(0)
    loc, x = _unit(dim), _unit(5, dim)
    for kappa in (0.5, 10.0, 100.0):
        theirs, ours = vonmises_fisher(loc.numpy(), kappa), VonMisesFisher(loc, kappa)
        assert ours.log_prob(x).tolist() == pytest.approx(theirs.logpdf(x.numpy()).tolist(), rel=1e-10)
        assert ours.entropy().item() == pytest.approx(float(theirs.entropy()), rel=1e-10)


@pytest.mark.parametrize("dim", [2, 3, 30, 300])
def test_gradients(dim: int) -> None:
    torch.manual_seed(1)
    loc, x = _unit(3, dim).requires_grad_(), _unit(2, 3, dim).requires_grad_()
    k = torch.tensor([0.4, 12.0, 300.0], dtype=torch.float64, requires_grad=True)

    def made(at: torch.Tensor, kappa: torch.Tensor) -> VonMisesFisher:
        return VonMisesFisher(at, kappa, validate_args=False)

    functions: list[Callable[..., torch.Tensor]] = [
        lambda at, kappa: made(at, kappa).mean,
        lambda at, kappa: made(at, kappa).variance,
        lambda _, kappa: made(loc.detach(), kappa).entropy(),
    ]
    for function in functions:
        assert torch.autograd.gradcheck(function, (loc, k), rtol=1e-4, fast_mode=dim > 3)
    assert torch.autograd.gradcheck(
        lambda at, kappa, y: made(at, kappa).log_prob(y), (loc, k, x), rtol=1e-4, fast_mode=dim > 3
    )
    assert torch.autograd.gradgradcheck(lambda kappa: made(loc.detach(), kappa).log_prob(x.detach()), (k,), rtol=1e-4)
    assert torch.autograd.gradgradcheck(lambda kappa: made(loc.detach(), kappa).entropy(), (k,), rtol=1e-4)


@pytest.mark.parametrize("dim", [2, 3, 512, 10_000])
def test_gradients_keep_their_digits(dim: int) -> None:
    torch.manual_seed(2)
    for kappa in (0.0, 1e-6, 5.0, 1e3, 1e6):
        loc = _unit(dim).requires_grad_()
        k = torch.tensor(kappa, dtype=torch.float64, requires_grad=True)
        p = VonMisesFisher(loc, k)
        x = p.sample()
        (in_entropy,) = torch.autograd.grad(p.entropy(), k)
        truth = -kappa * float(exact.ratio_derivative(dim, kappa))
        assert in_entropy.item() == pytest.approx(truth, rel=2e-13, abs=0)
        in_loc, in_k = torch.autograd.grad(p.log_prob(x), (loc, k))
        with exact.ctx.workprec(400):
            cosine, r = exact.cosine(loc.tolist(), x.tolist()), exact.ratio(dim, kappa)
            truth, size = float(cosine - r), float(1 - r)
        # each of 1 - R and 1 - cos to its last digits
        assert abs(in_k.item() - truth) <= 1e-12 * size
        # the gradient on the sphere: k (x - (x.loc) loc)
        tangent = kappa * (x - (x @ loc) * loc).detach()
        torch.testing.assert_close(in_loc, tangent, rtol=1e-9, atol=1e-9 * kappa * math.sqrt(2 * size))
        assert abs((in_loc @ loc).item()) <= 1e-9 * max(kappa, 1)


@pytest.mark.parametrize(
    ("dim", "kappa"), [(2, 0.0), (2, 2.0), (3, 7.0), (3, 1e6), (20, 0.0), (20, 15.0), (512, 300.0), (10_000, 1e6)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_of_samples(dim: int, kappa: float, dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    count = 400 if dim == 10_000 else 10_000
    p = VonMisesFisher(_unit(dim, dtype=dtype), kappa)
    x = p.sample((count,))
    assert x.dtype == dtype
    assert (torch.linalg.vector_norm(x, dim=-1) - 1).abs().max() < 20 * torch.finfo(dtype).eps
    # five standard errors of every coordinate's mean, and of the mean cosine
    error = (x.double().mean(dim=0) - p.mean.double()).abs() / (p.stddev.double() / math.sqrt(count))
    assert error.max() < 5
    # the cosine from 1 - cos, which float32 can hold at k = 1e6
    versine = (x.double() - p.mode.double()).square().sum(dim=-1) / 2
    spread = math.sqrt(float(exact.ratio_derivative(dim, kappa)))
    truth = float(1 - exact.ratio(dim, kappa))
    assert abs(versine.mean().item() - truth) < 5 * spread / math.sqrt(count) + 1e-6 * truth
    # the variance of the cosine to a tenth, or five of its standard errors
    assert versine.var().item() == pytest.approx(spread**2, rel=max(0.1, 10 / math.sqrt(count)))


@pytest.mark.parametrize("dim", [2, 3, 40, 512])
@pytest.mark.parametrize("kappa", [0.0, 1.0, 50.0, 1e6])
def test_gradient_of_samples_is_that_of_the_mean(dim: int, kappa: float) -> None:
    # E x = R(k) loc, so d/dk E loc.x = R'(k), and d/dloc E c.x = R(k) (c - (c.loc) loc)
    torch.manual_seed(6)
    count = 4000
    one, c = _unit(dim), _unit(dim)
    loc = one.expand(count, dim).clone().requires_grad_()
    k = torch.full((count,), kappa, dtype=torch.float64, requires_grad=True)
    x = VonMisesFisher(loc, k).rsample()
    # a copy of the arguments for each sample: gradients are one a sample, with a standard error
    (in_k,) = torch.autograd.grad((x * one).sum(), k, retain_graph=True)
    truth = float(exact.ratio_derivative(dim, kappa))
    assert abs(in_k.mean().item() - truth) <= 4 * in_k.std().item() / math.sqrt(count)
    # and the estimate is worth something
    assert in_k.std().item() / math.sqrt(count) < 0.05 * truth
    (in_loc,) = torch.autograd.grad((x * c).sum(), loc)
    expected = float(exact.ratio(dim, kappa)) * (c - (c @ one) * one)
    error = (in_loc.mean(dim=0) - expected).abs() / (in_loc.std(dim=0) / math.sqrt(count))
    assert error.max() < 5


def test_gradient_of_another_expectation() -> None:
    # E (c.x)^2 = (1 - (c.loc)^2) R/k + (c.loc)^2 E w^2 with E w^2 = R' + R^2; its derivative in k is autograd's
    torch.manual_seed(9)
    loc, c, count = _unit(7), _unit(7), 100_000
    k = torch.tensor(6.0, dtype=torch.float64, requires_grad=True)
    ratio = sf.special.bessel_i_ratio(2.5, k)
    along = (c @ loc) ** 2
    second = (1 - along) * ratio / k + along * (sf.special.bessel_i_ratio_derivative(2.5, k) + ratio * ratio)
    (truth,) = torch.autograd.grad(second, k)
    many = k.detach().expand(count).clone().requires_grad_()
    x = VonMisesFisher(loc, many).rsample()
    (grads,) = torch.autograd.grad((x @ c).square().sum(), many)
    assert abs(grads.mean().item() - truth.item()) < 4 * grads.std().item() / math.sqrt(count)


def test_gradients_reach_parameters_in_float32() -> None:
    torch.manual_seed(0)
    raw, log_k = torch.randn(4, 64, requires_grad=True), torch.zeros(4, requires_grad=True)
    p = VonMisesFisher(torch.nn.functional.normalize(raw, dim=1), 100 * log_k.exp())
    (p.rsample((8,)).square()[..., :3].sum() + p.log_prob(_unit(4, 64, dtype=torch.float32)).sum()).backward()
    for grad in (raw.grad, log_k.grad):
        assert grad is not None
        assert grad.dtype == torch.float32
        assert grad.isfinite().all()
        assert grad.abs().min() > 0


def test_the_seed_decides() -> None:
    p = VonMisesFisher(_unit(5, 9), torch.arange(5.0).double())
    torch.manual_seed(1)
    first = p.sample((7,))
    torch.manual_seed(1)
    assert torch.equal(first, p.rsample((7,)))
    assert not torch.equal(first, p.sample((7,)))


def test_shapes_broadcast_and_expand() -> None:
    torch.manual_seed(0)
    p = VonMisesFisher(_unit(3, 1, 6), torch.tensor([1.0, 20.0], dtype=torch.float64))
    assert (p.batch_shape, p.event_shape, p.dim) == ((3, 2), (6,), 6)
    assert p.sample((4, 5)).shape == (4, 5, 3, 2, 6)
    assert p.sample().shape == p.mean.shape == p.mode.shape == p.variance.shape == (3, 2, 6)
    assert p.entropy().shape == (3, 2)
    x = p.sample((4,))
    assert p.log_prob(x).shape == (4, 3, 2)
    assert torch.equal(p.log_prob(x)[2, 1, 0], VonMisesFisher(p.loc[1, 0], 1.0).log_prob(x[2, 1, 0]))
    wide = p.expand((5, 3, 2))
    assert isinstance(wide, VonMisesFisher)
    assert wide.loc.data_ptr() == p.loc.data_ptr()
    assert torch.equal(wide.log_prob(x[0]), p.log_prob(x[0]).expand(5, 3, 2))
    assert wide.sample((2,)).shape == (2, 5, 3, 2, 6)
    assert Independent(p, 1).log_prob(x).shape == (4, 3)
    assert VonMisesFisher(_unit(0, 4), 1.0).sample((3,)).shape == (3, 0, 4)
    assert p.sample((0,)).shape == (0, 3, 2, 6)
    assert p.has_rsample
    assert "loc: torch.Size([3, 2, 6])" in repr(p)


def test_the_uniform_distribution() -> None:
    torch.manual_seed(0)
    for dim in (2, 3, 10_000):
        p = VonMisesFisher.uniform(dim, (2,), dtype=torch.float64)
        area = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
        assert p.entropy().tolist() == pytest.approx([area] * 2, rel=1e-13)
        assert p.log_prob(_unit(2, dim)).tolist() == pytest.approx([-area] * 2, rel=1e-13)
        assert p.mean.abs().max() == 0
        assert p.variance.sum(dim=-1).tolist() == pytest.approx([1, 1])
    # uniform is uniform, whatever loc is
    assert kl_divergence(VonMisesFisher(_unit(5), 0.0), VonMisesFisher(_unit(5), 0.0)).item() == 0
    assert VonMisesFisher.uniform(3).sample().dtype == torch.get_default_dtype()
    with pytest.raises(ValueError, match="Expected dim >= 2, but got 1"):
        VonMisesFisher.uniform(1)


def test_what_counts_is_the_direction() -> None:
    torch.manual_seed(0)
    loc, x = _unit(6), _unit(3, 6)
    for k in (1.0, 1e6):
        p, q = VonMisesFisher(loc, k), VonMisesFisher(loc * (1 + 5e-5), k)
        torch.testing.assert_close(p.log_prob(x), q.log_prob(x * (1 - 5e-5)), rtol=1e-9, atol=1e-9)
        assert torch.linalg.vector_norm(q.mode).item() == pytest.approx(1, abs=1e-15)


def test_refusals() -> None:
    loc = torch.tensor([0.6, 0.8])
    for bad in ([0.6, 0.9], [0.0, 0.0], [math.nan, 1.0]):
        with pytest.raises(ValueError, match="loc"):
            VonMisesFisher(torch.tensor(bad), 1.0)
    for k in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="concentration"):
            VonMisesFisher(loc, k)
    with pytest.raises(ValueError, match="support"):
        VonMisesFisher(loc, 1.0).log_prob(torch.tensor([1.0, 1.0]))
    with pytest.raises(ValueError, match=r"Expected loc \[\.\.\., p\] with p >= 2, but got shape \(1,\)"):
        VonMisesFisher(torch.ones(1), 1.0)
    with pytest.raises(TypeError, match=r"Expected loc in float32 or float64, but got torch\.bfloat16"):
        VonMisesFisher(loc.bfloat16(), 1.0)
    with pytest.raises(TypeError, match="Expected loc and concentration in one dtype"):
        VonMisesFisher(loc, torch.tensor(1.0, dtype=torch.float64))
    with pytest.raises(ValueError, match="Expected loc without its last dimension and concentration to broadcast"):
        VonMisesFisher(loc.expand(3, 2), torch.ones(2))


def test_the_documented_errors_are_what_the_code_makes() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table_of("copied").splitlines()]
    columns = {name: rows[0].index(name) for name in ("ours, float64", *COPIES)}
    for dim, quantity in ((64, "log_prob"), (512, "entropy")):
        (row,) = (each for each in rows if each[:2] == [str(dim), quantity])
        for name, copy in COPIES.items():
            found = copied_errors(dim, copy)[quantity]
            number, _, broken = row[columns[name]].partition(", not finite ")
            # the last digits depend on the machine's libm
            assert found.worst == pytest.approx(float(number), rel=1.0)
            assert broken == (f"{found.broken} of {found.total}" if found.broken else "")
        own = own_errors(dim, torch.float64)[quantity]
        assert own.broken == 0
        assert own.worst < 1e-15
        assert float(row[columns["ours, float64"]]) < 1e-15
