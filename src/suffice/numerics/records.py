"""Results of chunks put together: records of tensors and arrays, one entry a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

__all__ = ["in_order", "joined"]

Record = TypeVar("Record")


def joined(parts: Sequence[Record], **given: Any) -> Record:
    """One record of the parts' entries, in their order; what is no tensor or array is that of the first part.

    `given` fields are taken as they are.
    """

    def whole(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], Tensor):
            # (a copy also of a single one: it may have been made where nothing is differentiated)
            return values[0].clone() if len(values) == 1 else torch.cat(values)
        return np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]

    first: Any = parts[0]
    return type(parts[0])(**{each.name: given.get(each.name, whole(each.name)) for each in fields(first)})


def in_order(record: Record, runs: Sequence[Tensor]) -> Record:
    """The record with entry i of its tensors and arrays at places[i], of which each of the `runs` is in order.

    What is neither stays as it is.
    """
    if len(runs) == 1:
        return record
    places = torch.cat(list(runs))
    if bool((places[1:] > places[:-1]).all()):
        return record
    back = places.argsort()

    def moved(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value[back]
        return value[back.numpy(force=True)] if isinstance(value, np.ndarray) else value

    whole: Any = record
    return type(record)(**{each.name: moved(getattr(whole, each.name)) for each in fields(whole)})
