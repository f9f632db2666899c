"""Many classes: what a user calls takes as much memory at many states as at few."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.wide import CALLS, peak_megabytes

# Of 64 states one tensor of all classes has 24 MB, and a contract some sixty of them; a chunk has 8 states.
_MOST = 400


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the high-water mark is Linux's")
@pytest.mark.parametrize("call", CALLS)
def test_memory_at_fifty_thousand_classes_is_bounded(call: str) -> None:
    few, many = (peak_megabytes(call, queries, 16) for queries in (16, 64))
    assert many < _MOST
    assert many < 1.2 * few + 20
