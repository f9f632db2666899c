"""The von Mises-Fisher distribution against Arb, against the versions that people copy, and over a plain randn.

`python -m benchmarks.distributions` writes the tables of docs/distributions.md, or those that are named after it.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from flint import arb, ctx
from torch import Tensor
from torch.distributions import kl_divergence

from benchmarks.timing import seconds
from suffice.distributions import VonMisesFisher
from suffice.experiments.document import markdown_table, number
from suffice.experiments.published import miller
from suffice.special import bessel_i_ratio_derivative
from suffice.truth import bessel

__all__ = ["COPIES", "KAPPAS", "QUANTITIES", "Errors", "copied_errors", "own_errors", "table_of"]

KAPPAS = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
QUANTITIES = ("log_prob", "entropy", "d log_prob/dk")
_PAGE = Path(__file__).resolve().parent.parent / "docs" / "distributions.md"

# log_prob, entropy and d log_prob/dk at one k and one cosine
Numbers = tuple[float, float, float]
Copy = Callable[[int, float, float], Numbers]


class Errors:
    """The worst of some errors, and how many were not finite."""

    def __init__(self) -> None:
        self.worst, self.broken, self.total = 0.0, 0, 0

    def add(self, error: float) -> None:
        """One more."""
        self.total += 1
        if math.isfinite(error):
            self.worst = max(self.worst, error)
        else:
            self.broken += 1

    def __str__(self) -> str:
        if self.broken == self.total:
            return "never finite"
        return number(self.worst) + (f", not finite {self.broken} of {self.total}" if self.broken else "")


def _point(dim: int, kappa: float, dtype: torch.dtype) -> tuple[VonMisesFisher, Tensor]:
    """A distribution and one of its samples, as stored numbers."""
    torch.manual_seed(dim)
    loc = torch.nn.functional.normalize(torch.randn(dim, dtype=torch.float64), dim=0).to(dtype)
    made = VonMisesFisher(loc, torch.tensor(kappa, dtype=dtype, requires_grad=True))
    return made, made.sample()


def _cosine(x: Sequence[float], y: Sequence[float]) -> arb:
    a, b = [arb(each) for each in x], [arb(each) for each in y]
    product, *squares = (sum((i * j for i, j in zip(u, v, strict=True)), arb(0)) for u, v in ((a, b), (a, a), (b, b)))
    return product / (squares[0] * squares[1]).sqrt()


def _normalizer(dim: int, kappa: float) -> arb:
    return -bessel.potential(dim / 2 - 1, kappa, relative_width=1e-60) - arb(dim) / 2 * (2 * arb.pi()).log()


def _exact(dim: int, kappa: float, cosine: arb) -> list[arb]:
    normalizer = _normalizer(dim, kappa)
    ratio = bessel.ratio(dim / 2 - 1, kappa, relative_width=1e-60)
    return [normalizer + arb(kappa) * cosine, -normalizer - arb(kappa) * ratio, cosine - ratio]


def _record(errors: dict[str, Errors], dim: int, kappa: float, found: Sequence[float], truth: Sequence[arb]) -> None:
    """Errors over max(1, |value|); of the gradient over its standard deviation, sqrt(R')."""
    spread = math.sqrt(bessel_i_ratio_derivative(dim / 2 - 1, kappa).item())
    for name, value, exact in zip(QUANTITIES, found, truth, strict=True):
        scale = spread if name == QUANTITIES[2] else max(1.0, abs(float(exact)))
        errors[name].add(float(abs(arb(value) - exact)) / scale if math.isfinite(value) else math.inf)


def own_errors(dim: int, dtype: torch.dtype) -> dict[str, Errors]:
    """The distribution's own, with its divergence from one of 1.01 k that is turned a little."""
    errors = {name: Errors() for name in (*QUANTITIES, "KL")}
    for kappa in (0.0, *KAPPAS):
        p, x = _point(dim, kappa, dtype)
        value = p.log_prob(x)
        (slope,) = torch.autograd.grad(value, p.concentration)
        with ctx.workprec(400):
            k = p.concentration.item()
            truth = _exact(dim, k, _cosine(p.loc.tolist(), x.tolist()))
            _record(errors, dim, k, [value.item(), p.entropy().item(), slope.item()], truth)
            turned = torch.nn.functional.normalize(p.loc + 1e-3 * x, dim=0)
            q = VonMisesFisher(turned, (1.01 * p.concentration).detach())
            other = q.concentration.item()
            ratio, between = (
                bessel.ratio(dim / 2 - 1, k, relative_width=1e-60),
                _cosine(p.loc.tolist(), turned.tolist()),
            )
            exact = _normalizer(dim, k) - _normalizer(dim, other) + ratio * (arb(k) - arb(other) * between)
            found = kl_divergence(p, q).item()
            # relative, however small it is
            errors["KL"].add(float(abs(arb(found) / exact - 1)) if k else abs(found))
    return errors


def _by_ive(dtype: type[np.floating]) -> Copy:
    """nu log k - (p/2) log(2 pi) - log ive(nu, k) - k + k cos, every number in one dtype; the ratio of two ive."""

    def copied(dim: int, kappa: float, cosine: float) -> Numbers:
        from scipy import special

        k, cos, nu = dtype(kappa), dtype(cosine), dtype(dim / 2 - 1)
        with np.errstate(all="ignore"):
            here, above = dtype(special.ive(nu, k)), dtype(special.ive(nu + dtype(1), k))
            normalizer = nu * np.log(k) - dtype(dim / 2 * math.log(2 * math.pi)) - (np.log(here) + k)
            ratio = above / here
            return float(normalizer + k * cos), float(-normalizer - k * ratio), float(cos - ratio)

    return copied


def _by_recurrence(dim: int, kappa: float, cosine: float) -> Numbers:
    """The same with Miller's recurrence from order 2 nu in float64, as published losses have it."""
    nu = dim // 2 - 1
    log_bessel, _, ratio = (each.item() for each in miller(nu, torch.tensor(kappa, dtype=torch.float64)))
    normalizer = nu * math.log(kappa) - dim / 2 * math.log(2 * math.pi) - log_bessel
    return normalizer + kappa * cosine, -normalizer - kappa * ratio, cosine - ratio


COPIES: dict[str, Copy] = {
    "`ive`, float64": _by_ive(np.float64),
    "`ive`, float32": _by_ive(np.float32),
    "recurrence, float64": _by_recurrence,
}


def copied_errors(dim: int, copy: Copy) -> dict[str, Errors]:
    """Of a copied version, given the cosine of the stored sample, rounded to float64."""
    errors = {name: Errors() for name in QUANTITIES}
    for kappa in KAPPAS:
        p, x = _point(dim, kappa, torch.float64)
        with ctx.workprec(400):
            cosine = float(_cosine(p.loc.tolist(), x.tolist()))
            _record(errors, dim, kappa, copy(dim, kappa, cosine), _exact(dim, kappa, arb(cosine)))
    return errors


def _own_table() -> str:
    rows = []
    for dtype in (torch.float64, torch.float32):
        for dim in (2, 3, 16, 64, 512, 10_000):
            found = own_errors(dim, dtype)
            rows.append([str(dtype).removeprefix("torch."), str(dim), *(str(each) for each in found.values())])
    return markdown_table(["dtype", "p", *QUANTITIES, "KL"], rows)


def _copied_table() -> str:
    rows = []
    for dim in (16, 64, 512):
        ours = {f"ours, {name}": own_errors(dim, getattr(torch, name)) for name in ("float64", "float32")}
        theirs = {name: copied_errors(dim, copy) for name, copy in COPIES.items()}
        columns = [*ours.values(), *theirs.values()]
        rows += [[str(dim), name, *(str(each[name]) for each in columns)] for name in QUANTITIES]
    return markdown_table(["p", "quantity", "ours, float64", "ours, float32", *COPIES], rows)


def _through_the_proposal(dim: int, kappa: float, count: int) -> Tensor:
    """dw/dk of accepted cosines with the proposal z held fixed: what differentiating the sampler gives, without a
    correction for acceptance."""
    k = torch.full((4 * count,), kappa, dtype=torch.float64, requires_grad=True)
    b = (dim - 1) / (2 * k + torch.sqrt(4 * k * k + (dim - 1) ** 2))
    half = torch.full((4 * count,), (dim - 1) / 2, dtype=torch.float64)
    first, second = torch._standard_gamma(half), torch._standard_gamma(half)
    z = first / (first + second)
    w = 1 - 2 * b * z / (1 - (1 - b) * z)
    y = ((1 - b) / (1 + b) * (1 - 2 * z)).detach()
    accepted = torch.log(torch.rand_like(z)) <= (dim - 1) * (y / (1 + y) - torch.log1p(y))
    (slopes,) = torch.autograd.grad(w.sum(), k)
    return slopes[accepted][:count]


def _gradient_table(count: int = 100_000) -> str:
    """d E[loc.x]/dk, which is R'(k): by rsample, and through the accepted proposal."""
    rows = []
    torch.manual_seed(0)
    for dim, kappa in ((3, 1.0), (3, 10.0), (16, 10.0), (64, 100.0), (512, 500.0)):
        k = torch.full((count,), kappa, dtype=torch.float64, requires_grad=True)
        loc = torch.zeros(dim, dtype=torch.float64)
        loc[0] = 1
        (slopes,) = torch.autograd.grad(VonMisesFisher(loc, k).rsample()[:, 0].sum(), k)
        truth = bessel_i_ratio_derivative(dim / 2 - 1, kappa).item()
        cells = []
        for each in (slopes, _through_the_proposal(dim, kappa, count)):
            mean, error = each.mean().item(), each.std().item() / math.sqrt(len(each))
            cells.append(f"{mean:.5g} ({(mean - truth) / error:+.1f})")
        rows.append([str(dim), f"{kappa:g}", f"{truth:.5g}", *cells])
    return markdown_table(["p", "k", "R'(k)", "`rsample`", "through the proposal"], rows)


def _speed_table(count: int = 20_000, dim: int = 512, turns: int = 7) -> str:
    """Times over that of a plain randn of the same size, which takes its turn before each; medians, one thread."""
    torch.set_num_threads(1)
    rows, names = [], list(_runs(torch.float32, 1000, 2))
    for dtype in (torch.float32, torch.float64):
        runs = _runs(dtype, count, dim)
        plain = seconds(lambda dtype=dtype: torch.randn(count, dim, dtype=dtype))  # type: ignore[misc]
        medians = []
        for run in runs.values():
            run()
            medians.append(statistics.median(seconds(run)() / plain() for _ in range(turns)))
        rows.append([str(dtype).removeprefix("torch."), *(f"{each:.2f}" for each in medians)])
    return markdown_table(["dtype", *names], rows)


def _runs(dtype: torch.dtype, count: int, dim: int) -> dict[str, Callable[[], object]]:
    loc = torch.nn.functional.normalize(torch.randn(1000, dim, dtype=dtype), dim=1)
    one, many = VonMisesFisher(loc[0], 300.0), VonMisesFisher(loc, 300.0)
    free = VonMisesFisher(loc[0].clone().requires_grad_(), torch.tensor(300.0, dtype=dtype, requires_grad=True))
    x = one.sample((count,))
    return {
        "sample": lambda: one.sample((count,)),
        "sample, 1,000 locs": lambda: many.sample((count // 1000,)),
        "rsample": lambda: free.rsample((count,)),
        "rsample and backward": lambda: free.rsample((count,)).square().sum().backward(),
        "log_prob": lambda: one.log_prob(x),
    }


def table_of(name: str) -> str:
    """A table as it stands on the page."""
    return _PAGE.read_text().split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0]


def main() -> None:
    """Write every table into the page, or those that are named."""
    made = {"own": _own_table, "copied": _copied_table, "gradient": _gradient_table, "speed": _speed_table}
    for name in sys.argv[1:] or made:
        table = made[name]()
        print(f"\n{name}\n\n{table}")
        _PAGE.write_text(_PAGE.read_text().replace(table_of(name), table))


if __name__ == "__main__":
    main()
