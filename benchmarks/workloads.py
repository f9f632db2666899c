"""States to time calls on: the shipped collections, and synthetic ones of the sizes that the tables are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch

import suffice as sf
from benchmarks.tolerances import make_states
from suffice.audits.run import result_batches
from suffice.store.reader import Batch, Collection

__all__ = ["WORKLOADS", "Workload", "shipped", "synthetic"]

# queries, classes, dimension, temperature, noise
_SYNTHETIC = {
    "1024 x 1000, p = 512": (1024, 1000, 512, 0.1, 2.0),
    "256 x 8142, p = 1024": (256, 8142, 1024, 0.1, 2.0),
    "1024 x 1000, p = 512, tau = 0.01": (1024, 1000, 512, 0.01, 1.0),
}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Some states, bank by bank; the batches of an audit, if they are a collection."""

    name: str
    states: list[sf.States]
    batches: list[Batch]

    @cached_property
    def pairs(self) -> int:
        """Queries times classes."""
        return sum(len(each) * each.num_classes for each in self.states)

    def product(self) -> None:
        """The bare product of the geometry, in the chunks that everything else is computed in."""
        for states, scaled, buffer in self._prepared:
            transposed = states.bank.directions.T
            for start in range(0, len(scaled), states.chunk):
                part = scaled[start : start + states.chunk]
                torch.mm(part, transposed, out=buffer[: len(part)])

    @cached_property
    def _prepared(self) -> list[tuple[sf.States, torch.Tensor, torch.Tensor]]:
        return [
            (
                each,
                each.features / each.temperature[:, None],
                torch.empty(min(each.chunk, len(each)), each.num_classes, dtype=torch.float64),
            )
            for each in self.states
        ]


def shipped(name: str, collection: Collection) -> Workload:
    """The batches of a collection as an audit computes them."""
    batches = list(result_batches(collection, skip_bad=False))
    return Workload(name=name, states=[batch.states for batch in batches], batches=batches)


def synthetic(name: str) -> Workload:
    """States around their class directions."""
    queries, classes, dim, tau, noise = _SYNTHETIC[name]
    return Workload(name=name, states=[make_states(queries, classes, dim, tau, noise)], batches=[])


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "first": lambda: shipped("first", sf.builtin_collection("first")),
    "built-in": lambda: shipped("built-in", sf.builtin_collection()),
    **{name: partial(synthetic, name) for name in _SYNTHETIC},
}
