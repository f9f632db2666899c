"""The page in a real browser: no errors, no network, the summary's numbers, and filters that filter."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import suffice as sf
from suffice.reports.page import write_page
from tests.support.collections import make_states

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    with sf.CollectionWriter(folder / "c", "for the page") as writer:
        for step, (source, dim) in enumerate((("proco", 16), ("patt", 64), ("proco", 64))):
            states = make_states(15 + step, 6, dim, step)
            writer.add(states, source=source, dataset=f"data-{step % 2}", run="</script><b>r", step=step)
    sf.audit(folder / "c", BUDGETS, out=folder / "a")
    write_page(folder / "a", sf.open_collection(folder / "c"))
    return folder / "a"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("executed")
    with sf.CollectionWriter(folder / "c", "for the page") as writer:
        writer.add(make_states(15, 6, 64, 0), source="proco", dataset="data", run="r", step=0)
    sf.audit(folder / "c", BUDGETS, out=folder / "a", scope="execution", dtype="float32")
    write_page(folder / "a", sf.open_collection(folder / "c"))
    return folder / "a"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


def _open(browser: Browser, audit: Path, **options: object) -> tuple[Page, list[str]]:
    page = browser.new_page(**options)  # type: ignore[arg-type]
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: None if request.url[:5] in ("file:", "data:") else troubles.append(request.url))
    page.goto(f"file://{audit / 'report.html'}")
    page.wait_for_selector("body[data-ready=yes]")
    return page, troubles


@needs_browser
@pytest.mark.parametrize(
    "options",
    [
        {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
        {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 800}, "color_scheme": "light"},
    ],
    ids=["light", "dark", "phone"],
)
def test_page_shows_the_summary_without_errors_or_requests(
    browser: Browser, audit: Path, options: dict[str, object]
) -> None:
    page, troubles = _open(browser, audit, **options)
    record = json.loads((audit / "summary.json").read_text())
    summary = record["summary"]
    shown = {key: page.inner_text(f"#n-{key}") for key in ("states", "certified", "inconclusive", "linear")}
    assert {key: int(text) for key, text in shown.items()} == {
        "states": summary["states"],
        "certified": summary["certified"],
        "inconclusive": summary["inconclusive"],
        "linear": summary["first_order_within_1_percent"],
    }
    assert page.inner_text("#n-median") == f"{summary['b']['median']:.3g}"
    assert page.inner_text("#n-span") == f"{summary['b']['span']:.2f}"
    assert page.inner_text("#n-headroom") == f"{summary['headroom']['median']:.3g}"
    assert page.inner_text("#n-order") == str(summary["cheapest_order_for_all"] or "none")
    assert "rounding" in page.inner_text(".scope")
    assert page.locator(".chart .main-svg").count() >= 5
    # nothing is wider than the window
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("details").count() == 10
    assert troubles == []
    page.close()


@needs_browser
def test_filters_work_by_keyboard(browser: Browser, audit: Path) -> None:
    page, troubles = _open(browser, audit)
    total = json.loads((audit / "summary.json").read_text())["summary"]["states"]
    assert page.inner_text("#shown") == f"{total} of {total} states shown"
    page.focus("#f-source")
    page.keyboard.press("p")
    page.select_option("#f-source", "patt")
    assert page.inner_text("#shown") == f"16 of {total} states shown"
    drawn = "document.getElementById('c-ordered').data.reduce((n, t) => n + t.x.length, 0)"
    assert page.evaluate(drawn) == 16
    page.select_option("#f-source", "all")
    page.select_option("#f-dim", "64")
    assert page.inner_text("#shown") == f"33 of {total} states shown"
    page.focus("button[type=reset]")
    page.keyboard.press("Enter")
    # by text: a function would be evaluated in the page, which its policy refuses
    page.wait_for_selector(f"#shown:has-text('{total} of')")
    page.focus("summary")
    page.keyboard.press("Enter")
    assert page.locator("details[open] pre").first.is_visible()
    assert troubles == []
    page.close()


# each of these, in the data, would have left a blank page, or run
HOSTILE = [
    "<!--<script>",
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned=1'>",
    "]]>-->",
]


@needs_browser
def test_words_cannot_leave_their_place(browser: Browser, tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "<!--<script>") as writer:
        for step, word in enumerate(HOSTILE):
            ids = [f"{word} {step} {i}" for i in range(3)]
            writer.add(make_states(3, seed=step), source=word, dataset=word, run=word, step=step, ids=ids)
    sf.audit(tmp_path / "c", BUDGETS, out=tmp_path / "a")
    write_page(tmp_path / "a", sf.open_collection(tmp_path / "c"))
    page, troubles = _open(browser, tmp_path / "a")
    assert page.inner_text("#shown") == "12 of 12 states shown"
    assert sorted(page.eval_on_selector_all("#f-source option", "all => all.map(o => o.value)")) == sorted(
        ["all", *HOSTILE]
    )
    assert page.evaluate("window.pwned") is None
    assert troubles == []
    page.close()


@needs_browser
def test_the_page_may_run_itself_and_nothing_else(browser: Browser, audit: Path) -> None:
    page, troubles = _open(browser, audit)
    assert troubles == []
    page.evaluate(
        """() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1';
                   document.body.append(s); document.body.setAttribute('onclick', 'window.pwned = 1');
                   document.body.click(); }"""
    )
    assert page.evaluate("window.pwned") is None
    for wish in ("fetch('https://localhost/x')", "fetch('data:,x')", "import('data:text/javascript,window.pwned=1')"):
        assert page.evaluate(f"{wish}.then(() => 'done', () => 'refused')") == "refused"
    page.evaluate("() => { const i = new Image(); i.src = 'https://localhost/x.png'; document.body.append(i); }")
    page.wait_for_timeout(200)
    # the script, the handler, three wishes and the image, each refused by the policy
    assert sum("Content Security Policy" in trouble for trouble in troubles) >= 6, troubles
    assert page.evaluate("window.pwned") is None
    page.close()


def test_page_is_one_file_without_addresses(audit: Path) -> None:
    text = (audit / "report.html").read_text()
    own = text.split("<script>")[0] + text.split('id="data">')[1]
    assert "http://" not in own
    assert "https://" not in own
    # words from a collection cannot leave their place
    assert "</script><b>r" not in text


@needs_browser
def test_the_precision_ladder_is_the_summarys(browser: Browser, executed: Path) -> None:
    page, troubles = _open(browser, executed, viewport={"width": 1200, "height": 900})
    rungs = json.loads((executed / "summary.json").read_text())["summary"]["rungs"]
    shown = page.eval_on_selector_all(
        "#t-rungs tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    assert shown == [[budget, *(str(n) for n in counts.values())] for budget, counts in rungs.items()]
    assert page.locator("#c-rungs .bars path").count() > 0
    assert "rounding" in (page.text_content(".scope") or "")
    assert troubles == []
    page.close()
