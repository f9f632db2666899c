"""Audits of head states on disk, and the checker's two ways to look at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import suffice as sf
from suffice.verify import Report, verify_audit

__all__ = ["BUDGETS", "both", "made"]

BUDGETS = sf.Budgets(loss=1e-9, probability=1e-9, gradient=1e-8, kl=1e-18, prediction=True)


def made(folder: Path, states: sf.HeadStates, budgets: sf.Budgets, **asked: Any) -> tuple[Path, Path]:
    """An audit of some states, and their collection."""
    with sf.CollectionWriter(folder / "c", "made by a test") as writer:
        writer.add(states, source="test", dataset="heads", run="a", step=0)
    sf.audit(folder / "c", budgets, out=folder / "a", **asked)
    return folder / "a", folder / "c"


def both(audit: Path, collection: Path) -> list[Report]:
    """What is found by a sample, and by looking at everything."""
    sampled = verify_audit(audit, collection, sample=100, seed=0)
    return [sampled, verify_audit(audit, collection, sample=1, seed=0, everything=True)]
