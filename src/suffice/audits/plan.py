"""What an audit asks: budgets, pair and contract, as plain data that names itself."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from suffice.budgets import Budgets
from suffice.numerics.formats import format_named
from suffice.numerics.rounding import MODELS
from suffice.pairs.debye import DebyePair
from suffice.realizations.executed.realization import Execution, execution_of
from suffice.tolerances.solving import contract_named

__all__ = ["Plan", "pair_order"]

_ANALYTIC = (
    "Covered: the mathematical error of the pair at the exact geometry of the stored features and bank (scope "
    "analytic). Not covered: rounding of an evaluation."
)
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
    scope: str = "analytic"
    dtype: str = "float64"
    model: str = "proved"

    def __post_init__(self) -> None:
        contract_named(self.contract)
        format_named(self.dtype)
        if self.model not in MODELS:
            raise ValueError(f"Expected model in {list(MODELS)}, but got {self.model!r}")
        _ = self.budgets, self.pair, self.execution

    @property
    def execution(self) -> Execution | None:
        """What is executed, in scope "execution"."""
        return execution_of(self.scope, self.pair, format_named(self.dtype).dtype, model=self.model)

    @property
    def settings(self) -> dict[str, Any]:
        """The scope as `certify`, `tolerance` and `cascade` take it."""
        return {"scope": self.scope, "dtype": format_named(self.dtype).dtype, "model": self.model}

    @property
    def covered(self) -> str:
        """In one line, what a "certified" of this audit covers."""
        execution = self.execution
        if execution is None:
            return _ANALYTIC
        return (
            "Covered: the numbers as executed against the exact objective at the stored inputs, formula and rounding "
            f"(scope execution: {execution.words}" + (")." if self.model == "proved" else "; likely, NOT PROVED).")
        )

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
        how = "" if self.execution is None else f", executed in {self.dtype} (model {self.model}),"
        return f"does debye{self.order}{how} keep {' and '.join(limits)}, by the {self.contract} contract?"
