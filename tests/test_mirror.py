"""Tests mirror the source: every module has a test file of its name at the same place."""

from __future__ import annotations

from pathlib import Path

import suffice as sf

TESTS, SOURCE = Path(__file__).parent, Path(str(sf.__file__)).parent


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
    assert {module for module in modules if not _tested(module)} == set()
