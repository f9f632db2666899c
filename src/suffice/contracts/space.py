"""Working memory that is used again: in a large eager expression it is what costs, not arithmetic."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

__all__ = ["Space", "kept_space"]

# Past this many entries a buffer is not kept for the next call.
_MOST_KEPT = 1 << 18


class Space:
    """Named buffers of rows by classes."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def __call__(self, name: str, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """The buffer of that name in the shape of `like`, with anything in it; it is the same at the next call."""
        key = (name, like.dtype if dtype is None else dtype, like.device)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < like.numel():
            # what is made in inference mode cannot be written to outside of it, where the next call may be
            with torch.inference_mode(mode=False):
                buffer = torch.empty(like.numel(), dtype=key[1], device=like.device)
            if like.numel() <= _MOST_KEPT:
                self._buffers[key] = buffer
        return buffer[: like.numel()].view(like.shape)


_OF_THREAD = threading.local()


def kept_space() -> Space:
    """The thread's own, which stays until it ends: at most 2 MiB a name."""
    space: Space | None = getattr(_OF_THREAD, "space", None)
    if space is None:
        space = _OF_THREAD.space = Space()
    return space
