"""The most saturated of the built-in states against the oracle: bounds of all contracts, and what b* accepts."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from tests.reference.oracle import states_of, verdict

_BUDGET = 1e-5
_CONTRACTS = ("geometry", "conditioned", "centered")


def _most_saturated(count: int) -> list[sf.States]:
    """Single states, the smallest loss first."""
    found = []
    for batch in sf.builtin_collection():
        loss = sf.evaluate(batch.states, sf.DebyePair()).loss
        found += [(value, batch.states[i : i + 1]) for i, value in enumerate(loss.tolist())]
    return [state for _, state in sorted(found, key=lambda pair: pair[0])[:count]]


def _check(states: list[sf.States]) -> int:
    """How many comparisons were made; a truth above its bound fails."""
    compared = 0
    budgets = sf.Budgets(loss=_BUDGET, gradient=_BUDGET)
    for number, state in enumerate(states):
        (oracle,) = states_of(state)
        for contract in _CONTRACTS:
            found = sf.certify(state, budgets, contract=contract)
            bounds = {"loss": found.loss, "probability": found.probability, "gradient": found.gradient}
            floors = tuple(float(bound) for bound in bounds.values())
            truth = oracle.errors(2, floors)  # type: ignore[arg-type]
            for name, bound in bounds.items():
                assert verdict(getattr(truth, name), float(bound)) == "within", (number, contract, name)
                compared += 1
            b = float(sf.tolerance(state, budgets, contract=contract).b)
            for response in oracle.responses(2, b, number, floors=(_BUDGET, 1.0, _BUDGET)):
                assert verdict(response.loss, _BUDGET) == "within", (number, contract, "b*")
                assert verdict(response.gradient, _BUDGET) == "within", (number, contract, "b*")
                compared += 2
    return compared


def test_five_of_the_most_saturated() -> None:
    states = _most_saturated(5)
    assert float(torch.cat([sf.evaluate(s, sf.DebyePair()).loss for s in states]).max()) < 1e-4
    assert _check(states) >= 5 * 3 * (3 + 2)


@pytest.mark.slow
def test_two_hundred_of_the_most_saturated() -> None:
    assert _check(_most_saturated(200)) >= 200 * 3 * (3 + 2)
