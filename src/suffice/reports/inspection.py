"""One state of an audit, explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suffice.audits.ledger import read_header, read_results
from suffice.audits.plan import Plan
from suffice.certificates.certify import certify
from suffice.reports.printable import one_line
from suffice.store.manifest import CollectionError
from suffice.store.reader import Collection
from suffice.words import Tier

__all__ = ["explain_audited", "explain_found"]


_NAMES = ("id", "source", "dataset", "run", "step")


def explain_audited(folder: Path, collection: Collection, state: str) -> str:
    """What was found for the state of this id, and why; raises KeyError if the audit has no such state."""
    for columns in read_results(folder, judged=True):
        rows = (columns["id"] == state).nonzero()[0]
        if len(rows):
            found = {name: column[rows[0]] for name, column in columns.items()}
            return explain_found(found, _plan(folder), collection)
    raise KeyError(f"the audit in {folder} has no state {state!r}; ids are in its results/*.parquet")


def _plan(folder: Path) -> Plan:
    try:
        return Plan.from_record(read_header(folder)["plan"])
    except CollectionError:
        raise
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CollectionError(folder / "audit.json", "plan", one_line(error)) from None


def explain_found(found: dict[str, Any], plan: Plan, collection: Collection) -> str:
    """The same from the state's row of results."""
    part, row = str(found["part"]), int(found["row"])
    batches = collection.read_part(part, []) if part in collection.parts else iter(())
    wanted = next((batch for batch in batches if row in batch.rows), None)
    if wanted is None:
        raise CollectionError(
            collection.path, f"{part}, row {row}", "the audit has such a state, but the collection none"
        )
    index = wanted.rows.index(row)
    certificate = certify(wanted.states[index : index + 1], plan.budgets, plan.realization, plan.chosen)
    lines = [
        "{}: {} on {}, run {}, step {}".format(*map(one_line, (found[name] for name in _NAMES))),
        f"p = {found['dim']}, {found['classes']} classes, tau = {found['temperature']:g}, "
        + (
            f"label {found['label']}, target probability {found['target_probability']:.3g}"
            if found["label"] >= 0
            else "no label"
        ),
        f"b* = {found['b']:.4g} ({found['status']}, {found['binding']} binds; "
        f"first order {found['b_first_order']:.4g})",
        f"verdict {found['verdict']}, decided by {found['tier']}, "
        f"headroom {found['headroom']:.4g} by the {plan.chosen.name} contract{_cheapest(found)}",
        *_enclosed(found, plan),
    ]
    if plan.realization.at(certificate.states).by_class:
        lines.append(str(certificate.explain(0)))
    return "\n".join(lines)


def _enclosed(found: dict[str, Any], plan: Plan) -> list[str]:
    """The ends of the true errors, where an enclosure decided; what follows is what the contract alone says."""
    if found["tier"] not in (Tier.ENCLOSURE, Tier.OUTPUT):
        return []
    limits = {name: getattr(plan, name) for name in ("loss", "probability", "gradient", "kl")}
    words = [
        f"{name} error between {found[f'{name}_low']:.4g} and {found[f'{name}_bound']:.4g} of {limit:g}"
        for name, limit in limits.items()
        if limit is not None
    ]
    if plan.prediction:
        words.append(f"prediction {'not ' if found['prediction_violated'] else ''}right")
    return [f"the true errors, enclosed: {', '.join(words)}", "by the contract alone:"]


def _cheapest(found: dict[str, Any]) -> str:
    """Of the orders of the ladder, where a pair was audited."""
    if "cheapest_order" not in found:
        return ""
    order = found["cheapest_order"]
    return f", cheapest adequate order: {f'debye{order}' if order else 'none up to debye6'}"
