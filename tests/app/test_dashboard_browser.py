"""The whole way in a real Chromium: demo, live, results, other targets, the shared page offline; and no other host."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from storage.data_folder import open_data_folder
from storage.side_files import list_sweeps
from storage.tables import SweepTables
from tests.app.views.made_up import made_up_tables
from tests.support.chromium import MARKS, chromium
from tests.support.finished_sweeps import finished_sweep

HOSTILE = (
    "<img src=//evil.test/a> [x](http://evil.test) ![y](//evil.test/i.png) :material/home: <script>alert(1)</script>"
)
PATIENCE_MS = 60_000
pytestmark = [*MARKS, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one finished sweep that has a hostile name."""
    folder = open_data_folder(tmp_path_factory.mktemp("dashboard"))
    t = made_up_tables((2, 8, 32), (256, 2048), (1.0, 2.0, 3.0))
    tables = SweepTables({**t.meta, "name": HOSTILE}, t.cells, t.requests, t.engine, t.client)
    finished_sweep(folder, tables, "made-up")
    return folder


@contextmanager
def dashboard(data_dir: Path, **environment: str) -> Iterator[str]:
    """A running `goodput --no-browser` on a free port; its address with the last slash."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "--no-browser", "--port", "0", "--data", str(data_dir)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
    )
    try:
        assert process.stderr is not None
        told = re.search(r"http://\S+", process.stderr.readline())
        assert told
        yield told[0].rstrip("/") + "/"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def address(data_dir: Path) -> Iterator[str]:
    with dashboard(data_dir) as told:
        yield told


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go; GOODPUT_SCREENSHOTS to keep them."""
    folder = Path(os.environ.get("GOODPUT_SCREENSHOTS") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Visit:
    """A browser window that notes every address it asks for and every dialog that pops up."""

    def __init__(self, browser: Browser, address: str, width: int = 1280, scheme: str = "light") -> None:
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": 2000},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.asked: list[str] = []
        self.dialogs: list[str] = []
        self.address = address
        self.page: Page = self.context.new_page()
        self.context.on("request", lambda r: self.asked.append(r.url))
        self.page.on("websocket", lambda ws: self.asked.append(ws.url))
        self.page.on("dialog", lambda d: (self.dialogs.append(d.message), d.dismiss()))

    def go(self, path: str = "") -> Page:
        self.page.goto(self.address + path)
        return self.page

    def end(self) -> None:
        """Nothing but the dashboard was asked for anything."""
        self.context.close()
        home = urlsplit(self.address).netloc
        web = [url for url in self.asked if urlsplit(url).scheme not in ("data", "blob")]
        assert web
        assert [url for url in web if urlsplit(url).netloc != home] == []
        assert self.dialogs == []


def goodputs(page: Page) -> list[float]:
    """Goodput of every point in the frontier figure, as it is drawn."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.st-key-frontier .js-plotly-plot')].flatMap(
            plot => plot.data.filter(t => t.meta && t.meta.role === 'points').flatMap(t => [...t.y]))"""
    )


def results_drawn(page: Page) -> None:
    page.wait_for_selector(".st-key-frontier .main-svg", timeout=PATIENCE_MS)
    settled(page)


def settled(page: Page) -> None:
    """The page's script has run to its end, and every part of it is drawn."""
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=PATIENCE_MS)
    expect(page.locator("[data-testid=stSkeleton], [data-testid=stAppSkeleton]")).to_have_count(0, timeout=PATIENCE_MS)


def test_demo_from_the_first_click_to_the_file_opened_offline(
    browser: Browser, address: str, data_dir: Path, pictures: Path, tmp_path: Path
) -> None:
    """One click measures, a reload loses nothing, the result comes by itself, sliders redraw, the file needs no net."""
    visit = Visit(browser, address)
    page = visit.go()
    demo = page.get_by_role("button", name="Demo sweep")
    demo.wait_for()
    page.screenshot(path=pictures / "start_light.png")
    demo.dblclick()
    page.wait_for_url("**/live?sweep=*")
    page.get_by_text("Second by second").wait_for()
    where = page.url
    page.reload()
    page.get_by_text("Frontier so far").wait_for()
    assert page.url == where
    page.screenshot(path=pictures / "live_light.png")
    page.wait_for_url("**/results?sweep=*", timeout=180_000)
    results_drawn(page)
    page.screenshot(path=pictures / "demo_result_light.png")
    assert [s.status for s in list_sweeps(data_dir)] == ["done", "done"]

    before = goodputs(page)
    assert any(before)
    page.get_by_role("slider").nth(1).press("Home")  # the shortest gap on offer
    while sum(goodputs(page)) >= sum(before):  # until the test's own time is over
        page.wait_for_timeout(100)
    settled(page)  # a click into a page that is being drawn anew is lost
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as one HTML file").click()
    saved = tmp_path / "page.html"
    download.value.save_as(saved)
    visit.end()

    offline = browser.new_context(offline=True)
    offline.on("request", lambda r: visit.asked.append(r.url))
    shared = offline.new_page()
    visit.asked.clear()
    shared.goto(saved.as_uri())
    shared.wait_for_selector("#fig-frontier .main-svg", timeout=PATIENCE_MS)
    shared.screenshot(path=pictures / "shared_page.png", full_page=True)
    assert [url for url in visit.asked if urlsplit(url).scheme not in ("file", "data", "blob")] == []
    offline.close()


def test_hostile_names_are_shown_and_ask_nobody(browser: Browser, address: str) -> None:
    """Names with images, scripts, links and icons are read on every page, and load nothing."""
    visit = Visit(browser, address)
    page = visit.go()
    link = page.get_by_role("link").filter(has_text="evil.test")
    expect(link).to_contain_text("<script>alert(1)</script>", timeout=PATIENCE_MS)
    assert str(link.get_attribute("href")).lstrip("/") == "results?sweep=made-up"
    page = visit.go("results?sweep=made-up")
    results_drawn(page)
    assert page.locator("img, iframe, a[href*=evil]").count() == 0
    visit.end()


def test_a_click_on_a_point_opens_its_cell(browser: Browser, address: str, pictures: Path) -> None:
    """The figure leads to the cell behind a point: its timeline and its distributions."""
    visit = Visit(browser, address)
    page = visit.go("results?sweep=made-up")
    results_drawn(page)
    page.locator(".st-key-frontier .scatterlayer .points path").first.click(force=True)
    page.wait_for_selector(".st-key-timeline .main-svg")
    page.wait_for_selector(".st-key-ecdf-gap_ms .main-svg")
    settled(page)
    page.screenshot(path=pictures / "cell_light.png")
    visit.end()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")])
def test_pages_fit_their_window_in_both_themes(
    browser: Browser, address: str, pictures: Path, width: int, scheme: str
) -> None:
    """No page is wider than the window, and figures follow the theme."""
    visit = Visit(browser, address, width, scheme)
    for path in ("", "new?workload=coding", "results?sweep=made-up", "what-if", "backends?edit=nas", "method"):
        page = visit.go(path)
        if path.startswith("results"):
            results_drawn(page)
            ink = page.evaluate("document.querySelector('.st-key-frontier .js-plotly-plot')._fullLayout.font.color")
            assert ink.lower() == {"light": "#1f2328", "dark": "#e6e8eb"}[scheme]
        page.get_by_role("heading").first.wait_for()
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        name = path.partition("?")[0] or "start"
        page.screenshot(path=pictures / f"{name}_{width}_{scheme}.png")
    visit.end()


def test_sub_path_and_password_work_in_a_browser(browser: Browser, data_dir: Path) -> None:
    """Below a path and behind a password, asked for once, the websocket connects and the shared page opens."""
    with dashboard(data_dir, GOODPUT_BASE_PATH="bench", GOODPUT_PASSWORD="open sesame") as address:
        visit = Visit(browser, address)
        page = visit.go("results?sweep=made-up")
        page.get_by_label("Password").fill("open sesame")
        page.get_by_role("button", name="Open").click()
        results_drawn(page)
        assert "/bench/results?sweep=made-up" in page.url
        with visit.context.expect_page() as opened:
            page.get_by_role("link", name="Open the shared page").click()
        opened.value.wait_for_selector("#headline")
        assert urlsplit(opened.value.url).path == "/bench/reports/made-up.html"
        page.get_by_role("link", name="Method").click()
        page.get_by_role("heading", name="Method").wait_for()
        visit.end()
