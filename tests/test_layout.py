"""How the tests are laid out: no test file imports another, and the reference only public names of suffice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import suffice as sf

ROOT = Path(__file__).parent


def _imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The modules that a file imports, and the names from each; imports inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            yield str(node.module), [alias.name for alias in node.names]


def test_no_test_imports_another() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        for module, _ in _imports(path):
            parts = module.split(".")
            if parts[0] == "tests" and parts[-1].startswith(("test_", "conftest")):
                wrong.append((path.relative_to(ROOT).as_posix(), module))
    assert wrong == []


def test_the_reference_knows_only_public_names() -> None:
    files = sorted((ROOT / "reference").glob("*.py"))
    assert len(files) >= 5
    for path in files:
        for module, names in _imports(path):
            if module.split(".")[0] == "suffice":
                assert module == "suffice", path
                assert set(names) <= set(sf.__all__), path
            assert module.split(".")[0] != "tests" or module.startswith("tests.reference"), path
        # `import suffice as sf`, and then names without an underscore that are public
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sf":
                assert node.attr in sf.__all__, (path, node.attr)
