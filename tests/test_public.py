"""The public surface is what `__all__` says, sorted, and importing it does nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

import suffice as sf


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert list(sf.__all__) == sorted(sf.__all__)
    assert dir(sf) == list(sf.__all__)
    for name in sf.__all__:
        value = getattr(sf, name)
        assert isinstance(value, types.ModuleType | str) or value.__name__ == name


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'suffice' has no attribute 'certifi'"):
        _ = sf.certifi  # type: ignore[attr-defined]


def test_types_and_names_are_the_same() -> None:
    tree = ast.parse(Path(str(sf.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    found = {
        alias.name: str(node.module).removeprefix("suffice").removeprefix(".")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = dict.fromkeys(sf._MODULES, "")
    assert found == {**sf._MODULE_OF, **modules}
    assert {*found, "__version__"} == set(sf.__all__)


def test_importing_is_cheap() -> None:
    code = "import sys, suffice; print([name for name in ('torch', 'numpy', 'flint', 'plotly') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_importing_changes_no_global_setting() -> None:
    code = (
        "import torch; before = (torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed());"
        "import flint; bits = flint.ctx.prec; import suffice; [getattr(suffice, name) for name in suffice.__all__];"
        "assert (torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed()) == before;"
        "assert flint.ctx.prec == bits; print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "ok", done.stderr
