"""How accurate is accurate enough? Certified numerical adequacy at learning states.

Names are resolved when they are first used (PEP 562), so that importing costs next to nothing. They are listed once, in
the stub beside this file.
"""

import ast as _ast
from importlib import import_module as _import_module
from importlib.metadata import version as _version
from pathlib import Path as _Path
from typing import Any as _Any

_STUB = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
# name -> the module that has it; "suffice" itself has its public modules
_WHERE = {
    alias.name: str(node.module) for node in _STUB.body if isinstance(node, _ast.ImportFrom) for alias in node.names
}

__all__ = sorted([*_WHERE, "__version__"])


def __getattr__(name: str) -> _Any:
    """A public name, from the module that has it; kept, so that this happens once."""
    if name == "__version__":
        value: _Any = _version("suffice")
    elif name not in _WHERE:
        raise AttributeError(f"module 'suffice' has no attribute {name!r}")
    elif _WHERE[name] == "suffice":
        value = _import_module(f"suffice.{name}")
    else:
        value = getattr(_import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
