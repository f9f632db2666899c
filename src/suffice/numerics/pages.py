"""Memory that stays with the process between two calls, in place of a page fault for every page of every tensor."""

from __future__ import annotations

from functools import cache

import torch

__all__ = ["keep_pages"]

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
