"""The collections that ship with the package: states of models trained on real data (docs/states.md)."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from suffice.store.reader import Collection, open_collection

__all__ = ["NAMES", "builtin_collection", "builtin_path"]

# "first" is a manifest of its own in the folder of the default, whose files it shares
_PATHS = {
    "contrastive": "contrastive",
    "first": "contrastive/first.json",
    "supervised": "supervised",
    "language": "language",
}
NAMES = tuple(_PATHS)


def builtin_path(name: str = "contrastive") -> Path:
    """Where a shipped collection is: its folder, or its manifest."""
    return Path(str(files("suffice.store") / "builtin_states" / _PATHS[name]))


def builtin_collection(name: str = "contrastive") -> Collection:
    """The 5,120 shipped states of the contrastive objective: images and words, few classes and thousands.

    "first" gives the 5,120 of the first release (100 and 968 classes), "supervised" some of the second objective,
    "language" 1,024 next tokens of a small language model with a linear head.
    States of one run are not independent of each other.
    """
    if name not in NAMES:
        raise ValueError(f"Expected name in {list(NAMES)}, but got {name!r}")
    collection = open_collection(builtin_path(name))
    collection.builtin = name == "contrastive"
    return collection
