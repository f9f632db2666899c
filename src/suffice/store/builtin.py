"""The collections that ship with the package: states of models trained on real images (docs/states.md)."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from suffice.store.reader import Collection, open_collection

__all__ = ["builtin_collection", "builtin_path"]

_NAMES = ("contrastive", "supervised")


def builtin_path(name: str = "contrastive") -> Path:
    """Where a shipped collection is."""
    return Path(str(files("suffice.store") / "builtin_states" / name))


def builtin_collection(name: str = "contrastive") -> Collection:
    """The 5,120 shipped states of the contrastive objective, or with "supervised" some of the second objective.

    States of one run are not independent of each other.
    """
    if name not in _NAMES:
        raise ValueError(f"Expected name in {list(_NAMES)}, but got {name!r}")
    collection = open_collection(builtin_path(name))
    collection.builtin = name == "contrastive"
    return collection
