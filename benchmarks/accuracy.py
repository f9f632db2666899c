"""Measured accuracy against Arb, as docs/theory/07-measured.md quotes it; `python -m benchmarks.accuracy` prints it.

These are measurements on grids, not proofs. The tests hold the same quantities to their limits on smaller grids.
"""

from __future__ import annotations

import math

import torch
from flint import arb, ctx
from rich.progress import track

import suffice as sf
from suffice.numerics.compensated import squared_radius
from suffice.pairs.constants import minimum_nu
from suffice.truth import bessel, surrogate

_NUS = (10 / 9, 1.25, 1.5, 2.0, 2.5, 3.0, 5.5, 7.0, 15.0, 31.0, 63.0, 127.5, 255.0, 511.0, 1023.0, 2047.0)


def ratio_excess(order: int) -> tuple[float, float]:
    """max (|float64 ratio - R| - allowance)/ulp over nu and x in 1e-8..1e8, and max |float64 ratio - A_n|/ulp."""
    x = torch.logspace(-8, 8, 401, dtype=torch.float64)
    over = rounding = -math.inf
    for nu in (nu for nu in _NUS if nu >= minimum_nu(order)):
        pair = sf.DebyePair(order=order)
        rows = zip(x.tolist(), pair.ratio(nu, x).tolist(), pair.allowance(nu, x).tolist(), strict=True)
        for point, value, allowance in rows:
            with ctx.workprec(256):
                error = abs(arb(value) - bessel.ratio(nu, point))
                over = max(over, float(error - arb(allowance)) / math.ulp(value))
                rounding = max(rounding, float(abs(arb(value) - surrogate.ratio(order, nu, point))) / math.ulp(value))
    return over, rounding


def closed_form_tightness(order: int) -> float:
    """max over nu >= 63 of c_n over the true supremum of |R - A_n| s^(n+2)/x."""
    worst = 0.0
    for nu in (nu for nu in _NUS if nu >= 63):
        supremum = 0.0
        for x in torch.logspace(-3, 6, 91, dtype=torch.float64).tolist():
            with ctx.workprec(512):
                s = (arb(nu) ** 2 + arb(x) ** 2).sqrt()
                truth = bessel.ratio(nu, x, relative_width=1e-70)
                error = abs(truth - surrogate.ratio(order, nu, x, bits=512))
                supremum = max(supremum, float(error * s ** (order + 2) / x))
        with ctx.workprec(256):
            s_one = (arb(nu) ** 2 + 1).sqrt()
            constant = float(arb(sf.ClosedForm(order).allowance(nu, 1.0).item()) * s_one ** (order + 2))
        worst = max(worst, constant / supremum)
    return worst


def difference_error(order: int, dtype: torch.dtype, count: int = 1000) -> float:
    """The worst relative error of `difference` for relative squared gaps from 1 to 1e-12 of both signs."""
    generator = torch.Generator().manual_seed(3407)
    worst = 0.0
    for nu in (*(nu for nu in _NUS if nu >= minimum_nu(order)), 49_999.0):
        k = (10 ** (9 * torch.rand(count, generator=generator, dtype=torch.float64) - 3)).to(dtype)
        size = 10 ** (-12 * torch.rand(count, generator=generator, dtype=torch.float64))
        gap = k * k * (size * (1 - 2 * torch.randint(0, 2, (count,), generator=generator))).to(dtype)
        values = sf.DebyePair(order=order).difference(nu, squared_radius(k, gap).sqrt(), k, gap)
        for value, low, square in zip(values.tolist(), k.tolist(), gap.tolist(), strict=True):
            with ctx.workprec(512):
                exact = surrogate.potential_difference(order, nu, 0.0, low, square)
                worst = max(worst, float(abs(arb(value) / exact - 1)))
    return worst


def special_errors(nu: float) -> tuple[float, float]:
    """The worst relative error of the ratio and the worst |error|/max(1, |log I|), x in 1e-6..1e8."""
    x = torch.logspace(-6, 8, 1401, dtype=torch.float64)
    ratio = log = 0.0
    ratios, logs = sf.special.bessel_i_ratio(nu, x).tolist(), sf.special.log_bessel_i(nu, x).tolist()
    for point, value, value_log in zip(x.tolist(), ratios, logs, strict=True):
        with ctx.workprec(256):
            ratio = max(ratio, float(abs(arb(value) / bessel.ratio(nu, point) - 1)))
            truth = arb(point).bessel_i(arb(nu), scaled=True).log() + point
            log = max(log, float(abs(arb(value_log) - truth)) / max(1.0, abs(float(truth))))
    return ratio, log


def fit_error(dim: int) -> float:
    """The worst relative error of `fit_concentration` for kappa from 1e-4 to 100 dim."""
    kappa = torch.logspace(-4, math.log10(100 * dim), 200, dtype=torch.float64)
    truth = [float(bessel.ratio(dim / 2 - 1, value)) for value in kappa.tolist()]
    fitted = sf.special.fit_concentration(dim, torch.tensor(truth, dtype=torch.float64))
    return float(((fitted - kappa) / kappa).abs().max())


def main() -> None:
    """Print every table."""
    print("order  (|A-R|-allowance)/ulp  rounding/ulp  c_n/supremum  difference f64  difference f32")
    for order in track(range(1, 7), description="the ladder"):
        over, rounding = ratio_excess(order)
        wide, narrow = difference_error(order, torch.float64), difference_error(order, torch.float32)
        tight = closed_form_tightness(order)
        print(f"{order:5d}  {over:21.2f}  {rounding:12.2f}  {tight:12.6f}  {wide:14.1e}  {narrow:14.1e}")
    print("nu       ratio    log I")
    for nu in track((0.0, 0.5, 1.0, 2.0, 5.0, 31.5, 63.0, 511.0, 1e4), description="special"):
        ratio, log = special_errors(nu)
        print(f"{nu:<8g} {ratio:.1e}  {log:.1e}")
    print("dim      fit_concentration")
    for dim in (2, 3, 4, 5, 16, 67, 128, 512, 1024, 4096):
        print(f"{dim:<8d} {fit_error(dim):.1e}")


if __name__ == "__main__":
    main()
