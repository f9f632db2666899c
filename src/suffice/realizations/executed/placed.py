"""Executed scores in their place: what the terms of rounding are formed from."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.states import Geometry

__all__ = ["Placed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The executed geometry as exact numbers, the softmax of the executed scores, and its most probable class."""

    geometry: Geometry
    head: SoftmaxHead
    top: Int[Tensor, " queries"]
