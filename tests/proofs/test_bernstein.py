"""The exact nonnegativity test: it proves what holds and refuses what does not."""

from __future__ import annotations

from fractions import Fraction

from suffice.proofs.bernstein import prove_nonnegative


def test_a_square_with_an_interior_zero_that_halving_meets_is_proved() -> None:
    # (t - 1/2)^2 has a negative Bernstein coefficient on [0, 1] and none after one halving
    result = prove_nonnegative({(0, 0): Fraction(1, 4), (1, 0): Fraction(-1), (2, 0): Fraction(1)})
    assert result.proved
    assert result.boxes > 1


def test_a_small_dip_is_found_and_its_place_given() -> None:
    # (t - y)^2 - 1/1000 is negative on the diagonal
    terms = {(2, 0): Fraction(1), (1, 1): Fraction(-2), (0, 2): Fraction(1), (0, 0): Fraction(-1, 1000)}
    result = prove_nonnegative(terms)
    assert not result.proved
    assert result.counterexample is not None
    t, y = result.counterexample
    assert (t - y) ** 2 < Fraction(1, 1000)


def test_running_out_of_boxes_is_not_a_proof() -> None:
    # (t - 1/3)^2 is never negative, but halving cannot reach its zero
    terms = {(0, 0): Fraction(1, 9), (1, 0): Fraction(-2, 3), (2, 0): Fraction(1)}
    result = prove_nonnegative(terms, max_boxes=64)
    assert not result.proved
    assert result.counterexample is None


def test_the_box_is_the_one_asked_for() -> None:
    # 1 - t is nonnegative up to 1 and not beyond
    terms = {(0, 0): Fraction(1), (1, 0): Fraction(-1)}
    assert prove_nonnegative(terms, upper=(Fraction(1), Fraction(1))).proved
    assert not prove_nonnegative(terms, upper=(Fraction(11, 10), Fraction(1))).proved
