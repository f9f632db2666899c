"""Records of chunks put together: one entry a state, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suffice.numerics.records import joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    values: Tensor
    rows: Tensor
    words: np.ndarray[Any, Any]
    scope: str
    maybe: Tensor | None = None


def _part(start: int, count: int, scope: str = "analytic", maybe: bool = False) -> Found:
    values = torch.arange(start, start + count, dtype=torch.float64)
    return Found(
        values=values,
        rows=values[:, None].repeat(1, 3),
        words=np.array([f"{'x' * i}" for i in range(start, start + count)]),
        scope=scope,
        maybe=values if maybe else None,
    )


def test_entries_in_their_order() -> None:
    whole = joined([_part(0, 2), _part(2, 1), _part(3, 4)])
    assert type(whole) is Found
    assert whole.values.tolist() == list(range(7))
    assert whole.rows.shape == (7, 3)
    # words of later chunks may be longer than those of the first
    assert whole.words.tolist() == ["x" * i for i in range(7)]
    assert whole.maybe is None


def test_what_is_no_array_is_the_firsts() -> None:
    assert joined([_part(0, 1, "execution"), _part(1, 1)]).scope == "execution"


def test_given_fields_are_taken_as_they_are() -> None:
    whole = joined([_part(0, 2), _part(2, 2)], scope="both", values=torch.zeros(1))
    assert (whole.scope, whole.values.tolist()) == ("both", [0.0])
    assert len(whole.words) == 4


def test_one_part_is_itself_and_optional_tensors_are_joined() -> None:
    part = _part(0, 3, maybe=True)
    whole = joined([part])
    assert torch.equal(whole.values, part.values)
    both = joined([part, _part(3, 1, maybe=True)])
    assert both.maybe is not None
    assert both.maybe.tolist() == [0, 1, 2, 3]
