"""A pytest plugin for runs on a mutant: the mutant's package must be the one imported, and must run at all."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

__all__ = ["BROKEN"]

# no exit status of pytest's own
BROKEN = 19
# what a badly written mutant raises, and no test about bounds waits for
_SLIPS = (NameError, ImportError, SyntaxError, AttributeError)
_slipped = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Stop unless `suffice` comes from the folder that SUFFICE_MUTANT names."""
    spec = importlib.util.find_spec("suffice")
    wanted = Path(os.environ["SUFFICE_MUTANT"]).resolve()
    if spec is None or spec.origin is None or wanted not in Path(spec.origin).resolve().parents:
        pytest.exit(f"Expected suffice in {wanted}, but got {spec}", returncode=BROKEN)
    config.stash[_slipped] = False


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Remember a failure that is a slip of the pen."""
    if call.excinfo is not None and issubclass(call.excinfo.type, _SLIPS):
        node.config.stash[_slipped] = True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A failure by a slip kills no mutant."""
    if session.config.stash.get(_slipped, False):
        session.exitstatus = BROKEN
