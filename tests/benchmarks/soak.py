"""A dashboard that is not left alone: sweeps on the built-in engine beside two browsers and hostile tabs.

    python -m tests.benchmarks.soak [--minutes 30]

Round after round ten tabs press Demo sweep at the same moment; while that sweep runs, one browser watches it live,
another walks through the pages and back, and tabs are reloaded in storms before they have loaded. At the end there has
to be one sweep a round, each with all of its cells and requests, never two at once, one worker, and a dashboard whose
memory does not grow with the pages asked for (judged over the last half of a run of ten minutes or more; counted is
memory of its own, without the files of libraries, which it shares as long as a worker runs). Prints one JSON object;
exit code 1 when something of that does not hold.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from playwright.sync_api import Browser, Error, Page

from runner.analysis.result import build_result
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from storage.side_files import LIVE, list_sweeps
from tests.support.chromium import ARGS, CHROMIUM, chromium

ROOT = Path(__file__).parents[2]
TABS = 10
STORM = 12  # reloads of one storm
PATIENCE_MS = 180_000
WALK = ("", "new", "results", "compare", "what-if", "backends", "method", "live", "results?sweep=llama_cpp_sweep")
ROUND_LOADS = TABS + 2  # pages opened in a round, beside the storms and walks
STEP_LOADS = STORM + 3
MOST_GROWTH_MB = 2.0  # a hundred page loads; a session that nobody lets go of is 0.15 MB, so 15
LONG_MINUTES = 10.0  # before, memory still fills with what is used for the first time
PRESS_AT = """at => { const press = () => [...document.querySelectorAll('button')]
    .find(b => b.textContent.trim() === 'Demo sweep').click(); setTimeout(press, at - Date.now()) }"""


class Watch(threading.Thread):
    """Looks once a second at the dashboard's memory, its workers and the sweeps."""

    def __init__(self, dashboard: psutil.Process, data_dir: Path) -> None:
        super().__init__(daemon=True)
        self._dashboard = dashboard
        self._data_dir = data_dir
        self.loads = 0  # pages asked for so far
        self.memory_mb: list[tuple[int, float]] = []  # (pages asked for, MB)
        self.most_live = self.most_workers = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(1.0):
            now = self._dashboard.memory_info()
            self.memory_mb.append((self.loads, (now.rss - now.shared) / 1e6))
            self.most_live = max(self.most_live, sum(s.status in LIVE for s in list_sweeps(self._data_dir)))
            self.most_workers = max(self.most_workers, len(self.workers()))

    def workers(self) -> list[psutil.Process]:
        """Processes that measure what is queued in this data folder; not a child of one, which bears its command line
        until it has become the program that the worker starts."""
        own = ["runner", "--data", str(self._data_dir)]
        every = psutil.process_iter(["cmdline", "ppid"])
        found = {p.pid: p for p in every if all(word in (p.info["cmdline"] or []) for word in own)}
        return [p for p in found.values() if p.info["ppid"] not in found]


@contextmanager
def dashboard(data_dir: Path) -> Iterator[tuple[str, psutil.Process]]:
    """(address, process) of a running dashboard."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "--no-browser", "--port", "0", "--data", str(data_dir)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LANG": "C.UTF-8"},
    )
    assert process.stderr
    told = re.search(r"http://\S+", process.stderr.readline())
    assert told
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield told[0].rstrip("/"), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def ten_starts_at_once(browser: Browser, home: str) -> None:
    """Ten windows press the button in the same tenth of a second, then go away."""
    windows = [browser.new_context() for _ in range(TABS)]
    for window in windows:
        window.set_default_timeout(PATIENCE_MS)
    pages = [window.new_page() for window in windows]
    for page in pages:
        page.goto(home)
        page.get_by_role("button", name="Demo sweep").wait_for(timeout=PATIENCE_MS)
    at_ms = time.time() * 1000 + 1500
    for page in pages:
        page.evaluate(PRESS_AT, at_ms)
    for page in pages:
        page.wait_for_url("**/live?sweep=*", timeout=PATIENCE_MS)
    for window in windows:
        window.close()


def storm(page: Page, address: str) -> None:
    """Reloads before the page has come, as somebody does who leans on F5."""
    for _ in range(STORM):
        try:
            page.goto(address, wait_until="commit")
        except Error:
            continue  # a load that the next one cut off


def walk(page: Page, home: str, step: int) -> None:
    """A page, a half-loaded other one, and back."""
    page.goto(f"{home}/{WALK[step % len(WALK)]}", wait_until="commit")
    page.wait_for_timeout(1500)
    page.goto(f"{home}/{WALK[(step + 1) % len(WALK)]}", wait_until="commit")
    with suppress(Error):  # the browser itself may still be busy with the page before
        page.go_back(wait_until="commit")
    page.wait_for_timeout(500)


def soak(minutes: float, data_dir: Path) -> dict[str, Any]:
    """The whole run; what it found."""
    rounds = reloads = steps = 0
    errors: list[str] = []
    with dashboard(data_dir) as (home, process), chromium() as one, second_browser(one) as two:
        watch = Watch(process, data_dir)
        watch.start()
        end = time.monotonic() + minutes * 60
        visitor = two.new_context().new_page()
        visitor.set_default_timeout(PATIENCE_MS)
        visitor.on("pageerror", lambda e: errors.append(str(e)))
        while time.monotonic() < end:
            rounds += 1
            ten_starts_at_once(one, home)
            watcher = one.new_context().new_page()
            watcher.set_default_timeout(PATIENCE_MS)
            watcher.on("pageerror", lambda e: errors.append(str(e)))
            watcher.goto(f"{home}/live")
            while any(s.status in ("queued", *LIVE) for s in list_sweeps(data_dir)):
                walk(visitor, home, steps)
                hostile = two.new_context()
                storm(hostile.new_page(), f"{home}/{('live', 'results', '')[steps % 3]}")
                hostile.close()
                steps, reloads = steps + 1, reloads + STORM
                watch.loads += STEP_LOADS
            newest = max(list_sweeps(data_dir), key=lambda s: s.created_unix_ns)
            watcher.goto(f"{home}/results?sweep={newest.sweep_id}")
            watcher.wait_for_selector(".st-key-frontier .main-svg", timeout=PATIENCE_MS)
            watcher.context.close()
            watch.loads += ROUND_LOADS
            print(f"round {rounds}: {newest.status}, {watch.memory_mb[-1][1]:.0f} MB", file=sys.stderr, flush=True)
        watch.ended.set()
        watch.join()
    for worker in watch.workers():  # after their parent, which would have to take note of their end
        worker.terminate()
        worker.wait(60)
    return {
        "minutes": minutes, "rounds": rounds, "steps": steps, "reloads": reloads, "page_errors": sorted(set(errors)),
        **sweeps_kept(data_dir), "most_live_at_once": watch.most_live, "most_workers": watch.most_workers,
        **memory(watch.memory_mb),
    }  # fmt: skip


@contextmanager
def second_browser(first: Browser) -> Iterator[Browser]:
    """Another browser process beside the first, with cookies and cache of its own."""
    running = first.browser_type.launch(executable_path=CHROMIUM, args=ARGS)
    yield running
    running.close()


def sweeps_kept(data_dir: Path) -> dict[str, Any]:
    """Sweeps by status, and what of their cells and requests is not there or did not end well."""
    sweeps = list_sweeps(data_dir)
    cells = [cell for s in sweeps for cell in build_result(read_sweep(s.folder))["cells"]]
    lost = [c["scheduled"] - c["completed"] - c["failed"] - c["rejected"] - c["cancelled"] for c in cells]
    return {
        "sweeps": len(sweeps),
        "statuses": sorted({s.status for s in sweeps}),
        "cells_missing": sum(s.cells_total - s.cells_done for s in sweeps),
        "cells_not_ok": sum(c["status"] != "ok" for c in cells),
        "requests": sum(c["scheduled"] for c in cells),
        "requests_lost": sum(map(abs, lost)),
        "requests_failed": sum(c["failed"] for c in cells),
    }


def memory(samples: list[tuple[int, float]]) -> dict[str, Any]:
    """Of (pages asked for, MB): the medians of the quarters, the most, and the growth of the last half by 100 pages."""
    loads, mb = np.array(samples, dtype=np.float64).T
    half = slice(len(mb) // 2, None)
    return {
        "page_loads": int(loads[-1]),
        "memory_mb_by_quarter": [round(float(np.median(part)), 1) for part in np.array_split(mb, 4)],
        "growth_mb_by_100_loads": round(float(np.polyfit(loads[half], mb[half], 1)[0]) * 100, 2),
        "most_memory_mb": round(float(mb.max()), 1),
    }


def complaints(found: dict[str, Any]) -> list[str]:
    """What does not hold."""
    wanted = {
        "one sweep a round": found["sweeps"] == found["rounds"],
        "every sweep is done": found["statuses"] == ["done"],
        "no cell is missing": found["cells_missing"] == 0,
        "no request is lost": found["requests_lost"] == found["requests_failed"] == 0,
        "never two sweeps at once": found["most_live_at_once"] == 1,
        "one worker": found["most_workers"] == 1,
        "memory is flat": found["minutes"] < LONG_MINUTES or found["growth_mb_by_100_loads"] <= MOST_GROWTH_MB,
        "no page breaks": found["page_errors"] == [],
    }
    return [name for name, holds in wanted.items() if not holds]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=30.0)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(options.parse_args().minutes, open_data_folder(Path(folder) / "data"))
    broken = complaints(found)
    print(json.dumps({**found, "broken": broken}, indent=1))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
