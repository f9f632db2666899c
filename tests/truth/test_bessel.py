"""The Arb reference: containment of mpmath's values, requested widths, the far corners, clear errors."""

from __future__ import annotations

import mpmath
import pytest
from flint import arb, ctx

from suffice.truth import bessel
from tests.reference import high_precision


def _contains(ball: arb, value: mpmath.mpf) -> bool:
    # 70 of the 80 digits, as a ball of its own
    with ctx.workprec(400):
        return bool(ball.overlaps(arb(mpmath.nstr(value, 70)) * arb(1, "1e-68")))


@pytest.mark.parametrize("nu", [0.0, 0.5, 1.5, 5.5, 63.0, 511.0])
@pytest.mark.parametrize("x", [1e-8, 0.3, 10.0, 500.0, 1e4])
def test_two_oracles_agree(nu: float, x: float) -> None:
    assert _contains(bessel.ratio(nu, x), high_precision.ratio(nu, x))
    assert _contains(bessel.potential(nu, x), high_precision.potential(nu, mpmath.mpf(x)))
    gap = x * x * 1e-6
    r = mpmath.sqrt(mpmath.mpf(x) ** 2 + mpmath.mpf(gap))
    difference = high_precision.potential(nu, r) - high_precision.potential(nu, mpmath.mpf(x))
    # mpmath subtracts two large numbers: 80 digits leave more than 50
    with ctx.workprec(400):
        ball = bessel.potential_difference(nu, 0.0, x, gap)
        assert abs(float(ball / arb(mpmath.nstr(difference, 60)) - 1)) < 1e-29


@pytest.mark.parametrize("width", [1e-10, 1e-30, 1e-100])
def test_the_requested_width_is_met(width: float) -> None:
    for ball in (
        bessel.ratio(63.0, 100.0, relative_width=width),
        bessel.potential_difference(63.0, 0.0, 100.0, 1e-12, relative_width=width),
    ):
        with ctx.workprec(1024):
            assert ball.rad() <= arb(width) * abs(ball.mid())
            assert ball.rad() > 0


@pytest.mark.parametrize("nu", [0.0, 2047.0, 1e5])
@pytest.mark.parametrize("x", [1e-8, 1.0, 1e3, 1e5, 1e8])
def test_the_whole_range(nu: float, x: float) -> None:
    # Amos's bounds, independent of all code here
    ball = bessel.ratio(nu, x)
    with ctx.workprec(256):
        n, y = arb(nu), arb(x)
        half = arb(0.5)
        assert y / (n + half + ((n + 1 + half) ** 2 + y**2).sqrt()) <= ball
        assert ball <= y / (n + half + ((n + half) ** 2 + y**2).sqrt())
    assert bessel.potential_difference(nu, x * (1 + 1e-9), x) > 0


def test_zero_is_exact() -> None:
    assert bessel.ratio(63.0, 0.0) == 0
    assert bessel.potential_difference(63.0, 5.0, 5.0) == 0
    assert bessel.potential_difference(63.0, 5.0, 5.0, 0.0) == 0
    with ctx.workprec(200):
        limit = -arb(63) * arb(2).log() - arb(64).lgamma()
        assert bessel.potential(63.0, 0.0).overlaps(limit)
        # down to r = 0 exactly
        down = bessel.potential_difference(63.0, 0.0, 2.0, -4.0)
        assert down.overlaps(limit - bessel.potential(63.0, 2.0))


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="Expected x to be finite and >= 0, but got -1"):
        bessel.ratio(1.0, -1.0)
    with pytest.raises(ValueError, match="Expected nu"):
        bessel.ratio(float("nan"), 1.0)
    with pytest.raises(ValueError, match=r"Expected squared_gap >= -k\*\*2"):
        bessel.potential_difference(1.0, 0.0, 1.0, -2.0)
    with pytest.raises(ValueError, match="Expected squared_gap to be finite"):
        bessel.potential_difference(1.0, 0.0, 1.0, float("inf"))
    with pytest.raises(ValueError, match=r"Expected relative_width in \(0, 1\)"):
        bessel.ratio(1.0, 1.0, relative_width=0.0)


def test_a_width_out_of_reach_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bessel, "_LAST_PRECISION", 256)
    with pytest.raises(bessel.PrecisionError, match=r"was not reached with 256 bits; ask for a wider ball"):
        bessel.ratio(63.0, 10.0, relative_width=1e-300)
