"""Run tests on changed copies of the package, and judge by how pytest ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import ROOT, SOURCE, Mutant, StaleMutantError, mutated

__all__ = ["FAILED", "PASSED", "Outcome", "baseline", "judge"]

PASSED, FAILED = 0, 1
# large, and data: linked instead of copied
_LINKED = "builtin_states"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """killed, SURVIVED, argued, stale, broken or timeout; only the first and the third are as they should be."""

    name: str
    verdict: str
    seconds: float
    detail: str

    @property
    def fine(self) -> bool:
        return self.verdict in ("killed", "argued")


def judge(mutant: Mutant, timeout: float) -> Outcome:
    """Change a copy of the package and run the mutant's tests on it."""
    began = time.perf_counter()

    def outcome(verdict: str, detail: str) -> Outcome:
        return Outcome(name=mutant.name, verdict=verdict, seconds=time.perf_counter() - began, detail=detail)

    try:
        text = mutated(mutant)
    except StaleMutantError as error:
        return outcome("stale", str(error))
    if mutant.argued:
        return outcome("argued", mutant.argued)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = _copy(Path(folder))
        (source / mutant.file).write_text(text)
        status, output = _pytest(source, mutant.kills, timeout)
    if status is None:
        return outcome("timeout", f"more than {timeout:g} s")
    if status == PASSED:
        return outcome("SURVIVED", mutant.why)
    # exit 1 alone means that tests ran and failed: imports and usage end otherwise
    failed = [line.split(" ")[1] for line in output.splitlines() if line.startswith("FAILED ")]
    if status == FAILED and failed:
        return outcome("killed", failed[0])
    return outcome("broken", f"pytest ended with {status}: {' '.join(output.split())[-300:]}")


def baseline(tests: Iterable[str], timeout: float) -> str:
    """Empty if all tests pass on an unchanged copy, else what pytest says."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        status, output = _pytest(_copy(Path(folder)), tuple(tests), timeout)
    return "" if status == PASSED else f"pytest ended with {status}:\n{output[-3000:]}"


def _copy(folder: Path) -> Path:
    target = folder / "suffice"
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__", _LINKED))
    for data in SOURCE.rglob(_LINKED):
        (target / data.relative_to(SOURCE)).symlink_to(data)
    return target


def _pytest(source: Path, tests: tuple[str, ...], timeout: float) -> tuple[int | None, str]:
    """How pytest ended, None if it did not in time, and its output."""
    changes = {
        "PYTHONPATH": str(source.parent),
        "SUFFICE_MUTANT": str(source.parent),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.plugin", "-rf", "--tb=short")
    # temporary folders of its own: pytest tidies up those that it shares, under the feet of others
    options += (f"--basetemp={source.parent / 'tmp'}",)
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env={**os.environ, **changes},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            # its own session: what the tests have started goes with it
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
    return process.returncode, output
