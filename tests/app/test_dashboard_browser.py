"""The whole way in a real Chromium: demo, live, results, other targets, clicks, boxes, files, the page offline."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from app.data import report_html
from storage.data_folder import open_data_folder
from storage.side_files import list_sweeps
from tests.support.chromium import MARKS, chromium
from tests.support.dashboard import PATIENCE_MS, Visit, dashboard, results_drawn, settled
from tests.support.finished_sweeps import finished_sweep
from tests.support.two_sweeps import quick, slow, sweep_tables

pytestmark = [*MARKS, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one finished sweep, `made-up`."""
    folder = open_data_folder(tmp_path_factory.mktemp("dashboard"))
    settings = [{"max_num_seqs": 4}, {"max_num_seqs": 8}]
    finished_sweep(folder, sweep_tables([quick, slow], settings, n=40), "made-up")
    return folder


@pytest.fixture(scope="module")
def window(browser: Browser, data_dir: Path) -> Iterator[Visit]:
    with dashboard(data_dir) as address:
        yield Visit(browser, address)


@pytest.fixture
def visit(window: Visit) -> Iterator[Visit]:
    yield window
    window.check()


@pytest.fixture(scope="module")
def demo(window: Visit) -> Page:
    """A tab in which a double click has started the demo; it stays open while the other tests do their work."""
    tab = window.context.new_page()
    tab.goto(window.address)
    button = tab.get_by_role("button", name="Demo sweep")
    button.wait_for()
    button.dblclick()
    tab.wait_for_url("**/live?sweep=*")
    return tab


def test_a_demo_is_watched_and_a_reload_loses_nothing(visit: Visit, demo: Page, data_dir: Path) -> None:
    """The live page shows the one sweep that a double click has started, and the same after a reload."""
    demo.get_by_text("Second by second").wait_for()
    where = demo.url
    demo.reload()
    demo.get_by_text("Frontier so far").wait_for()
    assert demo.url == where
    assert len(list_sweeps(data_dir)) == 2


def click_until(page: Page, what: Locator, arrived: Callable[[str], bool]) -> None:
    """Clicks one after another of these marks, until the address is as wanted: a click into a page that is being drawn
    anew is lost, and the first mark may be what is shown already."""
    for number in range(8):
        what.nth(number % what.count()).click(force=True)
        with contextlib.suppress(PlaywrightTimeout):
            page.wait_for_url(arrived, timeout=15_000)
            return
        settled(page)
    raise AssertionError(f"still at {page.url}")


def draw_box(page: Page, chart: str) -> None:
    """From the upper left corner of a figure to its lower right one."""
    area = page.locator(f"{chart} .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4, steps=8)
    page.mouse.up()


def test_from_a_point_to_a_request_and_back(visit: Visit) -> None:
    """A point opens its cell, a bar of its timeline the request; the address says so, and Back takes it back."""
    page = visit.go("results?sweep=made-up")
    results_drawn(page)
    points = page.locator(".st-key-frontier .scatterlayer .points path")
    click_until(page, points, lambda url: "section=cell" in url)
    page.wait_for_selector(".st-key-request-timeline .main-svg", timeout=PATIENCE_MS)
    settled(page)
    before = page.url
    bars = page.locator(".st-key-timeline .barlayer .point path")
    click_until(page, bars, lambda url: "request=" in url and url != before)
    page.go_back()
    page.wait_for_url(lambda url: url == before, timeout=PATIENCE_MS)


def test_a_box_narrows_to_the_cells_in_it(visit: Visit) -> None:
    """The box tool leads to the numbers of the boxed cells; the button brings all back."""
    page = visit.go("results?sweep=made-up")
    results_drawn(page)
    page.locator(".st-key-frontier [data-val=select]").first.click()
    draw_box(page, ".st-key-frontier")
    page.wait_for_url("**section=numbers**", timeout=PATIENCE_MS)
    page.get_by_text("in the box").wait_for()
    settled(page)
    page.get_by_role("button", name="Show all").click()
    page.get_by_text("in the box").wait_for(state="detached")


def test_somebodys_page_is_dropped_beside_a_sweep(visit: Visit, data_dir: Path, tmp_path: Path) -> None:
    """A shared page of several hundred kilobytes is taken in, stands in the picture and in the address."""
    shared = tmp_path / "theirs.html"
    shared.write_text(report_html(data_dir / "sweeps" / "made-up"), encoding="utf-8")
    page = visit.go("compare?sweeps=made-up")
    page.wait_for_selector(".st-key-overlay .main-svg", timeout=PATIENCE_MS)
    settled(page)
    page.locator("input[type=file]").set_input_files(shared)
    page.wait_for_url("**imp-**", timeout=PATIENCE_MS)
    page.get_by_text("Better, worse, or noise?").wait_for(timeout=PATIENCE_MS)
    settled(page)


def test_sub_path_and_password_work_in_a_browser(browser: Browser, data_dir: Path) -> None:
    """Below a path and behind a password, asked for once, the websocket connects and the shared page opens."""
    with dashboard(data_dir, GOODPUT_BASE_PATH="bench", GOODPUT_PASSWORD="open sesame") as address:
        visit = Visit(browser, address)
        page = visit.go("results?sweep=made-up")
        page.get_by_label("Password").fill("open sesame")
        assert [said for said in visit.trouble if "401" not in said] == []  # it is told that a password is wanted
        visit.trouble.clear()
        page.get_by_role("button", name="Open").click()
        results_drawn(page)
        assert "/bench/results?sweep=made-up" in page.url
        with visit.context.expect_page() as opened:
            page.get_by_role("link", name="Open the shared page").click()
        opened.value.wait_for_selector("#headline")
        assert urlsplit(opened.value.url).path == "/bench/reports/made-up.html"
        page.get_by_role("link", name="Method").click()
        page.get_by_role("heading", name="Method").wait_for()
        visit.check()
        visit.context.close()


def goodputs(page: Page) -> list[float]:
    """Goodput of every point in the frontier figure, as it is drawn."""
    found: list[float] = page.evaluate(
        """() => [...document.querySelectorAll('.st-key-frontier .js-plotly-plot')].flatMap(
            plot => plot.data.filter(t => t.meta && t.meta.role === 'points').flatMap(t => [...t.y]))"""
    )
    return found


def test_the_result_comes_by_itself_and_its_file_needs_no_net(
    browser: Browser, visit: Visit, demo: Page, data_dir: Path, tmp_path: Path
) -> None:
    """Live leads to the results when the demo is done; sliders redraw them; the downloaded file opens offline."""
    demo.wait_for_url("**/results?sweep=*", timeout=180_000)
    results_drawn(demo)
    assert [s.status for s in list_sweeps(data_dir)] == ["done", "done"]
    before = goodputs(demo)
    assert any(before)
    demo.get_by_role("slider").nth(1).press("Home")  # the shortest gap on offer
    while sum(goodputs(demo)) >= sum(before):  # until the test's own time is over
        demo.wait_for_timeout(100)
    settled(demo)  # a click into a page that is being drawn anew is lost
    with demo.expect_download() as download:
        demo.get_by_role("button", name="Download as one HTML file").click()
    saved = tmp_path / "page.html"
    download.value.save_as(saved)
    asked: list[str] = []
    offline = browser.new_context(offline=True)
    offline.on("request", lambda r: asked.append(r.url))
    shared = offline.new_page()
    shared.goto(saved.as_uri())
    shared.wait_for_selector("#fig-frontier .main-svg", timeout=PATIENCE_MS)
    assert [url for url in asked if urlsplit(url).scheme not in ("file", "data", "blob")] == []
    offline.close()
