"""Tests mirror the source: every module has a test file of its name at the same place."""

from __future__ import annotations

from pathlib import Path

import suffice as sf

TESTS, SOURCE = Path(__file__).parent, Path(str(sf.__file__)).parent

# Modules without a test file of their own. This set can only shrink: an entry that has one fails the test.
PENDING = {
    "audits/plan",
    "audits/rows",
    "audits/run",
    "audits/summary",
    "certificates/certify",
    "certificates/explain",
    "numerics/checks",
    "numerics/derivatives",
    "numerics/rounding",
    "realizations/executed/program",
    "store/banks",
    "store/importing",
    "store/manifest",
    "store/summary",
    "store/writer",
    "verify/check",
    "verify/columns",
    "verify/contracts",
    "verify/cross",
    "verify/digests",
    "verify/enclosures",
    "verify/exact",
    "verify/exact_states",
    "verify/execution",
    "verify/float_contracts",
    "verify/floats",
    "verify/geometry",
    "verify/judging",
    "verify/ladder",
    "verify/layout",
    "verify/objective",
    "verify/plan",
    "verify/report",
    "verify/rows",
    "verify/stored",
    "verify/summary",
    "verify/widening",
}


def _modules() -> set[str]:
    found = {path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py")}
    return {path.as_posix() for path in found if path.name != "__init__"}


def _tested(module: str) -> bool:
    """Whether there is a test file, with a test in it."""
    path = TESTS / f"{module}.py"
    mirrored = path.with_name(f"test_{path.name}")
    return mirrored.is_file() and "\ndef test_" in mirrored.read_text()


def test_every_module_has_a_test_file() -> None:
    modules = _modules()
    assert len(modules) > 100
    assert {module for module in modules if not _tested(module)} - PENDING == set()


def test_what_is_pending_is_pending() -> None:
    modules = _modules()
    assert {module for module in PENDING if module not in modules} == set()
    assert {module for module in PENDING if _tested(module)} == set()
