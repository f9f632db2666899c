"""JSON files that are not believed: bounded, plain, and each key once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["is_text", "read_strictly"]

_LARGEST = 64 * 2**20


def read_strictly(path: Path) -> Any:
    """What a JSON file holds; a ValueError in a few words if it is too large, malformed, or says a key twice."""
    size = path.stat().st_size
    if size > _LARGEST:
        raise ValueError(f"{size} bytes, more than {_LARGEST}")
    try:
        return json.loads(path.read_bytes(), object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("not JSON (nested too deeply)") from None
    except ValueError as error:
        # also a number of more digits than Python converts
        raise ValueError(f"not JSON ({str(error).split(';')[0]})") from None


def is_text(value: str) -> bool:
    """Whether a string can be written: half of a surrogate pair, which JSON can spell, cannot."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are different: of two that are alike, one reader would take the first, another the last."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:80]!a} is there twice")
        found[key] = value
    return found
