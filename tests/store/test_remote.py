"""Collections and audits at an address: as on disk, by hashes, bytes and what is refused; kills included."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.store import remote
from tests.support.collections import make_states, write
from tests.support.s3 import bucket_files, bucket_names, s3_bucket

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)
# these say when the audit was made and how long it took
TIMED = ("summary.json", "digests.json", "report.html")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_bucket(tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture(params=["s3", "file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address of each kind: pyarrow's S3, pyarrow's own disk, fsspec."""
    if request.param == "file":
        return f"file://{tmp_path}/there"
    name = f"{request.node.name}-{tmp_path.name}".replace("[", "-").replace("]", "")
    return f"memory://{name}" if request.param == "memory" else f"{request.getfixturevalue('s3')}/{name}"


def _local_files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _there(address: str) -> dict[str, bytes]:
    return _local_files(remote.local_path(address, whole=True))


def test_a_collection_is_written_and_read_as_on_disk(place: str, tmp_path: Path) -> None:
    parts = (make_states(7, 5, 16, 0), make_states(4, 6, 8, 1))
    write(tmp_path / "here", *parts)
    write(place, *parts)  # type: ignore[arg-type]
    assert _there(place) == _local_files(tmp_path / "here")
    here, there = sf.open_collection(tmp_path / "here"), sf.open_collection(place)
    assert there.digest == here.digest
    there.validate()
    for one, other in zip(here, there, strict=True):
        assert (one.states.features == other.states.features).all()
    with pytest.raises(FileExistsError, match=f"{place} is a collection already"):
        sf.CollectionWriter(place, "again")
    with sf.CollectionWriter(place, "", append=True) as writer:
        writer.add(parts[0], source="test", dataset="random", run="b", step=2)
    assert len(sf.open_collection(place)) == len(here) + 7


def test_files_are_fetched_when_they_are_read(s3: str) -> None:
    address = f"{s3}/lazy"
    write(address, make_states(5), make_states(6, seed=1))  # type: ignore[arg-type]
    collection = sf.open_collection(Path(address))
    assert {path.name for path in collection.folder.rglob("*") if path.is_file()} == {"manifest.json"}
    next(iter(collection.read_part(collection.parts[1])))
    assert not (collection.folder / collection.parts[0]).exists()
    assert (collection.folder / collection.parts[1]).exists()


def test_few_files_are_kept(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"{s3}/many"
    write(address, *(make_states(5, seed=seed) for seed in range(4)))  # type: ignore[arg-type]
    monkeypatch.setattr(remote, "_KEPT", 1)
    collection = sf.open_collection(address)
    collection.validate()
    assert len([path for path in collection.folder.rglob("*") if path.is_file()]) == 1
    collection.validate()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content[:-1], "size: .* bytes, but the manifest says .* truncated"),
        (lambda content: content[:40] + bytes([content[40] ^ 1]) + content[41:], "sha256: .* it was altered"),
        (None, "file: it is missing, but the manifest lists it"),
    ],
    ids=["truncated", "altered", "missing"],
)
def test_what_is_not_as_it_was_written_is_refused(place: str, change: object, words: str) -> None:
    write(place, make_states(5))  # type: ignore[arg-type]
    part = "queries/part-00000.parquet"
    folder = remote.local_path(place, whole=True)
    content = (folder / part).read_bytes()
    remote.remove(folder / part)
    if callable(change):
        remote.put_at(place, part, change(content))
    with pytest.raises(sf.CollectionError, match=f"{place}/{part}: {words}"):
        sf.open_collection(place).validate()


def test_an_audit_has_the_bytes_of_one_on_disk(place: str, tmp_path: Path) -> None:
    states = (make_states(30, 6, 16, 0), make_states(10, 6, 8, 1))
    write(tmp_path / "c", *states)
    write(f"{place}/c", *states)  # type: ignore[arg-type]
    here = sf.audit(tmp_path / "c", BUDGETS, out=tmp_path / "a")
    there = sf.audit(f"{place}/c", BUDGETS, out=f"{place}/a")
    found, wanted = _there(f"{place}/a"), _local_files(tmp_path / "a")
    assert set(found) == set(wanted)
    for name in wanted:
        assert found[name] == wanted[name] or name in TIMED
    assert json.loads(found["summary.json"])["run"]["collection"] == f"{place}/c"
    assert there.summary == here.summary
    assert f"Audit('{place}/a': " in repr(there)
    # the same question goes on, another is refused
    sf.audit(f"{place}/c", BUDGETS, out=f"{place}/a")
    with pytest.raises(FileExistsError, match=f"{place}/a holds the audit of another question"):
        sf.audit(f"{place}/c", BUDGETS, out=f"{place}/a", order=3)


def test_a_folder_of_someone_else_is_refused(place: str, tmp_path: Path) -> None:
    write(tmp_path / "c", make_states(5))
    remote.put_at(place, "thesis.tex", b"years of work")
    with pytest.raises(FileExistsError, match=r"holds 'thesis\.tex', which is not of this audit"):
        sf.audit(tmp_path / "c", BUDGETS, out=place)
    folder = remote.local_path(place)
    assert remote.remote_size(folder / "thesis.tex") == 13
    # it is known by its name, and not fetched
    assert not (folder / "thesis.tex").exists()


def test_the_commands_take_addresses(s3: str) -> None:
    address = f"{s3}/commands"
    write(f"{address}/c", make_states(12))  # type: ignore[arg-type]
    run = CliRunner().invoke
    found = run(app, ["audit", f"{address}/c", "--out", f"{address}/a", "--loss", "1e-3"])
    assert found.exit_code in (0, 1), found.output
    assert f"{address}/a/report.html" in found.output.replace("\n", "")
    assert {"audit.json", "summary.json", "digests.json", "report.html"} <= set(bucket_files(f"{address}/a"))
    assert run(app, ["verify", f"{address}/a", "--sample", "3"]).exit_code == 0
    assert run(app, ["states", "info", f"{address}/c"]).exit_code == 0
    name = next(iter(sf.open_collection(f"{address}/c"))).ids[0]
    found = run(app, ["inspect", f"{address}/a", name])
    assert found.exit_code == 0, found.output
    found = run(app, ["compare", f"{address}/a", f"{address}/a", "--out", f"{address}/compared"])
    assert found.exit_code == 0, found.output
    assert set(bucket_files(f"{address}/compared")) == {"report.html"}
    found = run(app, ["states", "info", f"{address}/nothing"])
    assert found.exit_code == 3
    assert f"{address}/nothing/manifest.json" in found.output.replace("\n", "")


def test_outputs_are_judged_at_addresses(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/there"
    states = make_states(6)
    write(f"{address}/c", states)  # type: ignore[arg-type]
    np.savez(tmp_path / "outputs.npz", loss=sf.reference(states).loss.mid.numpy())
    asked = ["judge", f"{address}/c", str(tmp_path / "outputs.npz"), "--loss", "1e-9", "--out", f"{address}/j"]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    assert f"{address}/j/report.html" in found.output.replace("\n", "")
    names = {path.name for path in (tmp_path / "there" / "j").iterdir()}
    assert names == {"judged.parquet", "judgement.json", "report.html"}


def test_figures_are_drawn_on_this_machine() -> None:
    found = CliRunner().invoke(app, ["reproduce", "--out", "s3://bucket/figures"])
    assert found.exit_code == 2
    assert "expected a folder of this machine" in " ".join(found.output.split())


def test_an_address_of_no_kind_is_a_mistake_of_usage() -> None:
    found = CliRunner().invoke(app, ["states", "info", "nowhere://bucket/states"])
    assert found.exit_code == 2
    assert "nowhere://bucket/states cannot be opened" in " ".join(found.output.split())


def test_secrets_are_not_told() -> None:
    folder = remote.local_path("memory://user:secret@somewhere/states")
    assert remote.shown(folder / "manifest.json") == "memory://somewhere/states/manifest.json"
    assert remote.address_of(folder) == "memory://user:secret@somewhere/states"


def test_one_who_comes_second_finds_the_same_file(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes put one file: the other has moved it meanwhile."""
    address = f"{s3}/twice"
    remote.put_at(address, "a.json", b"{}")
    files, root = remote._opened(address)

    class Late:
        def move(self, source: str, _path: str) -> None:
            files.delete_file(source)
            raise FileNotFoundError(source)

        def __getattr__(self, name: str) -> object:
            return getattr(files, name)

    monkeypatch.setattr(remote, "_opened", lambda _: (Late(), root))
    remote.put_at(address, "a.json", b"{}")
    with pytest.raises(FileNotFoundError):
        remote.put_at(address, "b.json", b"{}")


class _Losing:
    """A file system whose streams lose what comes after some bytes, in silence or with an error."""

    def __init__(self, files: Any, error: OSError | None) -> None:
        self.files, self.error = files, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def open_output_stream(self, path: str) -> Any:
        return _Stream(self.files.open_output_stream(path), self.error)

    def open_input_stream(self, path: str) -> Any:
        return io.BytesIO(self.files.open_input_stream(path).read()[:3])


class _Stream:
    def __init__(self, stream: Any, error: OSError | None) -> None:
        self.stream, self.error = stream, error

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        # as pyarrow does: what was written is kept
        self.stream.close()

    def write(self, content: bytes) -> None:
        self.stream.write(content[:3])
        if self.error is not None:
            raise self.error


def _losing(address: str, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
    files, root = remote._opened(address)
    monkeypatch.setattr(remote, "_opened", lambda _: (_Losing(files, error), root))


def test_an_upload_that_breaks_leaves_nothing_under_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _losing(f"file://{tmp_path}/there", monkeypatch, OSError("the line is down"))
    with pytest.raises(OSError, match="the line is down"):
        remote.put_at(f"file://{tmp_path}/there", "a.json", b"content")
    assert not (tmp_path / "there" / "a.json").exists()


def test_an_upload_that_loses_bytes_is_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _losing(f"file://{tmp_path}/there", monkeypatch)
    with pytest.raises(OSError, match="3 bytes arrived, of 7; run the same command again"):
        remote.put_at(f"file://{tmp_path}/there", "a.json", b"content")
    assert not (tmp_path / "there" / "a.json").exists()


def test_a_file_that_comes_in_part_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"file://{tmp_path}/there"
    remote.put_at(address, "results/a.parquet", b"content")
    _losing(address, monkeypatch)
    with pytest.raises(OSError, match="3 bytes came, of 7"):
        remote.local_path(address, whole=True)
    folder = remote.local_path(address)
    with pytest.raises(OSError, match="3 bytes came, of 7"):
        remote.fetch(folder / "results" / "a.parquet")
    assert not (folder / "results" / "a.parquet").exists()


# imports once, then forks an audit for each line; S3 is first used in the child
_SERVER = """
import os, sys
from pathlib import Path
import suffice as sf
from suffice.audits.plan import Plan
from suffice.audits.run import run_audit
for line in sys.stdin:
    collection, out = line.split()
    child = os.fork()
    if not child:
        run_audit(sf.open_collection(collection), Plan(loss=1e-4, gradient=1e-3), Path(out))
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def _run(server: subprocess.Popen[str], collection: str, out: str, stop_at: int | None = None) -> int:
    """The exit status of one audit, killed as soon as so many results are there."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{collection} {out}\n")
    server.stdin.flush()
    process = int(server.stdout.readline())
    while stop_at is not None and len(_results(out)) < stop_at:
        time.sleep(0.01)
    if stop_at is not None:
        os.kill(process, signal.SIGKILL)
    return int(server.stdout.readline())


def _results(address: str) -> list[str]:
    return [name for name in bucket_names(address) if name.startswith("results/") and name.endswith(".parquet")]


def _kill_and_resume(address: str, parts: int, stops: tuple[int, ...]) -> None:
    write(f"{address}/c", *(make_states(6, 5, 16, seed) for seed in range(parts)))  # type: ignore[arg-type]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert _run(server, f"{address}/c", f"{address}/whole") == 0
            wanted = bucket_files(f"{address}/whole")
            assert len(_results(f"{address}/whole")) == parts
            for stop in stops:
                out = f"{address}/{stop}"
                assert _run(server, f"{address}/c", out, stop) != 0
                assert stop <= len(_results(out)) < parts
                assert _run(server, f"{address}/c", out) == 0
                found = bucket_files(out)
                assert set(found) == set(wanted)
                for name in wanted:
                    assert found[name] == wanted[name] or name in TIMED
        finally:
            server.kill()


def test_killed_audits_end_with_the_same_bytes(s3: str) -> None:
    _kill_and_resume(f"{s3}/kills", 12, (2,))


@pytest.mark.slow
def test_many_kills(s3: str) -> None:
    _kill_and_resume(f"{s3}/many-kills", 24, tuple(range(1, 13)))
