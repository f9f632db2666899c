"""What an objective is to everything above it: a batch of states that can be cut, and that describe themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["Objective"]


@runtime_checkable
class Objective(Protocol):
    """States of one objective: N queries against something that they share (a class bank, a linear head).

    Validated when they are made, and trusted after. What a realization needs beyond this (geometry, scores, the maps
    from class weights to gradients) is between it and the states that it is written for.
    """

    @property
    def bank(self) -> Any:
        """What all states share; an audit hands it around once."""
        ...

    @property
    def labels(self) -> Int[Tensor, " queries"] | None:
        """The target class of each; None where an objective can do without."""
        ...

    @property
    def temperature(self) -> Float[Tensor, " queries"]:
        """By which scores are divided."""
        ...

    @property
    def num_classes(self) -> int:
        """C."""
        ...

    @property
    def dim(self) -> int:
        """p."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice | Tensor | list[int]) -> Self:
        """Some of the states, in the order asked for."""
        ...

    def chunks(self) -> Iterator[Self]:
        """The states in runs of rows whose working tensors fit into cache."""
        ...
