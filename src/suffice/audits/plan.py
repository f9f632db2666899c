"""What an audit asks: budgets, pair and contract, as plain data that names itself."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass

from suffice.pairs.debye import DebyePair
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.solving import contract_named

__all__ = ["SCOPE", "Plan", "pair_order"]

SCOPE = "Covered: the mathematical error of the pair at the stored geometry (scope analytic). Not covered: rounding."
_PAIR = re.compile(r"debye([1-6])")


def pair_order(name: str) -> int:
    """2 for "debye2"."""
    match = _PAIR.fullmatch(name)
    if not match:
        raise ValueError(f"Expected a pair from debye1 to debye6, but got {name!r}")
    return int(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One question to every state of a collection."""

    loss: float | None = None
    probability: float | None = None
    gradient: float | None = None
    prediction: bool = False
    order: int = 2
    contract: str = "centered"

    def __post_init__(self) -> None:
        contract_named(self.contract)
        _ = self.budgets, self.pair

    @property
    def budgets(self) -> Budgets:
        """The budgets; raises if there are none."""
        return Budgets(loss=self.loss, probability=self.probability, gradient=self.gradient, prediction=self.prediction)

    @property
    def pair(self) -> DebyePair:
        """The pair that is judged."""
        return DebyePair(order=self.order)

    def fingerprint(self, collection: str, version: str, skip_bad: bool) -> str:
        """A hash of everything that the results depend on: results under another one are never mixed in."""
        asked = {**asdict(self), "collection": collection, "version": version, "skip_bad": skip_bad}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def words(self) -> str:
        """The question in a line."""
        errors = {"loss": "loss error", "probability": "total variation", "gradient": "gradient error"}
        limits = [f"{words} within {getattr(self, name):g}" for name, words in errors.items() if getattr(self, name)]
        limits += ["the prediction unchanged"] if self.prediction else []
        return f"does debye{self.order} keep {' and '.join(limits)}, by the {self.contract} contract?"
