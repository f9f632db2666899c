"""Results of chunks put together: records of tensors and arrays, one entry a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

__all__ = ["joined"]

Record = TypeVar("Record")


def joined(parts: Sequence[Record], **given: Any) -> Record:
    """One record of the parts' entries, in their order; what is no tensor or array is that of the first part.

    `given` fields are taken as they are.
    """

    def whole(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], Tensor):
            return torch.cat(values)
        return np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]

    first: Any = parts[0]
    return type(parts[0])(**{each.name: given.get(each.name, whole(each.name)) for each in fields(first)})
