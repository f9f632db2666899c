"""How much memory a piece of work takes above what was there before: resident pages, watched from a second thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["peak_of"]

Result = TypeVar("Result")


def _resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def peak_of(work: Callable[[], Result]) -> tuple[Result, int]:
    """What the work returns, and the most bytes that were resident meanwhile above those before."""
    before, peak, done = _resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, _resident())
            time.sleep(0.0005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        result = work()
    finally:
        done.set()
        thread.join()
    return result, max(peak - before, 0)
