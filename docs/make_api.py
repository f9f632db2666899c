"""Write docs/api.md from the docstrings of what `import suffice` offers: `python docs/make_api.py`."""

from __future__ import annotations

import inspect
import types
from pathlib import Path

import suffice as sf

__all__ = ["api_page"]


def _signature(value: object) -> str:
    return str(inspect.signature(value)).replace("'", "") if callable(value) else ""


def _entry(name: str, value: object) -> str:
    doc = inspect.getdoc(value) or ""
    kind = "class " if inspect.isclass(value) else ""
    return f"### `{kind}{name}{_signature(value)}`\n\n{doc}\n"


def api_page() -> str:
    """Every public name in order; the names of the submodules under their own headings."""
    parts = ["# API\n\nMade by `python docs/make_api.py` from the docstrings; a test compares.\n"]
    modules = {name: getattr(sf, name) for name in sf.__all__ if isinstance(getattr(sf, name), types.ModuleType)}
    for name in sf.__all__:
        value = getattr(sf, name)
        if name not in modules and not name.startswith("__"):
            parts.append(_entry(f"suffice.{name}", value))
    for module_name, module in modules.items():
        parts.append(f"## suffice.{module_name}\n\n{inspect.getdoc(module)}\n")
        parts += [_entry(f"suffice.{module_name}.{name}", getattr(module, name)) for name in module.__all__]
    return "\n".join(parts)


if __name__ == "__main__":
    (Path(__file__).parent / "api.md").write_text(api_page())
