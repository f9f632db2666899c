"""The rigorous reference (app:numerics-reference): R and differences of Phi as Arb balls that contain the truth."""

from __future__ import annotations

from collections.abc import Callable

from flint import arb, ctx

__all__ = [
    "PrecisionError",
    "potential",
    "potential_at_square",
    "potential_difference",
    "ratio",
    "ratio_at_square",
    "slope_at_square",
]

_FIRST_PRECISION = 128
_LAST_PRECISION = 16384


class PrecisionError(ArithmeticError):
    """The requested width was not reached at the highest precision that is tried."""


def ratio(nu: float, x: float, *, relative_width: float = 1e-30) -> arb:
    """A ball that contains R_nu(x) = I_{nu+1}(x)/I_nu(x), with radius <= relative_width * |R|.

    The floats nu and x are taken as exact. x = 0 gives the exact 0.

    >>> ratio(0.5, 1.0).overlaps(arb(1).coth() - 1)
    True
    """
    _check(nu=nu, x=x)
    if x == 0:
        return arb(0)

    def at_precision() -> arb:
        return arb(x).bessel_i(arb(nu) + 1, scaled=True) / arb(x).bessel_i(arb(nu), scaled=True)

    return _to_width(at_precision, relative_width, f"R at nu = {nu}, x = {x}")


def ratio_at_square(nu: float, k: float, squared_gap: float, *, relative_width: float = 1e-30) -> arb:
    """A ball that contains R_nu(x)/x at x = sqrt(k^2 + squared_gap), both exact; at 0 its limit 1/(2(nu+1))."""
    _check(nu=nu, k=k)

    def at_precision() -> arb:
        x_squared = arb(k) ** 2 + arb(squared_gap)
        if x_squared == 0 or x_squared < 0:
            return 1 / (2 * (arb(nu) + 1))
        x = x_squared.sqrt()
        return x.bessel_i(arb(nu) + 1, scaled=True) / x.bessel_i(arb(nu), scaled=True) / x

    return _to_width(at_precision, relative_width, f"R/x at nu = {nu}, k = {k}, squared gap = {squared_gap}")


def potential(nu: float, x: float, *, relative_width: float = 1e-30) -> arb:
    """A ball that contains Phi_nu(x) = log I_nu(x) - nu log x; at 0 its limit -nu log 2 - log Gamma(nu + 1)."""
    _check(nu=nu, x=x)
    return _to_width(lambda: _potential(arb(nu), arb(x)), relative_width, f"Phi at nu = {nu}, x = {x}")


def potential_difference(
    nu: float, r: float, k: float, squared_gap: float | None = None, *, relative_width: float = 1e-30
) -> arb:
    """A ball that contains Phi_nu(r) - Phi_nu(k), narrow relative to the difference itself.

    With squared_gap, k and squared_gap are exact and r = sqrt(k^2 + squared_gap), as in `DebyePair.difference`.
    Equal endpoints give the exact 0.
    """
    _check(nu=nu, r=r, k=k)
    if squared_gap is None:
        if r == k:
            return arb(0)
    else:
        if not abs(squared_gap) < float("inf"):
            raise ValueError(f"Expected squared_gap to be finite, but got {squared_gap}")
        if squared_gap == 0:
            return arb(0)

    def at_precision() -> arb:
        if squared_gap is None:
            radius = arb(r)
        else:
            square = arb(k) * arb(k) + arb(squared_gap)
            # a squared gap of -k^2 that was rounded below it counts as r = 0, as in the pair
            if square < -(arb(2) ** -50) * arb(k) * arb(k):
                raise ValueError(f"Expected squared_gap >= -k**2, but got {squared_gap} at k = {k}")
            radius = square.sqrt() if square > 0 else arb(0)
        return _potential(arb(nu), radius) - _potential(arb(nu), arb(k))

    return _to_width(at_precision, relative_width, f"Phi({r}) - Phi({k}) at nu = {nu}, squared gap {squared_gap}")


def potential_at_square(nu: arb, square: arb) -> arb:
    """Phi_nu at x with x^2 = square, at the current precision; a square that may be zero or below counts as a ball.

    x^-nu I_nu(x) is an entire function of x^2, so that balls around zero do no harm.
    """
    if square > 0:
        return _potential(nu, square.sqrt())
    return _series(nu, square).log() - nu * arb(2).log() - (nu + 1).lgamma()


def slope_at_square(nu: arb, square: arb) -> arb:
    """R_nu(x)/x at x with x^2 = square, likewise; 1/(2(nu+1)) at zero."""
    if square > 0:
        x = square.sqrt()
        return x.bessel_i(nu + 1, scaled=True) / x.bessel_i(nu, scaled=True) / x
    return _series(nu + 1, square) / _series(nu, square) / (2 * (nu + 1))


def _series(nu: arb, square: arb) -> arb:
    """0F1(nu + 1, x^2/4) = Gamma(nu+1) (x/2)^-nu I_nu(x)."""
    return (square / 4).hypgeom_0f1(nu + 1)


def _potential(nu: arb, x: arb) -> arb:
    if x == 0:
        return -nu * arb(2).log() - (nu + 1).lgamma()
    return x.bessel_i(nu, scaled=True).log() + x - nu * x.log()


def _to_width(at_precision: Callable[[], arb], relative_width: float, what: str) -> arb:
    if not 0 < relative_width < 1:
        raise ValueError(f"Expected relative_width in (0, 1), but got {relative_width}")
    precision = _FIRST_PRECISION
    while precision <= _LAST_PRECISION:
        with ctx.workprec(precision):
            ball = at_precision()
            # a ball that contains 0, or is not finite, fails this comparison
            if ball.is_finite() and ball.rad() <= arb(relative_width) * ball.abs_lower():
                return ball
        precision *= 2
    raise PrecisionError(
        f"{what}: a relative width of {relative_width} was not reached with {_LAST_PRECISION} bits; "
        "ask for a wider ball, or move the endpoints apart"
    )


def _check(**arguments: float) -> None:
    for name, value in arguments.items():
        if not 0 <= value < float("inf"):
            raise ValueError(f"Expected {name} to be finite and >= 0, but got {value}")
