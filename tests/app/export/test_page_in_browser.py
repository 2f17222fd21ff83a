"""The shared page in a real Chromium, from file://, offline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from app.export.shared_page import render_page
from app.words import ENGLISH
from runner.analysis.result import build_result
from runner.config import Slo
from tests.app.views.made_up import made_up_requests, made_up_result, made_up_tables, windows
from tests.support.chromium import MARKS, chromium

pytestmark = MARKS


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "sweep.html"
    path.write_text(render_page(made_up_result(), made_up_requests(), windows_s=windows()), encoding="utf-8")
    return path


class Opened:
    """A page with everything it asked for and complained about."""

    def __init__(self, browser: Browser, file: Path, **context: object) -> None:
        self.context = browser.new_context(offline=True, **context)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.messages: list[str] = []
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("console", lambda m: self.messages.append(m.text))
        self.page.on("pageerror", lambda e: self.messages.append(str(e)))
        self.page.goto(file.as_uri())

    def drawn(self) -> "Opened":
        self.page.wait_for_selector("#fig-batch .main-svg", timeout=60_000)
        return self


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Opened]:
    one = Opened(browser, file, viewport={"width": 1100, "height": 900}, color_scheme="light").drawn()
    yield one
    one.context.close()


def column(page: Page, key: str) -> list[str]:
    texts: list[str] = page.eval_on_selector_all(f'#numbers td[data-key="{key}"]', "all => all.map(e => e.textContent)")
    return texts


def move(page: Page, name: str, value_ms: float, steps: list[float]) -> None:
    """Puts a slider on a step and waits until the page has followed."""
    page.evaluate(
        "([name, at]) => { const i = document.getElementById(name); i.value = at;"
        " i.dispatchEvent(new Event('input', {bubbles: true})); }",
        [name, steps.index(value_ms)],
    )
    page.wait_for_function(
        "([name, text]) => document.getElementById(name + '-out').textContent === text",
        arg=[name, ENGLISH.ms(value_ms)],
    )


def test_opens_offline_without_asking_anybody(opened: Opened, file: Path) -> None:
    """All figures are drawn; no request but the file itself, no error and no policy violation, hover included."""
    figures = opened.page.eval_on_selector_all(
        ".figure", "all => all.map(e => e.querySelectorAll('.main-svg').length > 0)"
    )
    assert figures == [True] * 5
    box = opened.page.locator("#fig-frontier .points path").first.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.page.wait_for_selector("#fig-frontier .hovertext")
    assert opened.requests == [file.as_uri()]
    assert opened.messages == []


def test_sliders_agree_with_the_analysis(opened: Opened) -> None:
    """At other targets the table shows what scoring the raw requests anew gives; Back restores every text."""
    page = opened.page
    before = {key: column(page, key) for key in ("goodput_per_s", "share", "share_low", "state")}
    headline = page.text_content("#headline")
    targets = {"chat": Slo(ttft_ms=2000, gap_ms=500), "rag": Slo(ttft_ms=4000, gap_ms=300)}
    tallies = page.evaluate("JSON.parse(document.getElementById('goodput-data').textContent).tallies.classes")
    for index, slo in enumerate(targets.values()):
        move(page, f"ttft-{index}", slo.ttft_ms, tallies[index]["ttft_steps_ms"])
        move(page, f"gap-{index}", slo.gap_ms, tallies[index]["gap_steps_ms"])
    scored = build_result(made_up_tables(), targets=targets)
    assert column(page, "goodput_per_s") == [ENGLISH.significant(x["goodput_per_s"]) for x in scored["cells"]]
    assert column(page, "share") == [ENGLISH.share(x["share"]) for x in scored["cells"]]
    on = [text == "on the frontier" for text in column(page, "state")]
    assert on == [bool(x["on_frontier"]) for x in scored["cells"]]
    assert column(page, "goodput_per_s") != before["goodput_per_s"]
    assert page.text_content("#headline") != headline
    assert page.text_content("#note")
    drawn = page.evaluate(
        "document.getElementById('fig-frontier').data.filter(t => t.meta.role === 'points')"
        ".flatMap(t => t.customdata.map((d, i) => [d[0], t.y[i]]))"
    )
    goodput = {x["cell"]: x["goodput_per_s"] for x in scored["cells"]}
    assert {cell: pytest.approx(y) for cell, y in drawn} == {cell: goodput[cell] for cell, _ in drawn}
    page.click("#reset")
    page.wait_for_function("text => document.getElementById('headline').textContent === text", arg=headline)
    assert {key: column(page, key) for key in before} == before
    assert opened.messages == []


def test_percentile_picker_and_theme(opened: Opened) -> None:
    """Another percentile redraws its figure; the toggle turns page and figures dark."""
    page = opened.page
    page.select_option("#percentile", "p50")
    visible = (
        "() => [...new Set(document.getElementById('fig-percentiles').data"
        ".filter(t => t.meta.role === 'percentile' && t.visible).map(t => t.meta.percentile))].join() === 'p50'"
    )
    page.wait_for_function(visible)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    page.wait_for_function("document.getElementById('fig-frontier').layout.template.layout.font.color === '#E6E8EB'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert opened.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone(browser: Browser, file: Path, scheme: str) -> None:
    """400 px wide: the page never scrolls sideways, in light and dark, and no figure complains."""
    one = Opened(browser, file, viewport={"width": 400, "height": 800}, color_scheme=scheme).drawn()
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert one.messages == []
    one.context.close()


def test_readable_without_scripts(browser: Browser, file: Path) -> None:
    """Without scripts there are the verdict and every number, and no empty figure."""
    one = Opened(browser, file, java_script_enabled=False)
    assert one.page.is_visible("#headline")
    assert one.page.is_visible("#numbers table")
    assert one.page.is_visible("#heat table")
    assert not one.page.is_visible("#fig-frontier")
    assert one.page.is_visible("noscript p")
    assert one.requests == [file.as_uri()]
    one.context.close()
