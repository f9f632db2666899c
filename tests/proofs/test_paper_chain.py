"""The paper's chain: every link is proved, each is about what it says, and the checks refuse what is false."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from suffice.proofs import paper_chain
from suffice.proofs.paper_chain import PAPER_CHAIN


@pytest.mark.parametrize("link", PAPER_CHAIN, ids=[name for name, _, _ in PAPER_CHAIN])
def test_every_link_is_proved(link: tuple[str, str, object]) -> None:
    name, statement, check = link
    assert callable(check)
    assert check() is True
    assert statement
    labels = (Path(__file__).parents[2] / "docs" / "labels.txt").read_text().split()
    assert name.split(" ..")[0] in labels


def test_nonnegativity_refuses_what_is_false() -> None:
    """(u - 1)^2 touches zero and holds; a little less does not, nor does what fails far out or at zero."""
    assert paper_chain._nonnegative_from_zero(1, -2, 1)
    assert not paper_chain._nonnegative_from_zero(1, -3, 2)
    assert not paper_chain._nonnegative_from_zero(5, 3, -1)
    assert not paper_chain._nonnegative_from_zero(-1, 5)


def test_a_wrong_residual_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = paper_chain.residual_polynomials(2)
    wrong = {**right, 4: (*right[4][:-1], right[4][-1] * 2)}
    monkeypatch.setattr(paper_chain, "residual_polynomials", lambda _order: wrong)
    assert not paper_chain._exact_residual()


def test_statements_in_numbers() -> None:
    """What eq:app-rational-suprema and eq:app-r2-bound say, at many points: the suprema are reached."""
    z = [i / 1000 for i in range(1, 20_000)]
    s = [math.hypot(1, x) for x in z]
    assert max(x / (2 * y**4) for x, y in zip(z, s, strict=True)) == pytest.approx(9 / (32 * math.sqrt(3)), rel=1e-6)
    assert max(x / (2 * y**5) for x, y in zip(z, s, strict=True)) == pytest.approx(8 / (25 * math.sqrt(5)), rel=1e-6)
    assert max(x * (x * x - 4) / (8 * y**5) for x, y in zip(z, s, strict=True) if x >= 2) <= 1 / 40
