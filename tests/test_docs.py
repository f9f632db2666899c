"""The documentation is true: labels exist, README examples run, the documented table is what the code makes."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

from benchmarks.endpoint_table import GAPS, endpoint_errors

ROOT = Path(__file__).resolve().parent.parent
LABEL = re.compile(r"\b(?:sec|eq|prop|thm|app|fig|tab):[A-Za-z0-9][A-Za-z0-9-]*")


def _sources() -> list[Path]:
    return [*ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("*.md")]


def test_every_cited_label_exists() -> None:
    known = set((ROOT / "docs" / "labels.txt").read_text().split())
    cited = {(path.name, label) for path in _sources() for label in LABEL.findall(path.read_text())}
    assert len(cited) > 20
    assert {(name, label) for name, label in cited if label not in known} == set()


def test_readme_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, namespace, f"README block {number}", "README.md", 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, clear_globs=False)
        namespace = test.globs
        assert runner.failures == 0


def test_readme_shows_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def test_the_endpoint_table_is_what_the_code_makes() -> None:
    text = (ROOT / "docs" / "theory.md").read_text()
    table = text.split("<!-- endpoint table -->")[1].split("<!-- end -->")[0]
    rows = [[float(cell) for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    assert [row[0] for row in rows] == list(GAPS)
    for gap, *documented in rows:
        # the last digits depend on the machine's libm
        assert list(endpoint_errors(gap)) == pytest.approx(documented, rel=1.0)


def test_the_api_page_is_what_the_docstrings_say() -> None:
    specification = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert (ROOT / "docs" / "api.md").read_text() == module.api_page()
