"""Rows of a linear head, [V, p], taken block by block: exact numbers in float64, and lengths that are formed once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import above

__all__ = ["BLOCK_ENTRIES", "ClassRows", "row_lengths"]

# A block of rows in float64 has about this many entries, and so have working tensors [rows, classes].
BLOCK_ENTRIES = 4_194_304


class ClassRows(ABC):
    """V rows of p numbers. A subclass says how many, and gives some of them in float64, exactly.

    Everything over classes goes by `blocks`, so that a large head is never widened as a whole.
    """

    @property
    @abstractmethod
    def num_classes(self) -> int:
        """V."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """p."""

    @abstractmethod
    def rows(self, classes: slice | Tensor) -> Float[Tensor, "some dim"]:
        """Some of the rows, in float64, exactly."""

    def factored(self, classes: Int[Tensor, " some"], out: Float[Tensor, "some dim"]) -> Float[Tensor, " some"] | None:
        """Write some rows into `out`, but for a factor a row, which is returned (None: there is none).

        In float64 factor and numbers are exact; in float32 every number has one rounding.
        """
        out.copy_(self.rows(classes))
        return None

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
        """Runs of classes whose rows have about this many entries: what streams over classes goes by these."""
        size = max(1, entries // self.dim)
        for start in range(0, self.num_classes, size):
            yield slice(start, min(start + size, self.num_classes))

    @cached_property
    def lengths(self) -> Float[Tensor, " classes"]:
        """|w_j|, from above; zero for a row of zeros."""
        return torch.cat([row_lengths(self.rows(block)) for block in self.blocks()])

    @cached_property
    def center(self) -> Float[Tensor, " dim"]:
        """m, about the mean row. Any fixed numbers would do: nothing that is said depends on which."""
        share = 1 / self.num_classes
        center = torch.stack([(self.rows(block) * share).sum(dim=0) for block in self.blocks()]).sum(dim=0)
        return center.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

    @cached_property
    def radii(self) -> Float[Tensor, " classes"]:
        """|w_j - m|, from above, for the center m as it is stored; infinite where that overflows."""
        return torch.cat([row_lengths(self.rows(block) - self.center) for block in self.blocks()])

    def centered(self, block: slice) -> Float[Tensor, "some dim"]:
        """Rows minus the center: one rounding a coordinate."""
        return self.rows(block).sub(self.center)


def row_lengths(rows: Float[Tensor, "some dim"]) -> Float[Tensor, " some"]:
    """Lengths from above: a rounding of each coordinate, its quotient, p squares and their sum, the root, a product."""
    # what underflows in units of the largest coordinate is far below a rounding; a length below the normal numbers is
    # raised to the smallest of them
    found = above(safe_length(rows), rows.shape[1] + 12, positive=rows.any(dim=1))
    return found.nan_to_num(nan=torch.inf, posinf=torch.inf)
