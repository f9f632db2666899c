"""Classes whose exact scores are equal: settled in rational arithmetic, since no enclosure shows an equality."""

from __future__ import annotations

from fractions import Fraction

from suffice.states import States

__all__ = ["tied"]


def tied(state: States, i: int, j: int) -> bool:
    """Whether two classes of one state have equal scores because k, c and |k mu + f/tau| are equal.

    The cosines m_i.f/|m_i| of the stored rows m are equal if they have one sign and their squares are equal, and these
    are rational. True is a proof; false is none: scores of different k or c may be equal by chance.
    """
    bank = state.bank
    if i == j:
        return True
    k, c = bank.concentrations, bank.biases
    if k[i] != k[j] or c[i] != c[j]:
        return False
    if k[i] == 0:
        return True
    f = [Fraction(x) for x in state.features[0].tolist()]
    (dot_i, square_i), (dot_j, square_j) = (_product_and_square(bank.directions[n].tolist(), f) for n in (i, j))
    if (dot_i > 0) != (dot_j > 0) or (dot_i < 0) != (dot_j < 0):
        return False
    return dot_i * dot_i * square_j == dot_j * dot_j * square_i


def _product_and_square(row: list[float], f: list[Fraction]) -> tuple[Fraction, Fraction]:
    """m.f and |m|^2."""
    m = [Fraction(x) for x in row]
    return sum((a * b for a, b in zip(m, f, strict=True)), Fraction(0)), sum((a * a for a in m), Fraction(0))
