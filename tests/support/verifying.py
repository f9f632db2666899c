"""States as the checker has them: its bank, its two evaluators, and its plan."""

from __future__ import annotations

from typing import Any

import suffice as sf
from suffice.verify.exact_states import ExactState
from suffice.verify.floats import FloatStates
from suffice.verify.plan import Plan
from suffice.verify.stored import Bank

__all__ = ["bank_of", "exact_state", "float_states", "plan_of"]


def bank_of(states: sf.States) -> Bank:
    """The bank of some states as arrays."""
    arrays = (states.bank.directions, states.bank.concentrations, states.bank.biases)
    return Bank.of(*(array.numpy() for array in arrays))


def float_states(states: sf.States) -> FloatStates:
    """All states in float64."""
    return FloatStates(bank_of(states), states.features.numpy(), states.labels.numpy(), states.temperature.numpy())


def exact_state(states: sf.States, row: int) -> ExactState:
    """One state in Arb, at the precision that is set."""
    features = states.features[row].numpy()
    return ExactState(bank_of(states), features, int(states.labels[row]), float(states.temperature[row]))


def plan_of(**changes: Any) -> Plan:
    """The plan of an analytic audit of order 2 with a loss budget, but for the changes."""
    usual: dict[str, Any] = {
        "loss": 1e-4,
        "probability": None,
        "gradient": None,
        "prediction": False,
        "order": 2,
        "contract": "centered",
        "scope": "analytic",
        "dtype": "float64",
        "model": "proved",
    }
    return Plan(**{**usual, **changes})
