"""What is said to be compiled was: keys have programs of their own, and the eager program never passes for one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from suffice.numerics.compiling import has_compiler, run_compiled, traced_constant

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")


def shifted(power: int, shift: float, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Something to compile."""
    return {"sum": x**power + shift * y, "compiling": torch.full_like(x, float(torch.compiler.is_compiling()))}


def _inputs(rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(rows)
    return torch.rand(rows, 3, generator=g, dtype=dtype), torch.rand(rows, 3, generator=g, dtype=dtype)


@needs_compiler
def test_the_compiled_program_is_run() -> None:
    """With the constants of its key, and as torch.compile has it: the trace's constant says so."""
    x, y = _inputs(4)
    found = run_compiled(shifted, (3, 0.5), (x, y))
    assert torch.allclose(found["sum"], x**3 + 0.5 * y, rtol=1e-14)
    assert found["compiling"].eq(1).all()
    assert shifted(3, 0.5, x, y)["compiling"].eq(0).all()
    assert torch.allclose(run_compiled(shifted, (2, -1.0), (x, y))["sum"], x**2 - y, rtol=1e-14, atol=1e-15)


@needs_compiler
def test_every_key_has_recompilations_of_its_own() -> None:
    """One allowed: three keys, of which two differ in the dtype of their inputs alone, are all compiled."""
    torch.compiler.reset()
    try:
        with torch._dynamo.config.patch(recompile_limit=1):
            for constants, dtype in (
                ((2, 0.25), torch.float64),
                ((2, 0.75), torch.float64),
                ((2, 0.75), torch.float32),
            ):
                assert run_compiled(shifted, constants, _inputs(4, dtype))["compiling"].eq(1).all()
            # one row is another program: past the limit torch would run the eager one
            with pytest.raises(RuntimeError, match="its limit of recompilations"):
                run_compiled(shifted, (2, 0.25), _inputs(1))
    finally:
        torch.compiler.reset()


@needs_compiler
def test_a_compiler_that_is_switched_off() -> None:
    with torch.compiler.set_stance("force_eager"), pytest.raises(RuntimeError, match="torch ran the eager one instead"):
        run_compiled(shifted, (3, 0.125), _inputs(4))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert not has_compiler()
    with pytest.raises(RuntimeError, match=r"neither g\+\+ nor clang\+\+; use compiled=False"):
        run_compiled(shifted, (3, 0.5), _inputs(4))


def test_a_traced_constant_is_marked_as_torch_marks_it() -> None:
    def ours() -> int:
        return 1

    def theirs() -> int:
        return 1

    assert vars(traced_constant(ours)) == vars(torch.compiler.assume_constant_result(theirs))
    assert vars(ours)
