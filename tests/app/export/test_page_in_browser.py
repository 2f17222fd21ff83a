"""The shared page in a real Chromium, from file://, offline."""

import csv
import io
from collections.abc import Iterator
from gettext import NullTranslations
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from app.export import assets
from app.export.redact import redact
from app.export.shared_page import render_page
from app.views.table import table_csv
from app.views.verdict import markdown
from app.words import ENGLISH, Words
from runner.analysis.result import build_result
from runner.config import Slo
from tests.app.views.made_up import crowds, made_up_requests, made_up_result, made_up_tables, windows
from tests.support.chromium import MARKS, chromium

pytestmark = MARKS


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "sweep.html"
    html = render_page(made_up_result(), made_up_requests(), windows_s=windows(), crowds=crowds())
    path.write_text(html, encoding="utf-8")
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


def move(page: Page, name: str, value_ms: float, steps: list[float], words: Words = ENGLISH) -> None:
    """Puts a slider on a step and waits until the page has followed."""
    page.evaluate(
        "([name, at]) => { const i = document.getElementById(name); i.value = at;"
        " i.dispatchEvent(new Event('input', {bubbles: true})); }",
        [name, steps.index(value_ms)],
    )
    page.wait_for_function(
        "([name, text]) => document.getElementById(name + '-out').textContent === text",
        arg=[name, words.ms(value_ms)],
    )


def test_opens_offline_without_asking_anybody(opened: Opened, file: Path) -> None:
    """All figures are drawn; no request but the file itself, no error and no policy violation, hover included."""
    figures = opened.page.eval_on_selector_all(
        ".figure", "all => all.map(e => e.querySelectorAll('.main-svg').length > 0)"
    )
    assert figures == [True] * 8
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


def saved_csv(page: Page) -> list[dict[str, str]]:
    """The file that the button saves."""
    with page.expect_download() as download:
        page.click("#save-csv")
    assert download.value.suggested_filename == "goodput-made-up-test-data-how-many-chats-fit.csv"
    return list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8"), newline="")))


def numbers(rows: list[dict[str, str]]) -> list[dict[str, object]]:
    """Texts of a CSV as numbers to nine digits, where they are numbers: 1.0 and 1 are the same."""

    def value(text: str) -> object:
        try:
            return float(f"{float(text):.9g}")
        except ValueError:
            return text

    return [{k: value(v) for k, v in r.items()} for r in rows]


def test_the_table_is_saved_as_csv(opened: Opened) -> None:
    """The file has every number of the table as Python writes it; with moved sliders those of the new targets."""
    page = opened.page
    written = list(csv.DictReader(io.StringIO(table_csv(made_up_result()), newline="")))
    assert numbers(saved_csv(page)) == numbers(written)
    targets = {"chat": Slo(ttft_ms=2000, gap_ms=150), "rag": Slo(ttft_ms=3000, gap_ms=150)}
    tallies = page.evaluate("JSON.parse(document.getElementById('goodput-data').textContent).tallies.classes")
    move(page, "ttft-0", 2000.0, tallies[0]["ttft_steps_ms"])
    scored = build_result(made_up_tables(), targets=targets)
    moved = list(csv.DictReader(io.StringIO(table_csv(scored), newline="")))
    assert moved != written
    assert numbers(saved_csv(page)) == numbers(moved)
    page.click("#reset")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.click("#copy-csv")
    assert numbers(list(csv.DictReader(io.StringIO(page.evaluate("copied"), newline="")))) == numbers(written)
    page.click("#copy-md")
    assert page.evaluate("copied") == markdown(redact(made_up_result()))
    assert opened.messages == []


def test_another_language_is_carried_into_the_page(browser: Browser, tmp_path: Path) -> None:
    """Words and number marks are the language's, in what the script writes too, as Python writes them."""

    class Shouting(NullTranslations):
        def gettext(self, message: str) -> str:
            return f"¡{message}!"

    words = Words(lang="pl", catalogue=Shouting())
    path = tmp_path / "page.html"
    path.write_text(render_page(made_up_result(), made_up_requests(), windows_s=windows(), words=words), "utf-8")
    one = Opened(browser, path, viewport={"width": 1100, "height": 900}).drawn()
    assert one.page.get_attribute("html", "lang") == "pl"
    tallies = one.page.evaluate("JSON.parse(document.getElementById('goodput-data').textContent).tallies.classes")
    steps = tallies[0]["ttft_steps_ms"]
    move(one.page, "ttft-0", 1250.0, steps, words)
    assert one.page.text_content("#ttft-0-out") == "1,25\u00a0s"
    assert str(one.page.text_content("#note")).startswith("¡")
    assert str(one.page.text_content("#headline")).startswith("¡")
    told = one.page.evaluate("document.getElementById('fig-frontier')._fullLayout.separators")
    assert told == ",\u00a0"
    assert one.messages == []
    one.context.close()


@pytest.mark.parametrize("lang", ["en", "pl"])
def test_numbers_are_written_as_python_writes_them(opened: Opened, lang: str) -> None:
    """Halves go to the even digit, exactly, with the language's marks: what the table said is what a slider says."""
    words = Words(lang=lang)
    values = [0.125, 0.375, 2.675, 1.005, 0.5, 1.5, 2.5, 1234.5, 1_234_567.891, 99.95, 9.995, 0.0004, 12.345, 0.045]
    marks = [words.number(1111.5, 1)[-2], words.number(1111.5, 1)[1]]
    script = assets.text("page.js")
    code = script[script.index("  const [DECIMAL") : script.index("  const significant")]
    found = opened.page.evaluate(
        f"([marks, values]) => {{ const parts = {{ marks }};\n{code}\n"
        "return values.map((v) => [0, 1, 2, 3].map((d) => number(v, d))); }",
        [marks, values],
    )
    assert found == [[words.number(v, d) for d in range(4)] for v in values]


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
