"""Memory that stays: what the allocator takes from the system for one block, in a process of its own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, sys, torch
from suffice.numerics.pages import keep_pages

class Statistics(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Statistics
if "keep" in sys.argv:
    keep_pages()
before = library.mallinfo2().hblkhd
# 24 MiB, more than anything so far
block = torch.ones(3 << 20, dtype=torch.float64)
print(library.mallinfo2().hblkhd - before)
"""


def _from_the_system(*words: str) -> int:
    """Bytes that go back to the system as soon as they are freed."""
    ran = subprocess.run([sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True, check=True)
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_blocks_are_taken_from_memory_that_stays() -> None:
    assert _from_the_system("keep") == 0
    assert _from_the_system() >= 3 << 23
