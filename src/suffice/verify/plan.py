"""What an audit says of itself, from its JSON: the plan, the collection, and the fingerprint of both."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suffice.verify.report import UnreadableError
from suffice.verify.stored import read_json

__all__ = ["CLOSED", "HEADER", "Header", "Plan", "read_header"]

HEADER = "audit.json"
# the budgets that a bound meets by being at most that; the prediction's test is strict
CLOSED = ("loss", "probability", "gradient")
# that one is in a plan only if it is asked for
_LATER = "kl"
# the realization that this checker knows beside a pair, and where its gradients may be taken
_HEAD, _COORDINATES = "exact-head", ("hidden", "weights")
_WORDS = {
    "contract": ("geometry", "conditioned", "centered"),
    "scope": ("analytic", "execution"),
    "dtype": ("float32", "float64"),
    "model": ("proved", "probabilistic"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The question of an audit: budgets (None where there is none), order, contract, and what is executed.

    `head` says that it is about linear heads as they are stored, with gradients in `coordinate`.
    """

    loss: float | None
    probability: float | None
    gradient: float | None
    prediction: bool
    order: int
    contract: str
    scope: str
    dtype: str
    model: str
    kl: float | None = None
    head: bool = False
    coordinate: str = "hidden"

    @property
    def closed(self) -> tuple[str, ...]:
        """What has a bound in every row: KL only where there is a budget on it."""
        return CLOSED if self.kl is None else (*CLOSED, _LATER)

    @property
    def executed(self) -> bool:
        """Whether it is about executed numbers."""
        return self.scope == "execution"

    @property
    def budgets(self) -> dict[str, float]:
        """The closed budgets that are set, by name."""
        return {name: limit for name in (*CLOSED, _LATER) if (limit := getattr(self, name)) is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """All budgets that are set."""
        return (*self.budgets, "prediction") if self.prediction else tuple(self.budgets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """audit.json."""

    plan: Plan
    collection: str
    skip_bad: bool
    record: dict[str, Any]


def read_header(audit: Path) -> Header:
    """Read audit.json; every field must be there and be what it should, and the fingerprint that of the others."""
    if not audit.is_dir():
        raise UnreadableError(str(audit), "folder", "a folder", "none")
    record = read_json(audit / HEADER, HEADER, dict)
    kinds = {"fingerprint": str, "question": str, "plan": dict, "collection": str, "suffice": str, "skip_bad": bool}
    for key, kind in {**kinds, "scope": str}.items():
        if not isinstance(record.get(key), kind):
            raise UnreadableError(HEADER, key, kind.__name__, type(record.get(key)).__name__)
    plan = _plan(record["plan"])
    asked = {**record["plan"], **{key: record[key] for key in ("collection", "skip_bad")}, "version": record["suffice"]}
    found = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    if found != record["fingerprint"]:
        raise UnreadableError(HEADER, "fingerprint", record["fingerprint"], found, "of plan, collection and version")
    return Header(plan=plan, collection=record["collection"], skip_bad=record["skip_bad"], record=record)


def _plan(record: dict[str, Any]) -> Plan:
    names = [*CLOSED, "prediction", "order", *_WORDS]
    names += [name for name in (_LATER, "realization") if name in record]
    head = _head(record["realization"]) if "realization" in record else {}
    if sorted(record) != sorted(names):
        raise UnreadableError(HEADER, "plan", sorted(names), sorted(map(str, record)))
    closed = [name for name in (*CLOSED, _LATER) if name in record]
    for name in closed:
        limit = record[name]
        # a whole number past the range of floats is none of a budget
        number = isinstance(limit, int | float) and not isinstance(limit, bool) and 0 < limit <= sys.float_info.max
        if limit is not None and not number:
            raise UnreadableError(HEADER, f"plan, {name}", "a number > 0 or null", limit)
    if not isinstance(record["prediction"], bool):
        raise UnreadableError(HEADER, "plan, prediction", "true or false", record["prediction"])
    order = record["order"]
    if isinstance(order, bool) or not isinstance(order, int) or order not in range(1, 7):
        raise UnreadableError(HEADER, "plan, order", "1 to 6", order)
    for name, words in _WORDS.items():
        if record[name] not in words:
            raise UnreadableError(HEADER, f"plan, {name}", " or ".join(words), record[name])
    limits = {name: None if record[name] is None else float(record[name]) for name in closed}
    rest = {name: value for name, value in record.items() if name != "realization"}
    plan = Plan(**{**rest, **limits, **head})
    if plan.head and plan.executed:
        raise UnreadableError(HEADER, "plan, scope", "analytic", plan.scope, "of a head")
    if not plan.names:
        raise UnreadableError(HEADER, "plan", "a budget", "none")
    return plan


def _head(kept: object) -> dict[str, Any]:
    """What the record of a head as stored says; any other realization is one that is not known here."""
    if not isinstance(kept, dict) or kept.get("name") != _HEAD or not set(kept) <= {"name", "coordinate"}:
        raise UnreadableError(HEADER, "plan, realization", "a pair", kept, "this checker does not know the realization")
    coordinate = kept.get("coordinate", _COORDINATES[0])
    if coordinate not in _COORDINATES:
        raise UnreadableError(HEADER, "plan, realization", " or ".join(_COORDINATES), coordinate)
    return {"head": True, "coordinate": coordinate}
