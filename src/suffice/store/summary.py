"""What is in a collection, counted in one pass."""

from __future__ import annotations

from dataclasses import dataclass

from suffice.store.reader import Collection

__all__ = ["Group", "Summary", "summarize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """States that share where they come from and what they are."""

    source: str
    dataset: str
    run: str
    step: int
    dim: int
    temperature: float
    classes: int
    largest_concentration: float
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
    counts: dict[tuple[str, str, str, int, int, float, int], int] = {}
    largest: dict[tuple[str, str, str, int, int, float, int], float] = {}
    for batch in collection:
        bank = batch.states.bank
        top = float(bank.concentrations.max())
        where = zip(batch.source, batch.dataset, batch.run, batch.step, batch.states.temperature.tolist(), strict=True)
        for source, dataset, run, step, tau in where:
            key = (source, dataset, run, step, bank.dim, tau, bank.num_classes)
            counts[key] = counts.get(key, 0) + 1
            largest[key] = max(largest.get(key, 0.0), top)
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
                source=key[0],
                dataset=key[1],
                run=key[2],
                step=key[3],
                dim=key[4],
                temperature=key[5],
                classes=key[6],
                largest_concentration=largest[key],
                states=count,
            )
            for key, count in counts.items()
        ],
    )
