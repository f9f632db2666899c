"""Collections: what is written is read back, exactly, in bounded memory, and can be appended to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

from suffice.cli import app
from suffice.store.importing import import_states
from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from suffice.store.writer import CollectionWriter
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


def test_batches_are_bounded_whatever_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suffice.store.parts._BATCH_BYTES", 64 * 100)
    states = make_states(1500, 4, 16)
    collection = open_collection(write(tmp_path / "c", states))
    sizes = [len(batch) for batch in collection]
    assert max(sizes) <= 100
    assert sum(sizes) == 1500
    assert torch.equal(torch.cat([batch.states.features for batch in collection]), states.features)


def test_float32_directions_halve_the_bank_and_stay_near(tmp_path: Path) -> None:
    states = make_states(dim=256)
    with CollectionWriter(tmp_path / "c", "", directions=torch.float32) as writer:
        writer.add(states, source="s", dataset="d", run="r", step=0)
    (batch,) = open_collection(tmp_path / "c")
    assert (batch.states.bank.directions - states.bank.directions).abs().max() < 1e-7
    torch.testing.assert_close(batch.states.bank.directions.norm(dim=1), torch.ones(6, dtype=torch.float64))


def test_an_unfinished_collection_says_so_and_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "c"
    CollectionWriter(path, "p").add(make_states(5), source="s", dataset="d", run="r", step=0)
    with pytest.raises(CollectionError, match="1 parts with 5 states are complete; open with partial=True"):
        open_collection(path)
    assert len(open_collection(path, partial=True)) == 5
    (path / "queries" / "part-00001.parquet.partial").write_bytes(b"half")
    with CollectionWriter(path, "", append=True) as writer:
        writer.add(make_states(4, seed=1), source="s", dataset="d", run="r", step=1)
    assert not list(path.rglob("*.partial"))
    collection = open_collection(path)
    collection.validate()
    assert len(collection) == 9
    assert collection.provenance == "p"
    with pytest.raises(FileExistsError, match="give append=True"):
        CollectionWriter(path, "p")


def test_writer_refuses_bad_ids(tmp_path: Path) -> None:
    writer = CollectionWriter(tmp_path / "c", "")
    for ids in (["a", "a"], ["a"], ["a", ""]):
        with pytest.raises(ValueError, match="Expected 2 different ids"):
            writer.add(make_states(2), source="s", dataset="d", run="r", step=0, ids=ids)
    with pytest.raises(ValueError, match="at least one state"):
        writer.add(make_states(2)[:0], source="s", dataset="d", run="r", step=0)


def test_digest_is_of_the_content(tmp_path: Path) -> None:
    one, two = (open_collection(write(tmp_path / name, make_states())) for name in "ab")
    assert one.digest == two.digest
    assert one.digest != open_collection(write(tmp_path / "c", make_states(seed=1))).digest


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
def test_import(tmp_path: Path, suffix: str) -> None:
    states = make_states(11)
    tensors = {
        "features": states.features.float(),
        "labels": states.labels,
        "directions": states.bank.directions,
        "concentrations": states.bank.concentrations,
        "biases": states.bank.biases,
        "temperature": torch.tensor([0.1], dtype=torch.float64),
    }
    path = tmp_path / f"mine{suffix}"
    if suffix == ".npz":
        np.savez(path, **{name: tensor.numpy() for name, tensor in tensors.items()})
    elif suffix == ".safetensors":
        safetensors.torch.save_file(tensors, path)
    else:
        torch.save(tensors, path)
    assert import_states(path, tmp_path / "c", source="me") == 11
    (batch,) = open_collection(tmp_path / "c")
    assert torch.equal(batch.states.features, states.features)
    assert batch.source == ["me"] * 11
    assert batch.run[0] == "mine"


def test_import_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no such file"):
        import_states(tmp_path / "x.npz", tmp_path / "c")
    np.savez(tmp_path / "few.npz", features=np.zeros((2, 8)))
    with pytest.raises(CollectionError, match="there is no labels, directions, concentrations, temperature"):
        import_states(tmp_path / "few.npz", tmp_path / "c")
    (tmp_path / "x.csv").write_text("1,2")
    with pytest.raises(CollectionError, match=r"ends in \.npz, \.safetensors or \.pt"):
        import_states(tmp_path / "x.csv", tmp_path / "c")
    np.savez(tmp_path / "pickled.npz", features=np.array([{"a": 1}], dtype=object))
    with pytest.raises(CollectionError, match="allow_pickle"):
        import_states(tmp_path / "pickled.npz", tmp_path / "c")
    torch.save({"features": Path("evil")}, tmp_path / "evil.pt")
    with pytest.raises(CollectionError, match="content"):
        import_states(tmp_path / "evil.pt", tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_info_command(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(7), make_states(9, dim=16, seed=3))
    runner = CliRunner()
    shown = runner.invoke(app, ["states", "info", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "16 states, 2 banks" in shown.output
    record = json.loads(runner.invoke(app, ["states", "info", str(path), "--json"]).stdout)
    assert record["states"] == 16
    assert {group["dim"] for group in record["groups"]} == {8, 16}
    (path / "manifest.json").write_text("{")
    broken = runner.invoke(app, ["states", "info", str(path)])
    assert broken.exit_code == 3
    assert "not JSON" in broken.output


def test_import_command(tmp_path: Path) -> None:
    states = make_states(4)
    np.savez(
        tmp_path / "m.npz",
        features=states.features,
        labels=states.labels,
        directions=states.bank.directions,
        concentrations=states.bank.concentrations,
        temperature=np.float64(0.2),
    )
    arguments = ["states", "import", str(tmp_path / "m.npz"), "--out", str(tmp_path / "c")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "4 states written" in done.output
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert CliRunner().invoke(app, ["states", "import", str(tmp_path / "no.npz"), "--out", "x"]).exit_code == 3


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
