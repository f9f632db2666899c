"""The words of results: plain strings, each where it is said, and the ones that the checker restates."""

from __future__ import annotations

import json
from enum import StrEnum

import numpy as np
import pytest

import suffice as sf
from suffice import words
from suffice.verify import cross
from suffice.verify.columns import ENCLOSURES, TIERS
from suffice.words import Departure, Outcome, Scope, Tier, Verdict
from tests.support.collections import make_states


@pytest.mark.parametrize("name", words.__all__)
def test_a_word_is_a_plain_string(name: str) -> None:
    """In arrays, in JSON and in comparisons."""
    kind: type[StrEnum] = getattr(words, name)
    for word in kind:
        assert word == word.value
        assert str(word) == f"{word}" == word.value
        assert json.dumps({"word": word}) == json.dumps({"word": word.value})
        array = np.where(np.array([True]), word, "none")
        assert array.dtype.kind == "U"
        assert array.tolist() == [word.value]
    assert len({word.value for word in kind}) == len(kind)


def test_results_say_these_words() -> None:
    states = make_states(20, 6, 16)
    budgets = sf.Budgets(loss=1e-4, gradient=1e-3)
    certificate = sf.certify(states, budgets, sf.DebyePair(), scope="execution")
    assert set(certificate.verdict) == {Verdict.CERTIFIED, Verdict.INCONCLUSIVE}
    assert set(certificate.status if certificate.status is not None else []) == {Departure.INSIDE}
    assert certificate.scope == Scope.EXECUTION
    assert set(sf.tolerance(states, budgets, sf.DebyePair()).status) == {Outcome.BOUNDED}
    assert set(sf.cascade(states, budgets, sf.DebyePair()).tier) <= set(Tier)


def test_the_checker_knows_all_of_them() -> None:
    """It imports nothing, so it has them written down."""
    assert {*TIERS, *ENCLOSURES.values()} == set(Tier) - {Tier.OPEN}
    assert list(cross._STATUS) == [str(word) for word in Departure]


def test_departures_are_in_the_order_of_the_program() -> None:
    assert [str(word) for word in Departure] == [
        "inside",
        "temperature",
        "geometry",
        "scores",
        "probabilities",
        "gradient",
    ]
