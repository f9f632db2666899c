"""The list of mutants is about the source as it is, and names tests that there are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import ROOT, Mutant, StaleMutantError, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_no_mutant_is_stale(mutant: Mutant) -> None:
    text = mutated(mutant)
    assert text != (ROOT / "src" / "suffice" / mutant.file).read_text()
    compile(text, mutant.file, "exec")
    assert mutant.why
    assert bool(mutant.kills) != bool(mutant.argued)


def test_names_are_used_once() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_every_named_test_exists() -> None:
    wanted = {test for mutant in MUTANTS for test in mutant.kills}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *sorted(wanted)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stdout[-2000:]
    collected = found.stdout.splitlines()
    assert all(any(line == test or line.startswith(f"{test}[") for line in collected) for test in wanted)


def test_a_stale_mutant_is_an_error() -> None:
    gone = Mutant(name="gone", file="numerics/rounding.py", old="no such text", new="", why="it is not there")
    with pytest.raises(StaleMutantError, match=r"expected 1 of its old text, but numerics/rounding\.py has 0"):
        mutated(gone)
    unsaid = Mutant(
        name="unsaid", file="numerics/rounding.py", old="x / (1 - x)", new="x", why="none", argued="it is so"
    )
    with pytest.raises(StaleMutantError, match="its argument is in no comment"):
        mutated(unsaid)
