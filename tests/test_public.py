"""The public surface is what `__all__` says, sorted, and importing it does nothing else."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import suffice as sf

# reached from public records, and not public themselves: what an execution is made of
NOT_PUBLIC = {"ClassTable", "Executed", "ExecutedRealized", "HeadRow", "Residuals"}


def test_all_is_sorted_and_every_name_is_there() -> None:
    assert list(sf.__all__) == sorted(sf.__all__)
    assert dir(sf) == list(sf.__all__)
    for name in sf.__all__:
        value = getattr(sf, name)
        assert isinstance(value, types.ModuleType | str) or value.__name__ == name


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'suffice' has no attribute 'certifi'"):
        _ = sf.certifi  # type: ignore[attr-defined]


def test_the_stub_is_all_that_type_checkers_see() -> None:
    """Each name once, re-exported under its own name, from the module that defines it."""
    lines = Path(str(sf.__file__)).with_suffix(".pyi").read_text().splitlines()
    names = [alias for line in lines if line.startswith("from") for alias in [line.split(" import ")[1]]]
    assert all(name == f"{name.split()[0]} as {name.split()[0]}" for name in names)
    assert len(set(names)) == len(names) == len(sf.__all__) - 1
    for name, module in sf._WHERE.items():
        value = getattr(sf, name)
        assert isinstance(value, types.ModuleType) or value.__module__ == module


def test_importing_is_cheap() -> None:
    code = "import sys, suffice; print([name for name in ('torch', 'numpy', 'flint', 'jinja2') if name in sys.modules])"
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


def _public() -> dict[str, Any]:
    """Every public name, those of public modules included."""
    found = {name: getattr(sf, name) for name in sf.__all__ if name != "__version__"}
    modules = {name: value for name, value in found.items() if isinstance(value, types.ModuleType)}
    for name, module in modules.items():
        del found[name]
        found.update({f"{name}.{each}": getattr(module, each) for each in module.__all__})
    return found


def _classes(annotation: Any) -> Iterator[type]:
    """The classes of suffice that an annotation mentions."""
    if inspect.isclass(annotation) and annotation.__module__.startswith("suffice"):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _classes(part)


def _returned(value: Any) -> Iterator[type]:
    """The classes that a function returns; of a class, those of its fields, properties and methods."""
    if not inspect.isclass(value):
        yield from _classes(typing.get_type_hints(value).get("return"))
        return
    for name, annotation in typing.get_type_hints(value).items():
        if not name.startswith("_"):
            yield from _classes(annotation)
    for name, member in vars(value).items():
        inner = getattr(member, "__func__", member)
        if isinstance(member, property | cached_property):
            inner = member.fget if isinstance(member, property) else member.func
        if inspect.isfunction(inner) and (not name.startswith("_") or name in ("__iter__", "__getitem__", "__call__")):
            yield from _classes(typing.get_type_hints(inner).get("return"))


def test_what_public_names_return_is_public() -> None:
    public = _public()
    reached = {found.__name__: name for name, value in public.items() for found in _returned(value)}
    known = {value.__name__ for value in public.values() if inspect.isclass(value)}
    assert len(reached) > 20
    assert {name: where for name, where in reached.items() if name not in known | NOT_PUBLIC} == {}
    # neither set has a name too many
    assert set(reached) >= NOT_PUBLIC
    assert not NOT_PUBLIC & known
