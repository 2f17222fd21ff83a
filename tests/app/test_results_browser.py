"""Clicks, boxes, files and the back button of results and compare, in a real Chromium."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from app.data import report_html
from storage.data_folder import open_data_folder
from tests.app.test_dashboard_browser import PATIENCE_MS, Visit, dashboard, results_drawn, settled
from tests.support.chromium import MARKS, chromium
from tests.support.finished_sweeps import finished_sweep
from tests.support.two_sweeps import quick, slow, sweep_tables

pytestmark = [*MARKS, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = open_data_folder(tmp_path_factory.mktemp("dashboard"))
    settings = [{"max_num_seqs": 4}, {"max_num_seqs": 8}]
    finished_sweep(folder, sweep_tables([quick, slow], settings, n=40), "made-up")
    return folder


@pytest.fixture(scope="module")
def address(data_dir: Path) -> Iterator[str]:
    with dashboard(data_dir) as told:
        yield told


def click_until(page: Page, what: Locator, arrived: Callable[[str], bool]) -> None:
    """Clicks one after another of these marks, until the address is as wanted: a click into a page that is being drawn
    anew is lost, and the first mark may be what is shown already."""
    for number in range(8):
        what.nth(number % what.count()).click(force=True)
        try:
            page.wait_for_url(arrived, timeout=15_000)
            return
        except PlaywrightTimeout:
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


def test_from_a_point_to_a_request_and_back(browser: Browser, address: str) -> None:
    """A point opens its cell, a bar of its timeline the request; the address says so, and Back takes it back."""
    visit = Visit(browser, address)
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
    visit.end()


def test_a_box_narrows_to_the_cells_in_it(browser: Browser, address: str) -> None:
    """The box tool leads to the numbers of the boxed cells; the button brings all back."""
    visit = Visit(browser, address)
    page = visit.go("results?sweep=made-up")
    results_drawn(page)
    page.locator(".st-key-frontier [data-val=select]").first.click()
    draw_box(page, ".st-key-frontier")
    page.wait_for_url("**section=numbers**", timeout=PATIENCE_MS)
    page.get_by_text("in the box").wait_for()
    settled(page)
    page.get_by_role("button", name="Show all").click()
    page.get_by_text("in the box").wait_for(state="detached")
    visit.end()


def test_somebodys_page_is_dropped_beside_a_sweep(
    browser: Browser, address: str, data_dir: Path, tmp_path: Path
) -> None:
    """A shared page of several hundred kilobytes is taken in, stands in the picture and in the address."""
    shared = tmp_path / "theirs.html"
    shared.write_text(report_html(data_dir / "sweeps" / "made-up"), encoding="utf-8")
    visit = Visit(browser, address)
    page = visit.go("compare?sweeps=made-up")
    page.wait_for_selector(".st-key-overlay .main-svg", timeout=PATIENCE_MS)
    settled(page)
    page.locator("input[type=file]").set_input_files(shared)
    page.wait_for_url("**imp-**", timeout=PATIENCE_MS)
    page.get_by_text("Better, worse, or noise?").wait_for(timeout=PATIENCE_MS)
    settled(page)
    visit.end()
