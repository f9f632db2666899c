"""Mutants of the allowances and their constants (pairs/envelopes.py, pairs/constants.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ENVELOPES = "pairs/envelopes.py"
_CONSTANTS = "pairs/constants.py"
_OUTWARD = "tests/pairs/test_outward.py::"
_CLOSED = "tests/pairs/test_envelopes.py::test_rounding_is_outward"
_PROOFS = "tests/pairs/test_constants.py::"

MUTANTS = (
    Mutant(
        name="outward-factor",
        file=_ENVELOPES,
        old="above(value, 2 * roundings + 2, positive=True)",
        new="value.clamp_min(torch.finfo(value.dtype).tiny)",
        why="a computed allowance may be below the proven one",
        kills=(_CLOSED, f"{_OUTWARD}test_score_allowances_are_outward"),
    ),
    Mutant(
        name="outward-tiny",
        file=_ENVELOPES,
        old="above(value, 2 * roundings + 2, positive=True)",
        new="above(value, 2 * roundings + 2)",
        why="an allowance that underflowed is not zero",
        kills=(f"{_OUTWARD}test_what_underflows_is_not_nothing",),
    ),
    Mutant(
        name="outward-score",
        file=_ENVELOPES,
        old="return _outward(value, 4 * (self.order + 6), ends.apart)",
        new="return torch.where(ends.apart, value, 0.0)",
        why="a computed score allowance may be below the proven one",
        kills=(f"{_OUTWARD}test_score_allowances_are_outward",),
    ),
    Mutant(
        name="closed-form-power",
        file=_ENVELOPES,
        old="for _ in range(self.order + 1):\n            value = value / s",
        new="for _ in range(self.order + 2):\n            value = value / s",
        why="c x/s^(n+3) is below the error",
        kills=(_CLOSED,),
    ),
    Mutant(
        name="closed-form-integral",
        file=_ENVELOPES,
        old="return s_gap * inverse_k * inverse_r * total / self.order",
        new="return s_gap * inverse_r * inverse_r * total / self.order",
        why="the integral between two endpoints would be that at the far one",
        kills=(f"{_OUTWARD}test_score_allowances_are_outward",),
    ),
    Mutant(
        name="uniform-outward",
        file=_ENVELOPES,
        old="return _outward(self._bound(nu, s), 6, torch.ones_like(s, dtype=torch.bool))",
        new="return self._bound(nu, s)",
        why="B/nu^3 rounds down too",
        kills=(f"{_OUTWARD}test_uniform_allowances_are_outward",),
    ),
    Mutant(
        name="panels-left-end",
        file=_ENVELOPES,
        old="low + panel * width, low + (panel + 1) * width) * width",
        new="low + panel * width, low + panel * width) * width",
        why="an upper sum takes x/m at the right end of a panel",
        kills=("tests/pairs/test_outward.py::test_panels_are_upper_sums",),
    ),
    Mutant(
        name="constant-row-value",
        file=_CONSTANTS,
        old='_row(5, "31", "11/10")',
        new='_row(5, "31", "1")',
        why="1.048 is the supremum",
        kills=(f"{_PROOFS}test_a_row_is_proved",),
    ),
    Mutant(
        name="constant-row-range",
        file=_CONSTANTS,
        old='_row(4, "11/2", "1/2")',
        new='_row(4, "7/2", "1/2")',
        why="the row is proved from 11/2 on",
        kills=(f"{_PROOFS}test_a_row_is_proved",),
    ),
    Mutant(
        name="constant-eleventh",
        file=_CONSTANTS,
        old="value=Fraction(1, 11)",
        new="value=Fraction(1, 12)",
        why="1/12 is false",
        kills=(f"{_PROOFS}test_the_eleventh_is_proved",),
    ),
    Mutant(
        name="constant-row-off-by-one",
        file=_CONSTANTS,
        old="Fraction(nu) >= row.nu_min)\n    return nu",
        new="Fraction(nu) >= row.nu_min - 1)\n    return nu",
        why="below its nu_min a row is not proved",
        kills=(_CLOSED,),
    ),
    Mutant(
        name="constant-tensor-row-off-by-one",
        file=_CONSTANTS,
        old="torch.where(nu >= float(row.nu_min), value, constant)",
        new="torch.where(nu >= float(row.nu_min) - 1, value, constant)",
        why="below its nu_min a row is not proved",
        kills=("tests/pairs/test_envelopes.py::test_tensor_nu_picks_the_row_of_each_entry",),
    ),
    Mutant(
        name="constant-domain",
        file=_CONSTANTS,
        old="if Fraction(nu) >= minimum_nu(n))",
        new="if Fraction(nu) >= minimum_nu(n) - 1)",
        why="an order would be offered where it is not proved",
        kills=("tests/pairs/test_outward.py::test_orders_are_offered_where_they_are_proved",),
    ),
)
