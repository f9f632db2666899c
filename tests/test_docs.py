"""What the documents say is true: cited labels, sections and names exist, examples run, tables are the code's."""

from __future__ import annotations

import doctest
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest
import typer

import suffice as sf
from benchmarks.endpoint_table import GAPS, endpoint_errors
from suffice import cli

ROOT = Path(__file__).resolve().parent.parent
NOTATION = ROOT / "docs" / "notation.md"
CHAPTERS = sorted((ROOT / "docs" / "theory").glob("[0-9]*.md"))
LABEL = re.compile(r"\b(?:sec|eq|prop|thm|app|fig|tab):[A-Za-z0-9][A-Za-z0-9-]*")

# chapters have one digit or two: 3.8, 11.2b
_NUMBER = r"(?:1\d|[1-9])(?:\.\d{1,2}[a-z]?)?(?![\d.]*\d)"
_SECTION = r"(?:1[0-2]|[3-9])\.\d{1,2}[a-z]?(?![\d.]*\d)(?!\s*%)"
# "docs/theory, 6.6 and 8.2", with .md or without, in a sentence or in brackets
CITED = re.compile(rf"\btheory(?:\.md)?`?,\s+(?:section\s+)?({_NUMBER}(?:(?:,|,?\s+and|\s+to)\s+{_NUMBER})*)")
# "(8.2)", "(8.3, 8.4)", "(6.11 lists every place)": not the arguments of a call
BRACKETED = re.compile(rf"(?<![\w\])}}$])\(({_SECTION}(?:(?:,|\s+and|\s+to)\s+{_SECTION})*)")
# "as in 6.10", "of 8.2 to 8.5"
IN_WORDS = re.compile(rf"\b(?:as in|in|of|by|see|section|from)\s+({_SECTION}(?:(?:,|\s+and|\s+to)\s+{_SECTION})*)")
# "11.6a with these", wherever it stands: a number with a letter is no decimal, but a power of ten or a format of one
LETTERED = re.compile(r"(?<![\w.$\\{:-])((?:1[0-2]|[1-9])\.\d{1,2}[a-h])(?![\w}]|[.+-]\d)")
PROPOSITION = re.compile(rf"\bPropositions?\s+({_NUMBER}(?:(?:,|\s+and|\s+to)\s+{_NUMBER})*)")


def _sources() -> list[Path]:
    code = [*ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")]
    return [*code, *ROOT.glob("docs/*.md"), *CHAPTERS, *ROOT.glob("*.md")]


def test_every_cited_label_exists() -> None:
    known = set((ROOT / "docs" / "labels.txt").read_text().split())
    cited = {(path.name, label) for path in _sources() for label in LABEL.findall(path.read_text())}
    assert len(cited) > 20
    assert {(name, label) for name, label in cited if label not in known} == set()


@cache
def _sections() -> frozenset[str]:
    """The numbers of all chapters, sections and propositions; a section's propositions are named after it."""
    found = set()
    for chapter in CHAPTERS:
        section = ""
        for line in chapter.read_text().splitlines():
            if heading := re.match(r"#+ (\d+(?:\.\d+)?)\.? ", line):
                section = heading[1]
                assert section not in found, f"{section} is there twice"
                found.add(section)
            if proposition := re.match(r"\*\*(?:Proposition|Lemma) (\S+?)\.?(?:\*\*| )", line):
                assert re.fullmatch(rf"{re.escape(section)}[a-z]?", proposition[1]), f"{proposition[1]} in {section}"
                found.add(proposition[1])
    return frozenset(found)


def _words(path: Path) -> str:
    """What a person reads: all of a document, the comments and strings of a program."""
    text = path.read_text()
    if path.suffix != ".py":
        return text
    kinds = (tokenize.COMMENT, tokenize.STRING)
    return "\n".join(t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in kinds)


def _references(text: str, *, in_words: bool = False) -> set[str]:
    patterns = (CITED, BRACKETED, PROPOSITION, *((IN_WORDS, LETTERED) if in_words else ()))
    return {number for pattern in patterns for match in pattern.findall(text) for number in re.findall(_NUMBER, match)}


def test_references_are_found_in_every_form() -> None:
    for text in (
        "docs/theory, 3.8",
        "(docs/theory, 3.8)",
        "`docs/theory`, 3.8",
        "(theory, 3.8)",
        "docs/theory, 3.2 and 3.8",
        "docs/theory, 3.2 to 3.8",
        "a slope\n    (3.8) of",
        "(3.2, 3.8)",
        "by Proposition 3.8",
    ):
        assert "3.8" in _references(text), text
        assert "3.8" not in _sections()
    assert _references("the length of 8.7") == set()
    assert _references("the length of 8.7", in_words=True) == {"8.7"}
    for text in ("log1p(3.8)", "x[0](3.8)", "(3.875)", "theory, 1974", "(0.5)"):
        assert _references(text, in_words=True) == set(), text
    # chapters of two digits, whole and in part
    for text in ("(docs/theory, 11.9)", "(theory, 10.2 and 11.9)", "a run (11.9)", "by Proposition 11.9", "as in 11.9"):
        assert "11.9" in _references(text, in_words=True), text
        assert "11.9" not in _sections()
    assert _references("(theory, 11)") == {"11"} <= _sections()
    # with a letter, anywhere
    for text in ("*Proof.* 11.6z is no proposition, 11.6g with these is", "and 11.6g.", "11.6g, 3.1"):
        assert _references(text, in_words=True) == {"11.6g"}, text
        assert "11.6g" not in _sections()
    for text in ("3.14e-06", "{seconds:7.1f} s", "1.01u", "-3.2e", "1.2.3a"):
        assert _references(text, in_words=True) == set(), text


def test_every_cited_section_exists() -> None:
    paths = [path for path in [*_sources(), *ROOT.glob("tests/**/*.py")] if path != Path(__file__)]
    cited = {
        (str(path.relative_to(ROOT)), number)
        for path in paths
        # elsewhere a number after a preposition is mostly a number
        for number in _references(_words(path), in_words=path in (*CHAPTERS, NOTATION) or "src" in path.parts)
    }
    assert len(cited) > 100
    assert {(name, number) for name, number in cited if number not in _sections()} == set()


def test_chapters_are_numbered_without_gaps() -> None:
    assert [int(chapter.name[:2]) for chapter in CHAPTERS] == list(range(1, len(CHAPTERS) + 1))
    listed = re.findall(r"^(\d+)\. \[", (ROOT / "docs" / "theory" / "index.md").read_text(), flags=re.MULTILINE)
    assert [int(number) for number in listed] == list(range(1, len(CHAPTERS) + 1))


def test_every_proposition_has_its_proof() -> None:
    for chapter in CHAPTERS:
        parts = re.split(r"^(?=\*\*Proposition |#)", chapter.read_text(), flags=re.MULTILINE)
        for part in parts:
            if part.startswith("**Proposition"):
                assert "*Proof.*" in part, part.splitlines()[0]
                assert "∎" in part, part.splitlines()[0]


def test_every_cited_equation_exists() -> None:
    texts = [re.sub(r"\$\$.*?\$\$|\$[^$]*\$|```.*?```", "", path.read_text(), flags=re.DOTALL) for path in CHAPTERS]
    tags = {tag for path in CHAPTERS for tag in re.findall(r"\\tag\{(\d+)\}", path.read_text())}
    assert {number for text in texts for number in re.findall(r"(?<!\w)\((\d+)\)", text)} <= tags


PAGES = (
    "README.md",
    "docs/distributions.md",
    "docs/guide.md",
    "docs/heads.md",
    "docs/judging.md",
    "docs/primitives.md",
    "docs/training.md",
    "docs/format.md",
    "docs/migrating.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str) -> None:
    blocks = re.findall(r"```python\n(>>> .*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks):
        test = doctest.DocTestParser().get_doctest(block, namespace, f"{page} block {number}", page, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, clear_globs=False)
        namespace = test.globs
        assert runner.failures == 0


def test_no_page_with_examples_is_left_out() -> None:
    with_examples = {path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if "\n>>> " in path.read_text()}
    assert {str(path.relative_to(ROOT)) for path in with_examples} == set(PAGES)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


def test_the_commands_that_are_shown_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(r"^make ([a-z-]+)", readme, flags=re.MULTILINE)
    assert shown == ["demo", "test"]
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *CHAPTERS]:
        assert set(re.findall(r"`make ([a-z-]+)`", path.read_text())) <= targets, path


def test_readme_leads_to_every_command() -> None:
    commands = vars(typer.main.get_command(cli.app))["commands"]
    assert "](docs/commands.md)" in (ROOT / "README.md").read_text()
    page = (ROOT / "docs" / "commands.md").read_text()
    shown = {tuple(words) for words in re.findall(r"^suffice (\w+)(?: (\w+)\b(?! ?\]))?", page, flags=re.MULTILINE)}
    assert {words[0] for words in shown} == set(commands)
    for name, command in commands.items():
        if below := vars(command).get("commands"):
            assert {words[1] for words in shown if words[0] == name} == set(below)


def test_the_links_of_the_documents_lead_somewhere() -> None:
    # mkdocs checks those of the site
    for path in ROOT.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
            assert target.startswith("https://") or (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_endpoint_table_is_what_the_code_makes() -> None:
    text = (ROOT / "docs" / "theory" / "07-measured.md").read_text()
    table = text.split("<!-- endpoint table -->")[1].split("<!-- end -->")[0]
    rows = [[float(cell) for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    assert [row[0] for row in rows] == list(GAPS)
    for gap, *documented in rows:
        # the last digits depend on the machine's libm
        assert list(endpoint_errors(gap)) == pytest.approx(documented, rel=1.0)


def test_the_api_page_has_every_public_name() -> None:
    entries = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "reference.md").read_text(), flags=re.MULTILINE)
    assert sorted(entries) == sorted(f"suffice.{name}" for name in sf.__all__)


def test_the_site_is_strict_and_offline() -> None:
    configuration = (ROOT / "mkdocs.yml").read_text()
    lines = configuration.splitlines()
    for line in ("strict: true", "site_dir: build/site", "  font: false", "  - docs/site_hooks.py"):
        assert line in lines
    assert "://" not in configuration
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(r"^docs: .*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
    assert recipe is not None
    assert "mkdocs build --strict" in recipe[1]
    # members are shown, with methods and attributes that have no docstring
    assert "            show_if_no_docstring: true" in lines


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("**/*.md")}
    assert listed == {page for page in pages if not page.startswith(("reproduction/tables", "runs"))}
