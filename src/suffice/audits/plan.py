"""What an audit asks: budgets, a realization and a contract, as plain data that name themselves."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from suffice.budgets import Budgets
from suffice.contracts.base import Contract
from suffice.contracts.registry import contract_named
from suffice.numerics.formats import FORMATS, format_named, name_of
from suffice.numerics.rounding import MODELS
from suffice.pairs.constants import MAX_ORDER, valid_orders
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import Analytic
from suffice.realizations.base import Realization
from suffice.realizations.executed.realization import Execution
from suffice.realizations.filtered import Filtered
from suffice.realizations.linear import ExactHead
from suffice.realizations.schemes import STEPS, head_step
from suffice.realizations.shorthand import realization_of
from suffice.store.kinds import kind_named
from suffice.words import Scope

__all__ = ["Plan", "PlanError", "pair_order", "register_realization"]

_PAIR = re.compile(r"debye([1-6])")
_BUILDERS: dict[str, Callable[[dict[str, Any]], Realization]] = {}


def register_realization(name: str, build: Callable[[dict[str, Any]], Realization]) -> None:
    """Let audits of a realization of one's own be read again: `build` makes it from its `record()`."""
    if _BUILDERS.setdefault(name, build) is not build:
        raise ValueError(f"Expected a new name for a realization, but {name!r} is taken")


class PlanError(ValueError):
    """The plan asks for what is proved nowhere, or not at these states."""


def pair_order(name: str) -> int:
    """2 for "debye2"."""
    match = _PAIR.fullmatch(name)
    if not match:
        raise ValueError(f"Expected a pair from debye1 to debye6, but got {name!r}")
    return int(match[1])


@lru_cache(maxsize=64, typed=True)
def _budgets(
    loss: float | None, probability: float | None, gradient: float | None, kl: float | None, prediction: bool
) -> Budgets:
    """Checked once, and asked for at every chunk of states."""
    return Budgets(loss=loss, probability=probability, gradient=gradient, kl=kl, prediction=prediction)


def _built(kept: dict[str, Any]) -> Realization:
    """The realization that a record is of, as it was registered to be built."""
    if kept.get("name") not in _BUILDERS:
        raise ValueError(
            f"Expected a realization in {sorted(_BUILDERS)}, but the audit is of {kept.get('name')!r}; "
            "call suffice.register_realization with how to build it"
        )
    return _BUILDERS[kept["name"]](kept)


def _of_pair(kept: dict[str, Any]) -> Realization:
    pair = DebyePair(order=pair_order(kept["pair"]))
    if kept["scope"] == Scope.ANALYTIC:
        return Analytic(pair)
    dtypes = {name_of(dtype): dtype for row in FORMATS.values() for dtype in (row.dtype, *row.inputs)}
    dtype, inputs = dtypes[kept["dtype"]], dtypes[kept["inputs"]]
    return Execution(pair, dtype, kept["compiled"], kept["model"], None if inputs == dtype else inputs)


def _of_filter(kept: dict[str, Any]) -> Realization:
    inner = None if kept["of"] is None else _built(kept["of"])
    return Filtered(kept["threshold"], inner, truncated=kept["truncated"])


register_realization("exact-head", lambda kept: ExactHead(kept.get("coordinate")))
register_realization("filtered", _of_filter)
for _name in STEPS:
    register_realization(_name, head_step)
for _order in range(1, MAX_ORDER + 1):
    register_realization(f"debye{_order}", _of_pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One question to every state of a collection.

    order, scope, dtype and model say which program of the ladder is asked about, unless `given` is another realization.
    """

    loss: float | None = None
    probability: float | None = None
    gradient: float | None = None
    kl: float | None = None
    prediction: bool = False
    order: int = 2
    contract: str | Contract = "centered"
    scope: str = Scope.ANALYTIC
    dtype: str = "float64"
    model: str = "proved"
    given: Realization | None = None

    def __post_init__(self) -> None:
        format_named(self.dtype)
        if self.model not in MODELS:
            raise ValueError(f"Expected model in {list(MODELS)}, but got {self.model!r}")
        _ = self.budgets, self.chosen, self.realization

    @property
    def chosen(self) -> Contract:
        """The contract."""
        return contract_named(self.contract)

    @property
    def realization(self) -> Realization:
        """What is judged."""
        if self.given is not None:
            return self.given
        pair = DebyePair(order=self.order)
        return realization_of(pair, scope=self.scope, dtype=format_named(self.dtype).dtype, model=self.model)

    @property
    def covered(self) -> str:
        """In one line, what a "certified" of this audit covers."""
        if self.given is None and self.scope == Scope.ANALYTIC:
            return (
                "Covered: the mathematical error of the pair at the exact geometry of the stored features and bank "
                "(scope analytic). Not covered: rounding of an evaluation."
            )
        if self.given is not None:
            return f"Covered: {self.given.words} (scope {self.given.scope}), against the exact objective."
        how = getattr(self.realization, "how", "")
        return (
            "Covered: the numbers as executed against the exact objective at the stored inputs, formula and rounding "
            f"(scope execution: {how}" + (")." if self.model == "proved" else "; likely, NOT PROVED).")
        )

    @property
    def budgets(self) -> Budgets:
        """The budgets; raises if there are none."""
        return _budgets(self.loss, self.probability, self.gradient, self.kl, self.prediction)

    def check_dimension(self, dim: int) -> None:
        """Raise where the ladder's order is not proved; another realization speaks for itself."""
        if self.given is None and self.order not in valid_orders(dim / 2 - 1):
            raise PlanError(
                f"Expected states of p >= 5, where debye{self.order} is proved, but got some of p = {dim}; "
                "no pair is proved there, and `judge` takes such states"
            )

    def record(self) -> dict[str, Any]:
        """The plan as plain data, which an audit's header keeps."""
        out = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "given"}
        out |= {"contract": self.chosen.name, "scope": str(self.scope)}
        if self.kl is None:
            # as in the headers of audits that were made before there was such a budget
            del out["kl"]
        return out if self.given is None else {**out, "realization": self.given.record()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Plan:
        """The plan that a header keeps."""
        rest = {key: value for key, value in record.items() if key != "realization"}
        kept = record.get("realization")
        return cls(**rest) if kept is None else cls(**rest, given=_built(kept))

    def of_kinds(self, kinds: list[str]) -> Plan:
        """The plan for a collection of these kinds: without a realization it is of the kind's own, if that has one."""
        own = {kind_named(name).realization for name in kinds} if self.given is None else set()
        return replace(self, given=own.pop()) if len(own) == 1 and None not in own else self

    def fingerprint(self, collection: str, version: str, skip_bad: bool) -> str:
        """A hash of everything that the results depend on: results under another one are never mixed in."""
        asked = {**self.record(), "collection": collection, "version": version, "skip_bad": skip_bad}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def words(self) -> str:
        """The question in a line."""
        errors = {"loss": "loss error", "probability": "total variation", "gradient": "gradient error", "kl": "KL"}
        limits = [f"{words} within {getattr(self, name):g}" for name, words in errors.items() if getattr(self, name)]
        limits += ["the prediction unchanged"] if self.prediction else []
        who = f"debye{self.order}" if self.given is None else self.given.words
        if self.given is None and self.scope == Scope.EXECUTION:
            who += f", executed in {self.dtype} (model {self.model}),"
        return f"does {who} keep {' and '.join(limits)}, by the {self.chosen.name} contract?"
