"""Collections: what is written is read back, exactly, in bounded memory, and can be appended to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from suffice.store.reader import open_collection
from tests.support.collections import make_states, write


@pytest.mark.parametrize("single", [True, False])
def test_round_trip_is_exact(tmp_path: Path, single: bool) -> None:
    states = make_states(single=single)
    collection = open_collection(write(tmp_path / "c", states))
    collection.validate()
    (batch,) = collection
    assert torch.equal(batch.states.features, states.features)
    assert torch.equal(batch.states.labels, states.labels)
    assert torch.equal(batch.states.temperature, states.temperature)
    for name in ("directions", "concentrations", "biases"):
        assert torch.equal(getattr(batch.states.bank, name), getattr(states.bank, name)), name
    column = pq.read_table(tmp_path / "c" / collection.parts[0]).column("feature")
    assert {len(feature) for feature in column.to_pylist()} == {(4 if single else 8) * 8}
    assert collection.manifest.version == 2
    assert collection.kinds == ["contrastive"]
    assert batch.ids[3] == "a:0:3"
    assert batch.step == [0] * 20


def test_many_banks_dimensions_and_parts(tmp_path: Path) -> None:
    parts = [make_states(7, 3, 5, 1), make_states(3000, 9, 16, 2), make_states(7, 3, 5, 1)]
    collection = open_collection(write(tmp_path / "c", *parts))
    collection.validate()
    assert len(collection) == 3014
    # the first and the third part share a bank
    assert len(collection.banks) == 2
    dims = [batch.states.bank.dim for batch in collection]
    assert dims == [5, 16, 5]
    assert sum(len(batch) for batch in collection) == 3014


def test_digest_is_of_the_content(tmp_path: Path) -> None:
    one, two = (open_collection(write(tmp_path / name, make_states())) for name in "ab")
    assert one.digest == two.digest
    assert one.digest != open_collection(write(tmp_path / "c", make_states(seed=1))).digest


_PEAK = """
import resource, sys
import suffice as sf
collection = sf.open_collection(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(len(batch) for batch in collection)
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_reading_takes_bounded_memory(tmp_path: Path) -> None:
    small, large = make_states(40_000, 4, 64), make_states(40_000, 4, 64, single=False)
    peaks = []
    for name, parts in (("one", [small]), ("many", [small, large, make_states(40_000, 4, 64, 5), large])):
        path = write(tmp_path / name, *parts)
        done = subprocess.run([sys.executable, "-c", _PEAK, path], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.split()[1]))
    # 160,000 states against 40,000; a batch holds at most 8 MiB of features
    assert peaks[1] < 1.5 * peaks[0] + 60_000
