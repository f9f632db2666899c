"""States as the checker has them: its bank, evaluators and plan; and bounds so simple that rows are made by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import suffice as sf
from suffice.verify.columns import TIERS, Said
from suffice.verify.cross import RUNGS
from suffice.verify.enclosures import Enclosed
from suffice.verify.exact_states import ExactState
from suffice.verify.floats import FloatStates
from suffice.verify.plan import Plan
from suffice.verify.stored import Array, Bank

__all__ = ["Linear", "bank_of", "exact_state", "float_states", "honest_rows", "plan_of"]


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


_CONTRACTS = {"geometry": 4.0, "conditioned": 2.0, "centered": 1.0}
_FAMILIES = {"own": 1.0, "quarter": 2.0, "uniform": 0.125}


@dataclass
class Linear:
    """An evaluator whose every bound is a slope times the multiple: 4, 2 or 1 by contract, ten times less an order."""

    loss: Array
    share: Array
    nu: float = 7.0
    slack: float = 1e-9
    unknown: Array | None = None
    forgotten: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.loss)

    def _enclosed(self, value: Array) -> Enclosed:
        value = value if self.unknown is None else np.where(self.unknown, np.nan, value)
        return Enclosed(low=value * (1 - 1e-14), high=value * (1 + 1e-14), wide=value * (1 + 1e-12))

    def bounds(self, order: int, contract: str, family: str, scale: Array, need: str = "both") -> dict[str, Enclosed]:
        factor = _CONTRACTS[contract] * _FAMILIES[family] * 10.0 ** (2 - order) * scale
        values = {"loss": self.loss, "probability": self.loss / 8, "gradient": 2 * self.loss, "prediction": self.share}
        assert need in ("both", "plain", "wide")
        return {name: self._enclosed(value * factor) for name, value in values.items()}

    def sensitivities(self, order: int) -> dict[str, Enclosed]:
        return self.bounds(order, "conditioned", "uniform", np.ones(len(self)))

    def target_probability(self, order: int) -> Enclosed:
        assert order
        return self._enclosed(np.full(len(self), 0.5))

    def errors(self, order: int) -> dict[str, Enclosed]:
        """A hair less than the tightest bound."""
        return self.bounds(order, "centered", "own", np.full(len(self), 1 - 1e-6))

    def forget(self, order: int) -> None:
        self.forgotten.append(order)


def honest_rows(e: Linear) -> Said:
    """What an analytic audit says of it: a loss budget of 1, contract centered, order 2."""
    b = 8 / e.loss * (1 - 1e-12)
    certified = e.loss <= 1
    first = np.searchsorted(-np.array([8, 4, 2, 1]), -1 / e.loss)
    orders = {n: e.loss * 10.0 ** (2 - n) <= 1 for n in range(1, 7)}
    cheapest = np.array([next((n for n in orders if orders[n][i]), 0) for i in range(len(e))])
    return {
        "id": np.array([f"row {i}" for i in range(len(e))], dtype=object),
        "verdict": np.where(certified, "certified", "inconclusive").astype(object),
        "loss_bound": e.loss * 1.0,
        "probability_bound": e.loss / 8,
        "gradient_bound": 2 * e.loss,
        **{f"{name}_low": np.zeros(len(e)) for name in ("loss", "probability", "gradient")},
        "prediction_certified": e.share < 1,
        "prediction_violated": np.zeros(len(e), dtype=bool),
        "headroom": 1 / e.loss,
        "b": b,
        "b_upper": b * (1 + 5e-10),
        "b_conditioned": b / 2,
        "b_first_order": b / 2,
        "status": np.full(len(e), "bounded", dtype=object),
        "binding": np.full(len(e), "loss", dtype=object),
        "target_probability": np.full(len(e), 0.5),
        "tier": np.where(certified, np.array([*TIERS, "none"], dtype=object)[first], "none"),
        **{f"headroom_{n}": 10.0 ** (n - 2) / (2 * e.loss) for n in orders},
        **{f"certified_{n}": orders[n] for n in orders},
        "cheapest_order": cheapest,
        # of audits of executed numbers
        "execution_status": np.full(len(e), "inside", dtype=object),
        "loss": np.full(len(e), 0.7),
        **{f"{kind}_bound {name}": 2 * e.loss for name in RUNGS for kind in ("loss", "gradient")},
    }
