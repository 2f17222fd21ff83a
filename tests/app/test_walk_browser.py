"""A walk over every page in a real Chromium: the recorded sweep and hostile words, light, dark and on a phone, with an
eye on whom browser and server speak to."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from app import jobs
from storage.side_files import status_of
from tests.support.chromium import MARKS, chromium
from tests.support.dashboard import PATIENCE_MS, ROOT, TOO_WIDE, Visit, dashboard, settled
from tests.support.hostile import hostile_folder
from tests.support.small_sweeps import quick_config
from tests.support.watched import Sockets, asked, is_here, listened, processes_of

SAMPLE = "llama_cpp_sweep"
LOOKS = ((1280, "light"), (1280, "dark"), (400, "dark"))  # every second page is opened in the dark
PLACES = {  # what is opened, and what must be drawn there; `{imported}` is a stranger's page
    "start": ("", ".st-key-samples"),
    "new": ("new?workload=coding", "[data-testid=stDataFrame]"),
    "new_saved": ("new?server=saved", "[data-testid=stDataFrame]"),
    "live": (f"live?sweep={SAMPLE}", ".st-key-live-frontier .main-svg"),
    "live_hostile": ("live?sweep=hostile", ".st-key-live-frontier .main-svg"),
    "results": (f"results?sweep={SAMPLE}", ".st-key-frontier .main-svg"),
    "results_hostile": ("results?sweep=hostile&section=facts", ".st-key-frontier .main-svg"),
    "results_imported": ("results?sweep={imported}", ".st-key-frontier .main-svg"),
    "cell": (f"results?sweep={SAMPLE}&section=cell", ".st-key-request-timeline .main-svg"),
    "cell_hostile": ("results?sweep=hostile&section=cell", ".st-key-request-timeline .main-svg"),
    "compare": (f"compare?sweeps={SAMPLE},hostile", ".st-key-overlay .main-svg"),
    "compare_imported": ("compare?sweeps=hostile,{imported}", ".st-key-overlay .main-svg"),
    "what-if": ("what-if", ".st-key-goodput .main-svg"),
    "backends": ("backends", ".st-key-backend-0"),
    "method": ("method", ".st-key-method"),
    "shared": (f"reports/{SAMPLE}.html", "#fig-batch .main-svg"),
    "shared_hostile": ("reports/hostile.html", "#fig-batch .main-svg"),
}
pytestmark = [*MARKS, pytest.mark.timeout(300)]


@dataclass
class Session:
    """A dashboard that is watched, the window that walks through it, and a sweep that its worker measures."""

    visit: Visit
    data_dir: Path
    imported: str
    sweep_id: str
    sockets: Sockets
    environment: dict[str, str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def session(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("walk")
    data_dir, imported = hostile_folder(folder / "data")
    sweep_id = jobs.enqueue(data_dir, quick_config(), "test")
    environment = listened(folder / "listener")
    sockets = Sockets(data_dir)
    try:
        with dashboard(data_dir, **environment) as address:
            sockets.start()
            yield Session(Visit(browser, address), data_dir, imported, sweep_id, sockets, environment)
    finally:
        for worker in processes_of(str(data_dir)):
            worker.terminate()
            worker.wait(30)
        sockets.ended.set()


@pytest.fixture(scope="module")
def pictures() -> Path | None:
    """Where screenshots go, if GOODPUT_SCREENSHOTS is set."""
    folder = ROOT / "tests" / "screenshots"
    if not os.environ.get("GOODPUT_SCREENSHOTS"):
        return None
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("name", PLACES)
def test_every_page_is_in_order(session: Session, pictures: Path | None, name: str) -> None:
    """No error, no exception box, nothing that hostile words made, no scrolling sideways, no other host; and figures
    follow the theme."""
    path, drawn = PLACES[name]
    page = session.visit.go(path.format(imported=session.imported))
    page.wait_for_selector(drawn, timeout=PATIENCE_MS)
    settled(page)
    for width, scheme in LOOKS if session.visit.scheme == "light" else LOOKS[::-1]:
        session.visit.look(width, scheme)
        assert page.locator("[data-testid=stException]").count() == 0
        assert made_of_hostile_words(page) == []
        page.wait_for_function(f"() => !({TOO_WIDE})().length")  # figures follow the window a moment later
        if pictures is not None:
            page.screenshot(path=pictures / f"{name}_{width}_{scheme}.png", full_page=name.startswith("shared"))
    if "hostile" in name or "imported" in name:
        assert "evil.test" in page.locator("body").inner_text()
    session.visit.check()


def made_of_hostile_words(page: Page) -> list[str]:
    """Elements that were made of a hostile word."""
    made = page.locator("[src*=evil], [href*='//evil'], [href^='javascript'], [onerror]")
    found: list[str] = made.evaluate_all("all => all.map(e => e.outerHTML)")
    return found


def test_a_hostile_name_is_read_and_leads_to_its_sweep(session: Session) -> None:
    """The list shows a name with scripts, links and icons letter by letter, as one link of ours."""
    page = session.visit.go()
    link = page.get_by_role("link").filter(has_text="evil.test")
    expect(link).to_contain_text("<script>alert(1)</script>", timeout=PATIENCE_MS)
    assert str(link.get_attribute("href")).lstrip("/") == "results?sweep=hostile"
    settled(page)
    session.visit.check()


def test_the_walk_is_over_every_page(session: Session) -> None:
    """What the navigation leads to is in the walk above."""
    page = session.visit.go("method")
    settled(page)
    session.visit.look(1280, "light")
    shown = page.locator("[data-testid=stTopNavLink]")
    shown.first.wait_for()
    links = shown.evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(links) >= 8
    walked = {urlsplit(path).path for path, _ in PLACES.values()}
    assert {urlsplit(link).path.strip("/") for link in links} <= walked
    session.visit.check()


def test_a_whole_session_asks_no_other_machine(session: Session) -> None:
    """A sweep is measured and looked at; in all of the walk the server and its worker spoke to this machine alone."""
    session.visit.go()  # the first look at a page starts the worker
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while status_of(session.data_dir / "sweeps" / session.sweep_id) != "done":
        assert time.monotonic() < deadline
        session.visit.page.wait_for_timeout(100)
    page = session.visit.go(f"results?sweep={session.sweep_id}")
    page.wait_for_selector(".st-key-frontier .main-svg", timeout=PATIENCE_MS)
    settled(page)
    session.visit.check()
    assert (session.sockets.seen > 0, session.sockets.foreign) == (True, set())
    noted = asked(session.environment)
    assert noted
    assert [note for note in noted if not is_here(note[1])] == []
