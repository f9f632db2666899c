"""The checker shares nothing with the code that certifies."""

from __future__ import annotations

import ast
from pathlib import Path

import suffice.verify


def test_it_imports_nothing_of_the_certifying_code() -> None:
    """Only the standard library, NumPy, pyarrow and python-flint."""
    folder = Path(str(suffice.verify.__file__)).parent
    files = sorted(folder.glob("*.py"))
    assert len(files) > 10
    outside = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                if name.split(".")[0] == "suffice":
                    assert name.startswith("suffice.verify."), (path.name, name)
                outside.add(name.split(".")[0])
        assert "import_module" not in path.read_text()
        assert "__import__" not in path.read_text()
    libraries = outside - {"suffice", "__future__"}
    assert libraries & {"numpy", "pyarrow", "flint"} == {"numpy", "pyarrow", "flint"}
    standard = {"collections", "dataclasses", "fractions", "functools", "hashlib", "itertools", "json", "math"}
    standard |= {"pathlib", "random", "re", "statistics", "struct", "sys", "typing"}
    assert libraries - standard == {"numpy", "pyarrow", "flint"}
