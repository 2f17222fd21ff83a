"""A whole session in a real Chromium: every page, a sweep, hostile words of a server. No other machine is asked."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from app import jobs
from runner.environment import in_container
from runner.load.targets import DOCKER_HOST
from storage.data_folder import open_data_folder
from storage.side_files import status_of
from storage.tables import SweepTables
from tests.app.views.made_up import made_up_tables
from tests.support.chromium import MARKS, chromium
from tests.support.finished_sweeps import finished_sweep
from tests.support.small_sweeps import quick_config

HOSTILE = (
    "</script><script>alert(1)</script><img src=//evil.test/a onerror=alert(2)> [x](http://evil.test) "
    "![y](//evil.test/i.png) <a href='javascript:alert(3)'>z</a> :material/home: $\\href{http://evil.test}{q}$ =1+1"
)
PATIENCE_S = 120.0
ROOT = Path(__file__).parents[2]
# put before all of our processes: notes each name that is looked up and each address that is connected to or sent to
LISTENER = """
import json, os, sys

def note(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"):
        where = args[0] if event.startswith("socket.get") else args[1]
        line = json.dumps([event, where if isinstance(where, (str, list, tuple)) else repr(where)], default=repr)
        fd = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, line.encode() + b"\\n")
        os.close(fd)

sys.addaudithook(note)
"""
pytestmark = [*MARKS, pytest.mark.timeout(300)]


class Sockets(threading.Thread):
    """Looks again and again at every internet socket of a process and of all that it started, also by other languages
    than Python. `foreign`: addresses of other machines that were seen."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(daemon=True)
        self._data_dir = str(data_dir)
        self.foreign: set[str] = set()
        self.seen = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.1):
            for process in psutil.process_iter(["cmdline"]):
                if self._data_dir in (process.info["cmdline"] or []):
                    self._look(process)

    def _look(self, process: psutil.Process) -> None:
        try:
            for one in (process, *process.children(recursive=True)):
                for connection in one.net_connections(kind="inet"):
                    self.seen += 1
                    if connection.raddr and not ip_address(connection.raddr.ip).is_loopback:
                        self.foreign.add(f"{one.name()}: {connection.raddr}")
        except psutil.Error:
            pass  # it has ended


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def hostile_sweep(data_dir: Path) -> None:
    """A finished sweep whose every word from a server, a file or a user is hostile."""
    t = made_up_tables((2, 8), (256,), (1.0, 2.0))
    config = {**t.meta["config"], "name": HOSTILE[:200]}
    config["backend"] = {**config["backend"], "model": HOSTILE}
    meta = {
        **t.meta,
        "name": HOSTILE,
        "config": config,
        "backend": {**t.meta["backend"], "model": HOSTILE, "models": [HOSTILE], "version": HOSTILE},
        "environment": {"cpu": HOSTILE, "gpu": HOSTILE, "engine_version": HOSTILE, "os": HOSTILE},
    }
    cells = t.cells.assign(start_line=HOSTILE, log_tail=HOSTILE, error_detail=HOSTILE)
    requests = t.requests.assign(error_detail=HOSTILE)
    finished_sweep(data_dir, SweepTables(meta, cells, requests, t.engine, t.client), "hostile")


def settled(page: Page) -> None:
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=PATIENCE_S * 1000)
    missing = page.locator("[data-testid=stSkeleton], [data-testid=stAppSkeleton]")
    expect(missing).to_have_count(0, timeout=PATIENCE_S * 1000)


def test_a_whole_session_asks_no_other_machine(browser: Browser, tmp_path: Path) -> None:
    """Pages, a sweep and reports: the browser asks the dashboard alone, its processes speak to this machine alone, no
    hostile word becomes a picture, a link or a script, and no policy of the pages had to hold anything back."""
    data_dir = open_data_folder(tmp_path / "data")
    hostile_sweep(data_dir)
    (tmp_path / "listener").mkdir()
    (tmp_path / "listener" / "sitecustomize.py").write_text(LISTENER)
    notes = tmp_path / "notes"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "listener"), "NOTES": str(notes)}
    sweep_id = jobs.enqueue(data_dir, quick_config(), "test")
    sockets = Sockets(data_dir)
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "--no-browser", "--port", "0", "--data", str(data_dir)],
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=ROOT,
    )
    sockets.start()
    try:
        assert process.stderr
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found
        home = found[0].rstrip("/")
        walk(browser, home, sweep_id, data_dir)
        assert status_of(data_dir / "sweeps" / sweep_id) == "done"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        for worker in [p for p in psutil.process_iter(["cmdline"]) if str(data_dir) in (p.info["cmdline"] or [])]:
            worker.terminate()
            worker.wait(PATIENCE_S)
        sockets.ended.set()
        sockets.join()
    assert (sockets.seen > 0, sockets.foreign) == (True, set())
    asked = [json.loads(line) for line in notes.read_text().splitlines()]
    assert asked
    assert [note for note in asked if not is_here(note[1])] == []


def walk(browser: Browser, home: str, sweep_id: str, data_dir: Path) -> None:
    """Every page there is, the sweep live and its results, the hostile sweep everywhere, and its shared page."""
    context = browser.new_context()
    urls: list[str] = []
    trouble: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    page = context.new_page()
    page.on("websocket", lambda socket: urls.append(socket.url))
    page.on("dialog", lambda dialog: (trouble.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda said: trouble.append(said.text) if "Content Security Policy" in said.text else None)
    page.goto(home)
    settled(page)
    links = page.locator("[data-testid=stTopNavLink]").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    paths = sorted({urlsplit(link).path.strip("/") for link in links} - {""})
    assert {"new", "live", "results", "what-if", "method"} <= set(paths)
    deadline = time.monotonic() + PATIENCE_S
    while status_of(data_dir / "sweeps" / sweep_id) != "done":  # the first look at a page has started its worker
        assert time.monotonic() < deadline
        page.wait_for_timeout(200)
    for path in (*paths, f"live?sweep={sweep_id}", f"results?sweep={sweep_id}", "live?sweep=hostile"):
        page.goto(f"{home}/{path}")
        settled(page)
        harmless(page)
    for path, wait_for in (
        ("results?sweep=hostile", ".st-key-frontier .main-svg"),
        ("reports/hostile.html", ".main-svg"),
    ):
        page.goto(f"{home}/{path}")
        page.wait_for_selector(wait_for, timeout=PATIENCE_S * 1000)
        assert "evil.test" in page.locator("body").inner_text()
        harmless(page)
    context.close()
    web = [url for url in urls if urlsplit(url).scheme not in ("data", "blob")]
    assert len(web) > 20
    assert [url for url in web if urlsplit(url).netloc != urlsplit(home).netloc] == []
    assert trouble == []


def harmless(page: Page) -> None:
    """No element was made of a hostile word."""
    made = page.locator("[src*=evil], [href*='//evil'], [href^='javascript'], [onerror]")
    assert made.evaluate_all("all => all.map(e => e.outerHTML)") == []


def is_here(where: object) -> bool:
    """True for loopback, this machine's name, local sockets, and nothing at all; in a container for its host."""
    host = where[0] if isinstance(where, list) and where else where
    if host == DOCKER_HOST:
        return in_container()
    if host in (None, "", "None", "localhost") or str(host).startswith(("/", "\x00")):
        return True
    try:
        return ip_address(str(host).partition("%")[0]).is_loopback or str(host) in ("0.0.0.0", "::")
    except ValueError:
        return False
