"""The page in a real browser: no errors, no network, the summary's numbers, filters that filter, states that open."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import suffice as sf
from suffice.certificates.explain import class_shares
from suffice.realizations.analytic import Analytic
from suffice.reports.page import write_page
from tests.support.collections import make_states, make_supervised
from tests.support.moved_heads import gaussian_states

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)
# so tight that some states are violated, while others are certified
TIGHT = sf.Budgets(loss=1e-4, gradient=1e-4)


def _collection(folder: Path) -> Path:
    with sf.CollectionWriter(folder / "c", "for the page") as writer:
        for step, (source, dim) in enumerate((("proco", 16), ("patt", 64), ("proco", 64))):
            states = make_states(15 + step, 6, dim, step)
            writer.add(states, source=source, dataset=f"data-{step % 2}", run="</script><b>r", step=step)
    return folder / "c"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    sf.audit(_collection(folder), BUDGETS, out=folder / "a")
    write_page(folder / "a", sf.open_collection(folder / "c"))
    return folder / "a"


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tight")
    sf.audit(_collection(folder), TIGHT, out=folder / "a", order=1)
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


def _rows(audit: Path) -> dict[str, np.ndarray[Any, Any]]:
    table = pq.read_table(audit / "results")
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def _open(browser: Browser, audit: Path, fragment: str = "", **options: object) -> tuple[Page, list[str]]:
    page = browser.new_page(**options)  # type: ignore[arg-type]
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: None if request.url[:5] in ("file:", "data:") else troubles.append(request.url))
    page.goto(f"file://{audit / 'report.html'}{fragment}")
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
    assert page.locator(".chart > svg").count() == 6
    for name in ("ordered", "groups", "target"):
        assert page.get_attribute(f"#c-{name}", "data-points") == str(summary["states"])
    # nothing is wider than the window
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("#t-hardest tr").count() == 10
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
    assert page.get_attribute("#c-ordered", "data-points") == "16"
    page.select_option("#f-source", "all")
    page.select_option("#f-dim", "64")
    assert page.inner_text("#shown") == f"33 of {total} states shown"
    page.focus("button[type=reset]")
    page.keyboard.press("Enter")
    # by text: a function would be evaluated in the page, which its policy refuses
    page.wait_for_selector(f"#shown:has-text('{total} of')")
    page.focus("#t-hardest button")
    page.keyboard.press("Enter")
    assert page.locator("dialog[open] .weights").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    # arrows walk over the points of a chart, Enter opens one
    page.focus("#c-ordered")
    page.keyboard.press("ArrowRight")
    assert "b* =" in page.inner_text(".tip")
    page.keyboard.press("Enter")
    assert page.inner_text("#state-id") == page.inner_text("#t-hardest button >> nth=0")
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
    assert "http://" not in text
    assert "https://" not in text
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
    assert page.locator("#c-rungs .bar").count() > 0
    # the table follows the filters, and goes back
    wanted = _rows(executed)["id"][4]
    page.fill("#f-id", wanted)
    page.wait_for_selector("#shown:has-text('1 of')")
    one = page.eval_on_selector_all("#t-rungs tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))")
    assert [sum(map(int, line[1:])) for line in one] == [1] * len(rungs)
    rows = _rows(executed)
    for line in one:
        names, place = list(next(iter(rungs.values()))), [int(n) for n in line[1:]].index(1)
        met = [
            rows[f"loss_bound {name}"][4] <= float(line[0]) and rows[f"gradient_bound {name}"][4] <= float(line[0])
            for name in names[:-1]
        ]
        assert place == (met.index(True) if any(met) else len(met))
    page.fill("#f-id", "")
    page.wait_for_selector("#shown:has-text('15 of')")
    assert page.inner_text("#t-rungs td >> nth=1") == shown[0][1]
    assert "rounding" in (page.text_content(".scope") or "")
    assert troubles == []
    page.close()


@needs_browser
def test_states_that_are_not_certified_come_first(browser: Browser, tight: Path) -> None:
    """All of them, page by page: the farthest first, with what binds, by how much, and the next step."""
    rows = _rows(tight)
    page, troubles = _open(browser, tight)
    not_certified = rows["verdict"] != "certified"
    assert 20 < not_certified.sum() < len(not_certified)
    share = np.maximum(rows["loss_low"], rows["gradient_low"]) / 1e-4
    wanted = [rows["id"][row] for row in np.argsort(-np.where(not_certified, share, -1), kind="stable")]
    seen: list[str] = []
    while True:
        seen += page.locator("#t-open button").all_inner_texts()
        if page.is_disabled("#after"):
            break
        page.click("#after")
    assert seen == wanted[: not_certified.sum()]
    assert page.inner_text("#where").endswith(f"of {not_certified.sum()}")
    page.click("#before")
    worst = int(np.flatnonzero(rows["id"] == wanted[0])[0])
    page.goto(f"file://{tight / 'report.html'}#page=1")
    line = page.inner_text("#t-open tr >> nth=0")
    name = "loss" if rows["loss_low"][worst] > rows["gradient_low"][worst] else "gradient"
    assert "violated" in line
    assert f"{name} error" in line
    assert f"order {rows['cheapest_order'][worst]} is certified here" in line
    # above every chart
    assert page.locator("#h-open").bounding_box()["y"] < page.locator(".chart").first.bounding_box()["y"]  # type: ignore[index]
    assert troubles == []
    page.close()


@needs_browser
def test_everything_follows_the_filters_and_the_address_keeps_them(browser: Browser, tight: Path) -> None:
    rows = _rows(tight)
    page, troubles = _open(browser, tight)
    whole = {name: page.inner_text(f"#n-{name}") for name in ("states", "certified", "median", "headroom", "order")}
    table = page.inner_text("#t-groups")
    page.select_option("#f-dim", "64")
    page.select_option("#f-verdict", "not certified")
    some = (rows["dim"] == 64) & (rows["verdict"] != "certified")
    assert page.inner_text("#n-states") == str(some.sum())
    assert page.inner_text("#n-certified") == "0"
    assert float(page.inner_text("#n-median")) == pytest.approx(np.quantile(rows["b"][some], 0.5), rel=0.2)
    assert page.locator("#t-groups tr").count() == len(np.unique(rows["temperature"][some]))
    assert page.inner_text("#where").endswith(f"of {some.sum()}") or some.sum() <= 20
    assert page.get_attribute("#c-target", "data-points") == str(some.sum())
    bars = page.locator("#c-headroom .bar").count()
    assert bars > 0
    shared = page.url.split("#")[1]
    other, _ = _open(browser, tight, f"#{shared}")
    assert other.input_value("#f-dim") == "64"
    assert other.inner_text("#n-states") == str(some.sum())
    assert other.locator("#c-headroom .bar").count() == bars
    other.close()
    page.click("button[type=reset]")
    page.wait_for_selector(f"#shown:has-text('{len(some)} of')")
    assert {name: page.inner_text(f"#n-{name}") for name in whole} == whole
    assert page.inner_text("#t-groups") == table
    assert troubles == []
    page.close()


@needs_browser
def test_a_click_on_a_point_explains_its_state(browser: Browser, tight: Path) -> None:
    rows = _rows(tight)
    page, troubles = _open(browser, tight, viewport={"width": 1200, "height": 900})
    page.locator("#c-ordered svg >> nth=-1").scroll_into_view_if_needed()
    box = page.locator("#c-ordered > svg").bounding_box()
    assert box is not None
    # the first of the ordered states is near the lower left corner
    page.mouse.move(box["x"] + 60, box["y"] + box["height"] - 60)
    tip = page.inner_text(".tip").splitlines()
    row = int(np.flatnonzero(rows["id"] == tip[0])[0])
    assert tip[1].startswith(rows["verdict"][row])
    assert f"{rows['binding'][row]} binds" in tip[2]
    assert "by the centered contract" in tip[3]
    page.mouse.click(box["x"] + 60, box["y"] + box["height"] - 60)
    text = page.inner_text("dialog")
    assert page.inner_text("#state-id") == tip[0]
    assert f"suffice inspect {tight}" in text
    # the classes are those of the explanation in words, for the budget that is missed by the most
    opened = sf.open_collection(tight.parent / "c")
    batch = next(b for b in opened.read_part(rows["part"][row]) if rows["row"][row] in b.rows)
    state = batch.states[[batch.rows.index(rows["row"][row])]]
    missed = "loss" if rows["loss_low"][row] > rows["gradient_low"][row] else "gradient"
    assert f"shares of the {missed} bound" in text
    leading = class_shares(Analytic(sf.DebyePair(order=1)).at(state), missed)[0]
    assert f"class {leading.index}" in page.inner_text(".weights")
    assert f"{100 * leading.share:.1f}%" in page.inner_text(".weights")
    # the address opens it again
    again, _ = _open(browser, tight, "#" + page.url.split("#")[1])
    assert again.inner_text("#state-id") == tip[0]
    again.close()
    page.click("#close")
    assert "state=" not in page.url
    assert troubles == []
    page.close()


@needs_browser
def test_ids_are_searched(browser: Browser, tight: Path) -> None:
    page, troubles = _open(browser, tight)
    # verdicts differ here, so that they are the colours
    assert page.input_value("#f-colour") == "verdict"
    assert page.inner_text("#c-ordered .legend").split() == ["certified", "violated"]
    wanted = _rows(tight)["id"][3]
    page.fill("#f-id", wanted.upper())
    page.wait_for_selector("#shown:has-text('1 of')")
    page.press("#f-id", "Enter")
    assert page.inner_text("#state-id") == wanted
    assert troubles == []
    page.close()


@needs_browser
def test_headroom_is_that_of_the_verdicts_contract(browser: Browser, tmp_path: Path) -> None:
    """Below 1 the contract certifies nothing; who is certified there is counted, and so it is in the columns."""
    sf.audit(_collection(tmp_path), sf.Budgets(loss=1e-5, gradient=1e-5), out=tmp_path / "a", contract="conditioned")
    write_page(tmp_path / "a", sf.open_collection(tmp_path / "c"))
    rows = _rows(tmp_path / "a")
    below = (rows["headroom"] < 1) & (rows["verdict"] == "certified")
    assert below.any()
    assert set(rows["tier"][below]) == {"enclosure"}
    page, troubles = _open(browser, tmp_path / "a")
    assert page.inner_text("#n-below") == str(below.sum())
    assert "by the conditioned contract" in page.inner_text("figure:has(#c-headroom) figcaption")
    assert "headroom by the conditioned contract" in page.inner_text("#c-headroom")
    assert troubles == []
    page.close()


@needs_browser
def test_runs_are_drawn_along_their_steps(browser: Browser, tight: Path) -> None:
    page, troubles = _open(browser, tight)
    assert page.locator("#c-runs .one").count() == 1
    assert page.inner_text("#c-runs h3") == "</script><b>r"
    assert page.locator("#c-runs .band").count() == 1
    assert page.get_attribute("#c-run-0", "data-points") == "3"
    b, step = _rows(tight)["b"], _rows(tight)["step"]
    factor = np.quantile(b[step == 2], 0.5, method="nearest") / np.quantile(b[step == 0], 0.5, method="nearest")
    assert float(page.inner_text("#runs-words").rstrip(".").split()[-1]) == pytest.approx(factor, rel=0.2)
    page.select_option("#f-dataset", "data-1")
    # one step is no trajectory
    assert not page.is_visible("#runs")
    assert troubles == []
    page.close()


@needs_browser
@pytest.mark.parametrize(("kappa", "title"), [(400.0, "1 \u2212 π"), (1e-4, "probability of the target")])
def test_saturated_states_have_a_logarithmic_axis(browser: Browser, tmp_path: Path, kappa: float, title: str) -> None:
    """To all digits: where the target leaves less than an ulp of 1 the probability itself says nothing."""
    directions = np.eye(8)[:4]
    bank = sf.ClassBank(directions, [kappa] * 4)
    with sf.CollectionWriter(tmp_path / "c", "for the page") as writer:
        writer.add(sf.States(bank, directions, [0, 1, 2, 3], 0.02), source="s", dataset="d", run="r", step=0)
    sf.audit(tmp_path / "c", BUDGETS, out=tmp_path / "a")
    write_page(tmp_path / "a", sf.open_collection(tmp_path / "c"))
    page, troubles = _open(browser, tmp_path / "a")
    assert title in page.inner_text("#c-target")
    if kappa > 1:
        assert (_rows(tmp_path / "a")["target_probability"] == 1).all()
        page.click("#t-hardest button >> nth=0")
        left = page.inner_text("dialog").split("the target leaves ")[1].split(" to")[0]
        assert 0 < float(left) < 1e-16
    assert troubles == []
    page.close()


def test_the_page_is_small(tight: Path) -> None:
    assert (tight / "report.html").stat().st_size < 100_000


@needs_browser
def test_an_audit_without_states_has_a_page(browser: Browser, tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "nothing"):
        pass
    sf.audit(tmp_path / "c", BUDGETS, out=tmp_path / "a")
    page, troubles = _open(browser, tmp_path / "a", "#verdict=violated&page=7&state=none&colour=x")
    assert page.inner_text("#open-none") == "There was no state to judge."
    assert page.inner_text("#shown") == "0 of 0 states shown"
    assert page.inner_text("#c-ordered").startswith("Nothing to draw")
    assert troubles == []
    page.close()


@needs_browser
def test_an_objective_that_is_no_softmax_has_a_page(browser: Browser, tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "supervised") as writer:
        writer.add(make_supervised(9), source="s", dataset="d", run="r", step=0)
    sf.audit(tmp_path / "c", sf.Budgets(loss=1e-9), out=tmp_path / "a")
    page, troubles = _open(browser, tmp_path / "a")
    assert page.inner_text("#shown") == "9 of 9 states shown"
    page.click("#t-hardest button >> nth=0")
    # there is nothing to say class by class
    assert page.locator("dialog .weights").count() == 0
    assert "b* =" in page.inner_text("dialog")
    assert troubles == []
    page.close()


@needs_browser
def test_words_and_numbers_need_no_script(browser: Browser, tight: Path) -> None:
    """What is painted first: question, answer, numbers and the first of the states that are not certified."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{tight / 'report.html'}")
    summary = json.loads((tight / "summary.json").read_text())["summary"]
    assert f"{summary['certified']} of {summary['states']} states are certified" in page.inner_text(".answer")
    assert page.inner_text("#n-violated") == str(summary["violated"])
    assert page.locator("#t-open tr").count() == 20
    assert "violated" in page.inner_text("#t-open tr >> nth=0")
    context.close()
    # and a script says the same
    with_script, _ = _open(browser, tight)
    assert with_script.locator("#t-open tr").count() == 20
    with_script.close()


@needs_browser
def test_the_first_list_is_the_scripts(browser: Browser, tight: Path) -> None:
    """Word for word: the list that is painted first does not change when the script takes over."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{tight / 'report.html'}")
    cells = "rows => rows.map(r => [...r.cells].map(c => c.textContent.trim()))"
    written = page.locator("#t-open tr").all_inner_texts()
    context.close()
    page, _ = _open(browser, tight)
    drawn = page.eval_on_selector_all("#t-open tr", cells)
    assert [line.split("\t") for line in written] == drawn
    page.close()


@needs_browser
def test_heads_have_a_page_in_their_own_words(browser: Browser, tmp_path: Path) -> None:
    """KL among the budgets, a realization that is no pair, states without labels: and no word of a vMF primitive."""
    made = gaussian_states(3, count=9)
    for name, states in (("labelled", made), ("bare", sf.HeadStates(made.bank, made.hidden, None, made.temperature))):
        with sf.CollectionWriter(tmp_path / name, "heads") as writer:
            writer.add(states, source="s", dataset="d", run="r", step=0)
        budgets = sf.Budgets(loss=1e-30, kl=1e-40) if name == "labelled" else sf.Budgets(probability=1e-30, kl=1e-40)
        result = sf.audit(tmp_path / name, budgets, out=tmp_path / f"{name}-audit")
        assert result.summary.certified == 0
        page, troubles = _open(browser, tmp_path / f"{name}-audit")
        text = page.inner_text("main")
        assert "largest error of every logit b*" in text
        assert "primitive" not in text
        assert page.locator("#h-orders").count() == 0
        assert page.locator("#t-formats tbody tr").count() == len(result.summary.formats) == 6
        assert "KL divergence" in page.inner_text("#t-open") or "in Arb" in page.inner_text("#t-open")
        page.click("#t-open button >> nth=0")
        assert ("no label" in page.inner_text("dialog")) == (name == "bare")
        assert page.locator("dialog .weights").is_visible()
        assert "any error of every logit up to that" in page.inner_text("dialog") or "Not even" in page.inner_text(
            "dialog"
        )
        assert page.get_attribute("#c-target", "data-points") == (
            "0" if name == "bare" else str(result.summary.b.count)
        )
        assert troubles == []
        page.close()
