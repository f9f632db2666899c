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


_HOLES = """
import sys, torch
from suffice.numerics.pages import give_back_pages, keep_pages

def resident():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096

keep_pages()
blocks, small = [], []
for _ in range(12):
    blocks.append(torch.ones(1 << 19, dtype=torch.float64))
    small.append(torch.ones(8))
blocks.clear()
before = resident()
if "give" in sys.argv:
    give_back_pages()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_what_is_free_between_blocks_that_are_not_is_given_back() -> None:
    """48 MiB in 12 blocks, behind each of which something small is kept."""

    def given_back(*words: str) -> int:
        ran = subprocess.run([sys.executable, "-c", _HOLES, *words], capture_output=True, text=True, check=True)
        return int(ran.stdout)

    assert given_back("give") > 32 << 20
    assert given_back() < 1 << 20
