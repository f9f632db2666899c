"""Programs that were really compiled: one of its own for every key, and an error where torch ran another instead."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

__all__ = ["has_compiler", "run_compiled", "traced_constant"]

# Sizes vary, but how loops are shared among threads is decided by those that are seen first: not for small tensors and
# large ones alike.
_LARGE = 1 << 16

Found = TypeVar("Found")
Function = TypeVar("Function", bound=Callable[..., Any])


def traced_constant(function: Function) -> Function:
    """`torch.compiler.assume_constant_result` without importing the compiler, which takes longer than torch itself.

    The mark is all that torch's own function leaves; a test holds the two against each other.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def has_compiler() -> bool:
    """Whether there is a C++ compiler, which torch.compile needs on a CPU."""
    return _has_compiler(os.environ.get("PATH"), shutil.which)


@cache
def _has_compiler(_path: str | None, which: Callable[[str], str | None]) -> bool:
    """Looked for once a search path: it takes as long as a small program."""
    return which("g++") is not None or which("clang++") is not None


def run_compiled(program: Callable[..., Found], constants: tuple[Hashable, ...], inputs: tuple[Tensor, ...]) -> Found:
    """program(*constants, *inputs) as torch.compile compiles it, and an error where torch ran another one instead.

    Past its limit of recompilations, with its compiler switched off, or where it suppresses a compiler's errors, torch
    runs the eager program without a word.
    """
    if not has_compiler():
        raise RuntimeError(
            "Expected a C++ compiler for compiled=True, but found neither g++ nor clang++; use compiled=False"
        )
    # values at which a program is traced anew are its own: torch allows a function few recompilations
    large = inputs[0].numel() >= _LARGE
    found, was_compiled = _compiled(program, constants, inputs[0].dtype, large)(*inputs)
    if not was_compiled:
        raise RuntimeError(
            "Expected torch.compile to compile the program, but torch ran the eager one instead (its limit of "
            "recompilations, torch.compiler.set_stance or TORCHDYNAMO_DISABLE); call torch.compiler.reset(), or use "
            "compiled=False"
        )
    result: Found = found
    return result


@cache
def _compiled(program: Callable[..., Any], constants: tuple[Hashable, ...], dtype: torch.dtype, large: bool) -> Any:
    @traced_constant
    def held() -> tuple[Hashable, ...]:
        # a float that a closure holds would be an input of the compiled code, and its square a power in every loop
        return constants

    def with_proof(*inputs: Tensor) -> tuple[Any, bool]:
        # a constant of the trace: true in compiled code, and false wherever this line is run as it stands
        return program(*held(), *inputs), torch.compiler.is_compiling()

    # recompilations are counted by code object
    words = "_".join(str(word) for word in (program.__name__, *constants, dtype, large))
    with_proof.__code__ = with_proof.__code__.replace(co_name=re.sub(r"\W", "_", words))
    return torch.compile(with_proof, dynamic=True)
