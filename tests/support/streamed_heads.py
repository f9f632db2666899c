"""Streams over the classes of heads that are small enough for exact arithmetic."""

from __future__ import annotations

import pytest

from suffice.realizations import quantized, streamed

__all__ = ["small_groups"]


def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of four, tiles of a few, and no head that is too small."""
    monkeypatch.setattr(streamed, "_GROUP", 4)
    monkeypatch.setattr(streamed, "_TILE_ENTRIES", 48)
    monkeypatch.setattr(quantized, "LEAST_CLASSES", 2)
