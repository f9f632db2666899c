"""What is in a collection, counted in one pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from suffice.store.kinds import kind_named
from suffice.store.reader import Collection

__all__ = ["Group", "Summary", "summarize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """States that share where they come from and what they are."""

    source: str
    dataset: str
    run: str
    step: int
    kind: str
    dim: int
    # None where the states of a kind have no temperature, or their banks no concentrations
    temperature: float | None
    classes: int
    largest_concentration: float | None
    states: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A collection in numbers."""

    path: str
    states: int
    banks: int
    bytes: int
    digest: str
    provenance: str
    finished: bool
    groups: list[Group]


def summarize(collection: Collection) -> Summary:
    """Count the states by source, dataset, run, step, dimension and temperature."""
    counts: Counter[tuple[Any, ...]] = Counter()
    largest: dict[tuple[Any, ...], float] = {}
    for batch in collection:
        record = collection.manifest.files[f"banks/{batch.bank}.safetensors"]
        # one that is stored: states may derive one from other columns
        tau = batch.states.temperature if "temperature" in kind_named(record.kind).columns else None
        concentrations = getattr(batch.states.bank, "concentrations", None)
        numbers = [None] * len(batch) if tau is None else tau.tolist()
        for where in zip(batch.source, batch.dataset, batch.run, batch.step, numbers, strict=True):
            key = (*where, record.kind, record.dim, record.classes)
            counts[key] += 1
            if concentrations is not None:
                largest[key] = max(largest.get(key, 0.0), float(concentrations.max()))
    return Summary(
        path=collection.path.name,
        states=len(collection),
        banks=len(collection.banks),
        bytes=sum(record.bytes for record in collection.manifest.files.values()),
        digest=collection.digest,
        provenance=collection.provenance,
        finished=collection.manifest.finished,
        groups=[
            Group(
                source=source,
                dataset=dataset,
                run=run,
                step=step,
                kind=kind,
                dim=dim,
                temperature=tau,
                classes=classes,
                largest_concentration=largest.get((source, dataset, run, step, tau, kind, dim, classes)),
                states=count,
            )
            for (source, dataset, run, step, tau, kind, dim, classes), count in counts.items()
        ],
    )
