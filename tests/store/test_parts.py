"""States as the bytes of a part, and back in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from suffice.store.reader import open_collection
from tests.support.collections import make_states, write


def test_batches_are_bounded_whatever_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suffice.store.parts._BATCH_BYTES", 64 * 100)
    states = make_states(1500, 4, 16)
    collection = open_collection(write(tmp_path / "c", states))
    sizes = [len(batch) for batch in collection]
    assert max(sizes) <= 100
    assert sum(sizes) == 1500
    assert torch.equal(torch.cat([batch.states.features for batch in collection]), states.features)
