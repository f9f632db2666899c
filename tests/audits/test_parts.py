"""Batches in parts: all rows, whole chunks, and the columns of the whole batch in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.audits.parts import Gathered, parts_of
from suffice.audits.plan import Plan
from suffice.audits.rows import audit_states
from suffice.realizations.executed.realization import Execution
from suffice.store.reader import Batch
from tests.support.summed import mixed_states

PLAN = Plan(loss=1e-5, gradient=1e-5)


def _batch(chunk: int) -> Batch:
    states = mixed_states()
    object.__setattr__(states, "chunk", chunk)
    count = len(states)
    words = [""] * count
    rows = list(range(count))
    return Batch(
        states=states, ids=words, source=words, dataset=words, run=words, step=rows, rows=rows, bank="", part=""
    )


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_parts_are_whole_chunks_and_all_rows(chunk: int, most: int) -> None:
    batch = _batch(chunk)
    parts = list(parts_of(iter([batch]), PLAN, most))
    assert 1 <= len(parts) <= most
    assert [part.index for part in parts] == list(range(len(parts)))
    assert all(part.count == len(parts) and part.batch is batch for part in parts)
    assert torch.equal(torch.cat([part.states.features for part in parts]), batch.states.features)
    assert all(len(part.states) % chunk == 0 for part in parts[:-1])
    assert len(parts) == (1 if most == 1 or chunk == 100 else len(parts))
    assert sum(part.weight for part in parts) == len(batch) * batch.states.num_classes
    if most > 1 and chunk == 1:
        assert len(parts) > 1


def test_what_is_executed_stays_whole() -> None:
    executed = Plan(loss=1e-5, gradient=1e-5, scope="execution")
    assert isinstance(executed.realization, Execution)
    (part,) = parts_of(iter([_batch(1)]), executed, 4)
    assert part.states is part.batch.states


@pytest.mark.parametrize("backwards", [False, True])
def test_columns_are_those_of_the_whole_batch(backwards: bool) -> None:
    """To the last bit, in whatever order the parts come, beside those of another batch."""
    batches = [_batch(2), _batch(3)]
    finished: list[tuple[Batch, dict[str, Any]]] = []
    gathered = Gathered(lambda batch, columns: finished.append((batch, columns)))
    parts = list(parts_of(iter(batches), PLAN, 4))
    assert len(parts) > 3
    for part in parts[::-1] if backwards else parts:
        gathered(part, audit_states(part.states, PLAN))
    assert [id(batch) for batch, _ in finished] == [id(each) for each in (batches[::-1] if backwards else batches)]
    for batch, columns in finished:
        whole = audit_states(batch.states, PLAN)
        assert columns.keys() == whole.keys()
        for name, wanted in whole.items():
            assert columns[name].dtype == wanted.dtype, name
            assert np.array_equal(columns[name], wanted, equal_nan=wanted.dtype.kind == "f"), name


def test_parts_of_words_are_as_wide_as_the_whole() -> None:
    finished: list[Any] = []
    gathered = Gathered(lambda _batch, columns: finished.append(columns))
    one, other = parts_of(iter([_batch(3)]), PLAN, 2)
    gathered(other, {"tier": np.array(["enclosure"])})
    assert not finished
    gathered(one, {"tier": np.array(["open"])})
    assert finished[0]["tier"].tolist() == ["open", "enclosure"]


def test_no_states_are_one_part() -> None:
    batch = _batch(2)[[]]
    (part,) = parts_of(iter([batch]), PLAN, 4)
    assert part.weight == 0
    assert isinstance(part.states, sf.States)
