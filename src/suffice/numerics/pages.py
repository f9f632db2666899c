"""Memory that stays with the process between two calls, in place of a page fault for every page of every tensor."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

import torch

__all__ = ["give_back_pages", "keep_pages"]

# A little less than the largest block that glibc learns from.
_LARGEST_LEARNT = (1 << 25) - (1 << 16)


@cache
def keep_pages() -> None:
    """Let the allocator keep up to 64 MiB of what is freed.

    glibc gives memory back as soon as twice the largest block that was freed so far is free at the end of its heap, and
    takes blocks that are larger than any so far from the system: a call on a megabyte a tensor then pays a fault for
    every page that it touches, a quarter of its time. It learns from blocks of up to 32 MiB that are freed, and
    untouched ones cost nothing. With other allocators this does nothing.
    """
    torch.empty(_LARGEST_LEARNT, dtype=torch.uint8)


def give_back_pages() -> None:
    """Give back what is free between blocks that are not.

    A small result that outlives a run may lie where a large block was, which the next one of that size then does not
    fit into: of megabytes a tensor the heap grows with the number of runs. With other allocators this does nothing.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
