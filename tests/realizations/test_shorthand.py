"""Keywords are shorthand for a realization, and never change one that is given."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.pairs.perturbed import PerturbedPair, ramp
from suffice.realizations.analytic import Analytic
from suffice.realizations.executed.realization import Execution
from suffice.realizations.shorthand import realization_of
from suffice.words import Scope
from tests.support.collections import make_states

PAIR = sf.DebyePair(order=4)
BUDGETS = sf.Budgets(loss=1e-4)
OTHER = PerturbedPair(base=PAIR, bump=ramp, amount=1e-6)


def test_a_pair_is_analytic_unless_told() -> None:
    assert realization_of(PAIR) == Analytic(PAIR)
    assert realization_of(OTHER) == Analytic(OTHER)
    assert realization_of(PAIR, dtype=torch.float32, model="probabilistic") == Analytic(PAIR)
    assert realization_of(PAIR, scope="execution") == Execution(PAIR, torch.float64, False, "proved")
    found = realization_of(PAIR, scope=Scope.EXECUTION, dtype=torch.float32, model="probabilistic")
    assert found == Execution(PAIR, torch.float32, False, "probabilistic")
    assert found.scope == "execution"


@pytest.mark.parametrize("given", [Analytic(PAIR), Execution(PAIR, torch.float32)])
def test_a_realization_stands_for_itself(given: Analytic | Execution) -> None:
    """Its scope is its own: asking for another is refused, not ignored."""
    assert realization_of(given) is given
    with pytest.raises(ValueError, match=f"Expected a pair for scope='execution', but got {type(given).__name__}"):
        realization_of(given, scope="execution")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ways_give_the_same(dtype: torch.dtype) -> None:
    states = make_states(4, 6, 16)
    short = sf.certify(states, BUDGETS, PAIR, scope="execution", dtype=dtype)
    long = sf.certify(states, BUDGETS, Execution(PAIR, dtype))
    assert torch.equal(short.loss, long.loss)
    assert (short.scope, short.execution) == (long.scope, long.execution)
    assert long.scope == "execution"


def test_wrong_words() -> None:
    with pytest.raises(ValueError, match=r"Expected scope in \['analytic', 'execution'\], but got 'exact'"):
        realization_of(PAIR, scope="exact")
    with pytest.raises(TypeError, match="Expected a DebyePair for scope execution"):
        realization_of(OTHER, scope="execution")


def test_what_is_neither_a_pair_nor_a_realization() -> None:
    with pytest.raises(TypeError, match=r"Expected a pair or a realization, but got str; for example sf.DebyePair"):
        realization_of("debye2")  # type: ignore[arg-type]
