"""Every shipped constant is proved here, and slightly smaller ones are not: the prover can fail."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from suffice.pairs.constants import CLOSED_FORM, UNIFORM, ClosedFormConstant, UniformConstant
from suffice.proofs import barriers, paper_chain
from suffice.proofs.barriers import closed_form_holds, prove_all, residual_identity_holds, uniform_holds


def test_every_statement_is_proved_in_time() -> None:
    start = time.perf_counter()
    results = list(prove_all())
    assert [p.statement for p in results if not p.proved] == []
    assert len(results) == len(CLOSED_FORM) + len(UNIFORM) + 8 + len(paper_chain.PAPER_CHAIN)
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize("row", [row for row in CLOSED_FORM if row.value is None], ids=lambda r: f"order{r.order}")
def test_the_optimal_constant_cannot_be_improved(row: ClosedFormConstant) -> None:
    # nu/(2(nu+1)) is the limit at x -> 0: at the largest eps of the box anything smaller fails
    optimal = row.nu_min / (2 * (row.nu_min + 1))
    smaller = ClosedFormConstant(order=row.order, nu_min=row.nu_min, value=optimal * Fraction(999, 1000))
    assert not closed_form_holds(smaller)


def test_wrong_constants_are_refused() -> None:
    assert not closed_form_holds(ClosedFormConstant(order=4, nu_min=Fraction(3, 2), value=Fraction(1, 2)))
    assert not closed_form_holds(ClosedFormConstant(order=6, nu_min=Fraction(3, 2), value=Fraction(29, 8)))
    assert not uniform_holds(UniformConstant(name="twelfth", nu_min=Fraction(10, 9), value=Fraction(1, 12)))


def test_a_wrong_coefficient_breaks_the_residual_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    assert residual_identity_holds(2)
    true = barriers.residual_polynomials(2)
    wrong = {j: tuple(a + (i == 5) for i, a in enumerate(e)) for j, e in true.items()}
    monkeypatch.setattr(barriers, "residual_polynomials", lambda _: wrong)
    assert not residual_identity_holds(2)


def test_nu_min_is_not_rounded_below_itself() -> None:
    # closed_form_constant compares tensors of nu with float(nu_min)
    assert all(Fraction(float(row.nu_min)) >= row.nu_min for row in CLOSED_FORM)
