"""Two audits side by side, as people see them: words at a terminal, and a page in a real browser."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, sync_playwright

import suffice as sf
from suffice.audits.comparison import Comparison, compare_audits
from suffice.reports import comparison
from suffice.reports.comparison import answer, comparison_record, print_comparison, write_comparison_page
from suffice.reports.console import PlainConsole
from tests.support.collections import make_states

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
HOSTILE = "</script><!--<script>\x1b[31m[red]"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("compared")
    with sf.CollectionWriter(folder / "c", "compared") as writer:
        for seed, dim in enumerate((16, 64)):
            ids = [f"{HOSTILE}/{seed}/{i}" for i in range(30)]
            writer.add(make_states(30, 6, dim, seed), source=f"s{seed}", dataset="d", run=HOSTILE, step=0, ids=ids)
    sf.audit(folder / "c", sf.Budgets(loss=1e-3, gradient=1e-3), out=folder / "loose", page=False)
    sf.audit(folder / "c", sf.Budgets(loss=1e-4, gradient=1e-4), out=folder / "tight", order=1, page=False)
    return compare_audits(folder / "loose", folder / "tight")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def test_the_terminal_says_what_changed(found: Comparison) -> None:
    sink = io.StringIO()
    print_comparison(found, PlainConsole(width=140, file=sink))
    text = sink.getvalue()
    assert f"{found.changes['lost']} lost their certificate" in text
    assert "order: 2 -> 1" in text
    assert "loss: 0.001 -> 0.0001" in text
    assert f"median {found.factors('headroom').median:.3g}" in text
    # shown, and never obeyed
    assert "\x1b" not in text
    assert "[red]" in text
    assert f"and {len(found.changed()) - 20} more" in text


def test_nothing_changed(found: Comparison) -> None:
    same = compare_audits(found.before.path, found.before.path)
    assert answer(same).startswith("No state changed sides")
    sink = io.StringIO()
    print_comparison(same, PlainConsole(width=140, file=sink))
    assert "whose verdict changed" not in sink.getvalue()


def test_the_record_is_json(found: Comparison) -> None:
    record = json.loads(json.dumps(comparison_record(found), allow_nan=False))
    assert record["states"] == 60
    assert record["lost"] == found.changes["lost"]
    assert [each["id"] for each in record["changed"]] == found.columns["id"][found.changed()].tolist()
    assert record["differs"]["order"] == [2, 1]


@needs_browser
@pytest.mark.parametrize(
    "options",
    [{"viewport": {"width": 1280, "height": 900}}, {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}],
    ids=["wide", "phone"],
)
def test_the_page(browser: Browser, found: Comparison, tmp_path: Path, options: dict[str, object]) -> None:
    path = write_comparison_page(found, tmp_path)
    page = browser.new_page(**options)  # type: ignore[arg-type]
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: None if request.url[:5] in ("file:", "data:") else troubles.append(request.url))
    page.goto(f"file://{path}")
    page.wait_for_selector("body[data-ready=yes]")
    for name, number in found.changes.items():
        assert page.inner_text(f"#n-{name}") == str(number)
    changed = found.columns["id"][found.changed()].tolist()
    assert page.locator("#t-changed td:first-child").all_text_contents() == changed[:20]
    page.click("#after")
    assert page.locator("#t-changed td:first-child").first.text_content() == changed[20]
    assert "page=2" in page.url
    assert page.get_attribute("#c-b", "data-points") == str(found.factors("b").count)
    page.select_option("#f-dim", "64")
    some = found.columns["dim"][found.changed()] == 64
    assert page.inner_text("#shown") == "30 of 60 states shown"
    assert page.locator("#t-changed tr").count() == min(20, int(some.sum()))
    other = browser.new_page()
    other.goto(page.url)
    other.wait_for_selector("body[data-ready=yes]")
    assert other.inner_text("#shown") == "30 of 60 states shown"
    other.close()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert troubles == []
    page.close()


def test_of_many_states_some_are_drawn(found: Comparison, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(comparison, "MOST_POINTS", 20)
    monkeypatch.setattr(comparison, "MOST_LISTED", 7)
    rows, drawn, listed = comparison._picked(found)
    assert drawn == 20
    assert rows[:20].tolist() == list(range(0, 60, 3))
    assert rows[np.array(listed)].tolist() == found.changed()[:7].tolist()
    assert len(set(rows.tolist())) == len(rows)
    text = write_comparison_page(found, tmp_path).read_text()
    assert "one state in 3" in text
    assert "the 7 states that moved most" in text
    assert HOSTILE not in text
