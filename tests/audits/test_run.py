"""The audit as a whole: its folder is never mixed, and a killed run ends in the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.audits.plan import Plan
from suffice.audits.run import result_batches, run_audit
from suffice.cli import app
from tests.support.collections import change_column, make_states, rewrite_part, set_row, write

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)


def _collection(path: Path) -> Path:
    return write(path, make_states(30, 6, 16, 0), make_states(20, 12, 64, 1), make_states(10, 6, 16, 2))


def _digests(folder: Path) -> dict[str, str]:
    files = sorted((folder / "results").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_another_question_is_never_mixed_in(tmp_path: Path) -> None:
    path = _collection(tmp_path / "c")
    sf.audit(path, BUDGETS, out=tmp_path / "a")
    before = _digests(tmp_path / "a")
    for changed in ({"order": 3}, {"contract": "conditioned"}, {"skip_bad": True}):
        with pytest.raises(FileExistsError, match="holds the audit of another question"):
            sf.audit(path, BUDGETS, out=tmp_path / "a", **changed)  # type: ignore[arg-type]
    with pytest.raises(FileExistsError, match="choose another --out"):
        sf.audit(path, sf.Budgets(loss=2e-4, gradient=1e-3), out=tmp_path / "a")
    other = write(tmp_path / "d", make_states(5))
    with pytest.raises(FileExistsError, match="or collection"):
        sf.audit(other, BUDGETS, out=tmp_path / "a")
    sf.audit(path, BUDGETS, out=tmp_path / "a")
    assert _digests(tmp_path / "a") == before


def test_bad_rows_stop_the_audit_or_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(20))
    rewrite_part(path, change_column("label", set_row(4, 99)))
    with pytest.raises(sf.CollectionError, match="row 4, label"):
        sf.audit(path, BUDGETS, out=tmp_path / "a")
    result = sf.audit(path, BUDGETS, out=tmp_path / "b", skip_bad=True)
    assert result.summary.states == 19
    assert result.summary.bad_rows == 1
    runner = CliRunner()
    shown = runner.invoke(app, ["audit", str(path), "--out", str(tmp_path / "d"), "--skip-bad", "--loss", "1"])
    assert "1 bad rows set aside" in shown.output
    assert shown.exit_code == 1
    assert runner.invoke(app, ["audit", str(path), "--out", str(tmp_path / "e")]).exit_code == 3


# imports once, then forks an audit for each line
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


@contextlib.contextmanager
def _server() -> Iterator[subprocess.Popen[str]]:
    """The process that forks audits. Always ended and closed: left open, it would fail whichever test runs next."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as server:
        try:
            yield server
        finally:
            server.kill()


def _run(server: subprocess.Popen[str], collection: Path, out: Path, kill: tuple[int, float] | None = None) -> int:
    """The exit status of one audit; killed so many seconds after it has so many result files, if told so."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{collection} {out}\n")
    server.stdin.flush()
    process = int(server.stdout.readline())
    if kill is not None:
        files, delay = kill
        # by what is there and not by a clock, so that a busy machine is stopped in the middle as well
        while len(list((out / "results").glob("*.parquet"))) < files and not (out / "summary.json").exists():
            time.sleep(0.001)
        time.sleep(delay)
        # it may have finished just before
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return int(server.stdout.readline())


def _kill_and_resume(tmp_path: Path, kills: int) -> int:
    """How many of the kills came in the middle of an audit; after each, the resumed audit must end the same."""
    path = write(tmp_path / "c", *(make_states(6, 5, 16, seed) for seed in range(25)))
    chance = random.Random(3407)
    stopped = 0
    with _server() as server:
        assert _run(server, path, tmp_path / "whole") == 0
        expected = _digests(tmp_path / "whole")
        assert len(expected) == 25
        for number in range(kills):
            out = tmp_path / str(number)
            killed = _run(server, path, out, (chance.randrange(24), chance.uniform(0, 0.02)))
            had = len(list((out / "results").glob("*.parquet"))) if (out / "results").exists() else 0
            stopped += killed != 0 and 0 < had < 25
            assert _run(server, path, out) == 0
            assert _digests(out) == expected
            record = json.loads((out / "summary.json").read_text())
            assert record["summary"]["states"] == 150
    return stopped


def test_a_killed_audit_ends_with_the_same_bytes(tmp_path: Path) -> None:
    assert _kill_and_resume(tmp_path, 4) >= 1


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    assert _kill_and_resume(tmp_path, 20) >= 6


def test_results_open_with_what_people_have(tmp_path: Path) -> None:
    sf.audit(_collection(tmp_path / "c"), BUDGETS, out=tmp_path / "a")
    table = pq.read_table(tmp_path / "a" / "results")
    assert table.num_rows == 60
    assert {"id", "b", "binding", "headroom", "verdict", "tier", "cheapest_order"} <= set(table.column_names)


def test_float32_certifies_less_than_float64(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(30, 6, 64, 0))
    counts, tiers = {}, {}
    for dtype in ("float32", "float64"):
        budgets = sf.Budgets(loss=1e-6, gradient=1e-6)
        audit = sf.audit(collection, budgets, out=tmp_path / dtype, scope="execution", dtype=dtype, order=6)
        counts[dtype] = audit.summary.certified
        assert audit.scope == "execution"
        tiers[dtype] = audit.summary.tiers
    assert counts["float64"] == 30
    assert counts["float32"] < 30
    # no bound certifies float32 at any order of summation; single outputs may be right all the same
    assert set(tiers["float32"]) == {"enclosure of this output"}


def test_progress_results_and_what_the_audit_says_of_itself(tmp_path: Path) -> None:
    """Told once a batch, also of batches that an earlier run has finished; shown once, in order."""
    collection = sf.open_collection(_collection(tmp_path / "c"))
    plan = Plan(loss=1e-4, gradient=1e-3)
    for _ in range(2):
        ticks: list[int] = []
        ids: list[str] = []
        found = run_audit(
            collection, plan, tmp_path / "a", tick=ticks.append, each=lambda part, ids=ids: ids.extend(part["id"])
        )
        assert ticks == [30, 20, 10]
        assert ids == [name for batch in collection for name in batch.ids]
        assert (found.plan, found.path, found.scope) == (plan, tmp_path / "a", "analytic")
    record = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert record["run"]["collection"] == str(collection.path)
    assert record["plan"] == plan.record()
    assert record["fingerprint"] == plan.fingerprint(collection.digest, sf.__version__, False)


def test_batches_are_cut_to_result_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the collection is read; bad rows are told once a part."""
    monkeypatch.setattr("suffice.audits.run._ROWS", 7)
    path = write(tmp_path / "c", make_states(20), make_states(4, seed=1))
    rewrite_part(path, change_column("label", set_row(4, 99)))
    noted = []
    batches = list(
        result_batches(
            sf.open_collection(path), skip_bad=True, note=lambda part, bad: noted.append((part[-13:], len(bad)))
        )
    )
    assert [len(batch) for batch in batches] == [7, 7, 5, 4]
    assert [row for batch in batches[:3] for row in batch.rows] == [row for row in range(20) if row != 4]
    assert noted == [("00000.parquet", 1), ("00001.parquet", 0)]
