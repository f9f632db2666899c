"""Linear softmax heads and their states: scores (w_j.h + c_j)/T of stored numbers that are exact in any dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.numerics.checks import Real, finite
from suffice.objectives.rows import BLOCK_ENTRIES, ClassRows
from suffice.states import class_labels, positive_each

__all__ = ["Coordinate", "HeadStates", "LinearHead", "hidden_vectors"]

# What a gradient is taken in: the hidden vector, or the head's weights and biases.
Coordinate = Literal["hidden", "weights"]

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, init=False, eq=False)
class LinearHead(ClassRows):
    """Weight [V, p] and bias [V] of V >= 2 classes. The stored numbers are what the exact head is made of.

    The weight stays in its dtype (float64, float32, float16 or bfloat16) and is widened block by block, so that a
    large head is never copied; the bias is kept in float64, and may be -inf: a masked class, of probability 0.

    >>> head = LinearHead(torch.eye(3, dtype=torch.bfloat16))
    >>> head.num_classes, head.dim, head.bias.tolist()
    (3, 3, [0.0, 0.0, 0.0])
    """

    weight: Float[Tensor, "classes dim"]
    bias: Float[Tensor, " classes"]

    def __init__(self, weight: Real, bias: Real | None = None) -> None:
        w = _stored("weight", weight, 2)
        if w.shape[0] < 2 or w.shape[1] < 1:
            raise ValueError(f"Expected weight [V, p] with V >= 2 and p >= 1, but got shape {tuple(w.shape)}")
        finite("weight", w)
        c = w.new_zeros(len(w), dtype=torch.float64) if bias is None else _stored("bias", bias, 1).double()
        if len(c) != len(w):
            raise ValueError(f"Expected one bias for each of {len(w)} rows of weight, but got {len(c)}")
        if c.device != w.device:
            raise ValueError(f"Expected weight and bias on one device, but got {w.device} and {c.device}")
        bad = (c.isnan() | (c == torch.inf)).nonzero()
        if len(bad):
            row = int(bad[0])
            raise ValueError(f"Expected a bias to be finite, or -inf for a masked class, but got {c[row]} at {row}")
        if int((c > -torch.inf).sum()) < 2:
            raise ValueError("Expected at least two classes that are not masked (bias above -inf), but got fewer")
        object.__setattr__(self, "weight", w)
        object.__setattr__(self, "bias", c)

    @property
    def num_classes(self) -> int:
        return len(self.weight)

    @property
    def dim(self) -> int:
        return int(self.weight.shape[1])

    def rows(self, classes: slice | Tensor) -> Float[Tensor, "some dim"]:
        """Some rows of the weight, in float64, exactly."""
        return self.weight[classes].double()

    @cached_property
    def masked(self) -> Bool[Tensor, " classes"]:
        """The classes of probability 0."""
        return self.bias == -torch.inf

    @cached_property
    def spread(self) -> float:
        """max |w_j - m| over the classes that are not masked, from above."""
        return float(self.radii[~self.masked].max())


@dataclass(frozen=True, slots=True, init=False)
class HeadStates:
    """N hidden vectors h [N, p] against one head, with labels or without, at temperature T (one, or one a state).

    What came before the hidden vector is not part of a state: everything that is said of one is said given h. Gradients
    are with respect to h, or, with coordinate="weights", to all of the head's weights and biases. Without labels there
    is no loss: budgets are then on probabilities, KL and predictions only.

    >>> states = HeadStates(LinearHead(torch.eye(3)), torch.ones(2, 3), torch.tensor([0, 2]))
    >>> len(states), states.num_classes
    (2, 3)
    """

    bank: LinearHead
    hidden: Float[Tensor, "queries dim"]
    labels: Int[Tensor, " queries"] | None
    temperature: Float[Tensor, " queries"]
    coordinate: Coordinate
    chunk: int = field(repr=False)

    def __init__(
        self,
        bank: LinearHead,
        hidden: Real,
        labels: object | None = None,
        temperature: Real = 1.0,
        *,
        coordinate: Coordinate = "hidden",
    ) -> None:
        _check_coordinate(coordinate)
        h = hidden_vectors(bank, hidden)
        tau = positive_each("temperature", temperature, hidden=h)
        known = None if labels is None else class_labels(labels, len(h), bank.num_classes, bank.bias)
        if known is not None:
            masked = (bank.bias[known] == -torch.inf).nonzero()
            if len(masked):
                row = int(masked[0])
                raise ValueError(f"Expected labels of classes that are not masked, but got {int(known[row])} at {row}")
        object.__setattr__(self, "bank", bank)
        object.__setattr__(self, "hidden", h)
        object.__setattr__(self, "labels", known)
        object.__setattr__(self, "temperature", tau)
        object.__setattr__(self, "coordinate", coordinate)
        object.__setattr__(self, "chunk", max(1, BLOCK_ENTRIES // bank.num_classes))

    @property
    def head(self) -> LinearHead:
        """What all states share."""
        return self.bank

    @property
    def features(self) -> Float[Tensor, "queries dim"]:
        """The hidden vectors, by the name that other objectives have for theirs."""
        return self.hidden

    @property
    def num_classes(self) -> int:
        return self.bank.num_classes

    @property
    def dim(self) -> int:
        return self.bank.dim

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, rows: slice | Tensor | list[int]) -> HeadStates:
        """Some of the states, in the order asked for."""
        if isinstance(rows, int):
            raise TypeError(
                f"Expected a slice or a list of rows, but got the integer {rows}; use states[{rows}:{rows + 1}]"
            )
        part = object.__new__(HeadStates)
        for name in ("bank", "coordinate", "chunk"):
            object.__setattr__(part, name, getattr(self, name))
        for name in ("hidden", "labels", "temperature"):
            values = getattr(self, name)
            object.__setattr__(part, name, None if values is None else values[rows])
        return part

    def taken_in(self, coordinate: Coordinate) -> HeadStates:
        """The same states with gradients in another coordinate."""
        _check_coordinate(coordinate)
        part = self[:]
        object.__setattr__(part, "coordinate", coordinate)
        return part

    def chunks(self) -> Iterator[HeadStates]:
        """The states in runs of rows whose working tensors are bounded, so that memory does not grow with N."""
        return self.runs(BLOCK_ENTRIES)

    def runs(self, entries: int) -> Iterator[HeadStates]:
        """The states in runs of about so many entries, one an entry of states and classes."""
        if not len(self):
            raise ValueError("Expected at least one state, but got none")
        size = max(1, entries // self.num_classes)
        for start in range(0, len(self), size):
            yield self[start : start + size]


def hidden_vectors(bank: LinearHead, hidden: Real) -> Float[Tensor, "queries dim"]:
    """Hidden vectors of a head in float64, exactly."""
    if not isinstance(bank, LinearHead):
        raise TypeError(f"Expected the head to be a LinearHead, but got {type(bank).__name__}")
    h = _stored("hidden", hidden, 2).double()
    if h.device != bank.bias.device:
        raise ValueError(f"Expected hidden vectors on {bank.bias.device}, where the head is, but got {h.device}")
    if h.shape[1] != bank.dim:
        raise ValueError(f"Expected hidden vectors of dimension {bank.dim}, as the head's, but got {h.shape[1]}")
    finite("hidden", h)
    return h


def _check_coordinate(coordinate: object) -> None:
    if coordinate not in get_args(Coordinate):
        raise ValueError(f"Expected coordinate in {list(get_args(Coordinate))}, but got {coordinate!r}")


def _stored(name: str, value: object, ndim: int) -> Tensor:
    """A tensor of one of the dtypes that a head may be stored in, without its graph and with its values."""
    if isinstance(value, list | tuple):
        value = torch.tensor(value, dtype=torch.float64)
    if isinstance(value, np.ndarray):
        value = torch.as_tensor(value)
    if not isinstance(value, Tensor):
        raise TypeError(f"Expected {name} to be a tensor or a NumPy array, but got {type(value).__name__}")
    if value.dtype not in _DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
        raise TypeError(f"Expected {name} in one of {names}, but got {value.dtype}")
    if value.ndim != ndim:
        raise ValueError(f"Expected {name} with {ndim} dimensions, but got shape {tuple(value.shape)}")
    return value.detach()
