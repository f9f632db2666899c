"""A writer killed at a random moment, fifty times: every part that it had finished is there, whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from suffice.store.writer import CollectionWriter
from tests.support.collections import make_states

# imports once, then forks a writer for each path that it is given, and prints its process id
_SERVER = """
import os, sys
from suffice.store.writer import CollectionWriter
from tests.support.collections import make_states
parts = [make_states(40, seed=seed) for seed in range(4)]
for line in sys.stdin:
    path = line.strip()
    child = os.fork()
    if not child:
        progress = open(path + ".progress", "w")
        writer = CollectionWriter(path, "killed")
        for step in range(100_000):
            writer.add(parts[step % 4], source="s", dataset="d", run="r", step=step)
            progress.write("part\\n")
            progress.flush()
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


def _finished(path: Path) -> int:
    progress = path.with_name(path.name + ".progress")
    return progress.read_text().count("\n") if progress.exists() else 0


def _opened(path: Path, finished: int) -> bool:
    """Check one collection; whether there was any."""
    if not (path / "manifest.json").exists():
        assert finished == 0
        with pytest.raises(CollectionError, match=r"stopped before the first part|no such folder"):
            open_collection(path, partial=True)
        return False
    collection = open_collection(path, partial=True)
    collection.validate()
    # a part may be complete though its writer did not get to say so
    assert finished <= len(collection.parts) <= finished + 1
    assert [len(batch) for batch in collection] == [40] * len(collection.parts)
    with pytest.raises(CollectionError, match="the writer did not close it"):
        open_collection(path)
    return True


def test_fifty_kills(tmp_path: Path) -> None:
    chance = random.Random(3407)
    root = Path(__file__).resolve().parents[2]
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    opened = 0
    for number in range(50):
        path = tmp_path / str(number)
        server.stdin.write(f"{path}\n")
        server.stdin.flush()
        process = int(server.stdout.readline())
        time.sleep(chance.uniform(0.0, 0.12))
        os.kill(process, signal.SIGKILL)
        assert server.stdout.readline() == "gone\n"
        opened += _opened(path, _finished(path))
        if number % 10 == 0:
            with CollectionWriter(path, "", append=True) as writer:
                writer.add(make_states(3), source="s", dataset="d", run="again", step=0)
            open_collection(path).validate()
    server.communicate(timeout=30)
    assert opened > 25
