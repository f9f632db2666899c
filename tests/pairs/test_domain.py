"""Where arguments enter: the domain of nu exactly, what is refused in which words, gaps without cancellation."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from flint import arb, ctx

from suffice.pairs.domain import check_domain, endpoints, gap_arguments, pointwise


def test_the_domain_ends_exactly_at_the_fraction() -> None:
    """10/9 rounds up to a float that is inside; the float below it is outside."""
    edge = float(Fraction(10, 9))
    assert Fraction(edge) > Fraction(10, 9)
    check_domain(2, edge)
    with pytest.raises(ValueError, match=r"Expected nu >= 10/9 for order 2.*no order is valid there"):
        check_domain(2, math.nextafter(edge, 0.0))
    with pytest.raises(ValueError, match=r"nu >= 3/2 for order 4.*orders valid there: 1, 2, 3"):
        check_domain(4, torch.tensor([2.0, 1.25]))


def test_swapped_endpoints_are_noticed() -> None:
    """A bound at swapped ends would be one for another state."""
    with pytest.raises(ValueError, match="are r and k swapped"):
        gap_arguments(2, 63.0, 5.0, 12.0, 119.0)
    assert gap_arguments(2, 63.0, 12.0, 5.0, 119.0)[4].item() == 144.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("r", "k", "gap", "message"),
    [
        (-1.0, 1.0, None, "Expected r to be finite and >= 0"),
        (1.0, math.nan, None, "Expected k to be finite and >= 0"),
        (0.0, 1.0, -2.0, r"Expected squared_gap >= -k\*\*2, but got -2.0"),
        (1.0, 1.0, math.inf, "Expected squared_gap to be finite"),
    ],
)
def test_refusals(r: float, k: float, gap: float | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gap_arguments(2, 63.0, r, k, gap)


def test_a_gradient_of_r_must_pass_through_the_gap() -> None:
    r = torch.tensor(12.0, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ValueError, match="Expected squared_gap to carry the gradient of r"):
        gap_arguments(2, 63.0, r, torch.tensor(5.0, dtype=torch.float64), torch.tensor(119.0, dtype=torch.float64))


@pytest.mark.parametrize("relative", [1e-25, 1e-12, 1e-3, 3.0, -0.999999, -1.0])
def test_gaps_keep_their_digits(relative: float) -> None:
    """|r - k| and |s(r) - s(k)| to 1e-15, where subtraction of the rounded ends would have none."""
    nu, k = 63.0, 100.0
    squared = k * k * relative
    ends = endpoints(2, nu, k, math.sqrt(k * k + squared), squared)
    with ctx.workprec(300):
        r = (arb(k) ** 2 + arb(squared)).sqrt() if relative > -1 else arb(0)
        gap, s_gap = abs(r - k), abs((arb(nu) ** 2 + r**2).sqrt() - (arb(nu) ** 2 + arb(k) ** 2).sqrt())
        assert abs(arb(ends.gap.item()) / gap - 1) < 1e-15
        assert abs(arb(ends.s_gap.item()) / s_gap - 1) < 1e-15
    assert ends.apart.item()


def test_radii_up_to_the_largest_number() -> None:
    nu, x, s = pointwise(2, 63.0, torch.tensor([0.0, 1e300], dtype=torch.float64))
    assert nu == 63.0
    assert s.tolist() == [63.0, 1e300]
    assert x.tolist() == [0.0, 1e300]
    far = endpoints(2, 63.0, 1e308, 1.5e308, None)
    assert far.s_gap.item() == pytest.approx(0.5e308)
