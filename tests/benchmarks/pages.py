"""How the pages feel: first paint, a large sweep's results, a slider's move, a long list, a look at a running sweep.

    python -m tests.benchmarks.pages [--keep FOLDER]

Makes a sweep of 50 cells and a million tokens in virtual time, and 200 stored sweeps to be listed. The dashboard runs
as a process of its own and is opened in Chromium, each page with nothing in its cache; server time is the page's script
run in this process, without a browser. Of the results it is told when the verdict is seen, when the picture of the
frontier is seen with it (a still one, until Plotly has started), and when the figures answer to the mouse, which has no
bound: it is how long a browser takes to start Plotly. The first visit finds the result as the runner left it, the next
one has it in memory; a visit without a kept result is that of a sweep of an older version, whose tokens are judged
first. `--keep` leaves the data there, and takes it from there next time. On a machine that does other work as well only
the processor's seconds tell.
"""

import argparse
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from playwright.sync_api import Browser, Page
from streamlit.testing.v1 import AppTest

from app import ui
from runner.analysis.result import build_result
from runner.kept_result import forget_result, keep_result, kept_result
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from storage.side_files import SWEEP, append_line, list_sweeps, write_state
from tests.support.chromium import chromium
from tests.support.small_sweeps import write_toml

ROOT = Path(__file__).parents[2]
LISTED = 200
BOUNDS: dict[str, float | None] = {
    "Start, first paint": 2.0,
    "Start, list of 200 there": 2.0,
    "Results of 50 cells, first visit: verdict": 3.0,
    "Results of 50 cells, first visit: picture": 3.0,
    "Results of 50 cells, first visit: figures": None,
    "Results of 50 cells, next visit: verdict": 3.0,
    "Results of 50 cells, next visit: picture": 3.0,
    "Results of 50 cells, next visit: figures": None,
    "Results of 50 cells, no kept result: picture": 3.0,
    "Slider, server time": 0.3,
    "One cell, server time": 0.3,
    "Live, server time of a look": 0.3,
    "Results, layout shift (0 to 1)": 0.1,
    "Dashboard's own memory, MB": 300.0,
}
VERDICT = ".stMainBlockContainer h2"
POINTS = ".js-plotly-plot .scatterlayer .points path"
PICTURE = """() => {
  const place = document.querySelector("[class*=st-key-frontier-plot][class*=-place]")
  return !!place && (getComputedStyle(place).backgroundImage.startsWith("url") || !!place.querySelector(".main-svg"))
}"""
SHIFT = """() => new Promise(told => new PerformanceObserver(found => told(
  found.getEntries().filter(e => !e.hadRecentInput).reduce((sum, e) => sum + e.value, 0)
)).observe({type: "layout-shift", buffered: true}) || setTimeout(() => told(0), 500))"""


def large_sweep() -> dict[str, Any]:
    """50 cells of about 20,000 tokens."""
    return {
        "name": "50 cells, a million tokens",
        "backend": {"kind": "simulated", "preset": "rtx3090/llama-3.1-8b/q4_k_m"},
        "grid": {
            "max_num_seqs": [2, 4, 8, 16, 32],
            "max_num_batched_tokens": [512, 2048],
            "request_rate": [0.6, 0.8, 1.0, 1.2, 1.4],
        },
        "run": {"duration_s": 110, "warmup_s": 10},
        "classes": [
            {
                "name": "chat",
                "weight": 1,
                "prompt_tokens": {"p50": 300, "p90": 1200, "max": 4000},
                "output_tokens": {"p50": 130, "p90": 340, "max": 1000},
                "slo": {"ttft_ms": 1000, "gap_ms": 150},
            }
        ],
    }


def make_data(folder: Path) -> str:
    """Fills a data folder; returns the large sweep's id."""
    data = open_data_folder(folder)
    known = [s for s in list_sweeps(data) if s.name == large_sweep()["name"]]
    if known:
        leave_result(known[0].folder)
        return known[0].sweep_id
    sweep = write_toml(folder / "large.toml", large_sweep())
    command = [sys.executable, "-m", "app.cli", "simulate", str(sweep), "--data", str(data)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    (made,) = list_sweeps(data)
    for number in range(LISTED):
        _store(data, number, made.folder)
    return made.sweep_id


def leave_result(folder: Path) -> None:
    """As the runner does when a sweep has ended."""
    if kept_result(folder) is None:
        tables = read_sweep(folder)
        keep_result(folder, tables.meta["config"], build_result(tables))


def _store(data: Path, number: int, like: Path) -> None:
    """One more sweep of the list: what the list reads, and lines of a run to be watched."""
    sweep_id = f"20260101-{number:06d}-stored"
    folder = data / "sweeps" / sweep_id
    folder.mkdir(parents=True)
    asked = json.loads((like / SWEEP).read_text(encoding="utf-8"))
    asked |= {"sweep_id": sweep_id, "name": f"stored sweep {number}", "created_unix_ns": 1_700_000_000_000_000_000}
    (folder / SWEEP).write_text(json.dumps(asked), encoding="utf-8")
    write_state(folder, {"status": "done", "cells_total": 50, "cells_done": 50, "verdict": "max_num_seqs 8 keeps up"})
    if number == 0:
        for at in range(300):
            append_line(folder, "live.jsonl", _line(at))
        (folder / "cells.jsonl").write_bytes((like / "cells.jsonl").read_bytes())


def _line(at: int) -> dict[str, Any]:
    values = {"ttft_p50_ms": 200 + at % 7, "ttft_p95_ms": 500 + at % 31, "gap_p50_ms": 20 + at % 3, "gap_p95_ms": 60}
    engine = {"running": at % 9, "waiting": at % 4, "kv_cache_usage": at / 400, "num_preemptions": 0}
    own = {"open_streams": 4, "loop_lag_ms": 2.0, "cpu_share": 0.1, "errors": {}, "eta_s": 60.0}
    counts = {"cells_done": 3, "cells_total": 50, "sent": at, "completed": at, "failed": 0, "rejected": 0}
    return {"at_s": float(at), "cell": 3, "phase": "measure", **counts, **values, **engine, **own}


@contextmanager
def dashboard(data: Path) -> Iterator[tuple[str, psutil.Process]]:
    """A running dashboard: its address with the last slash, and its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "--no-browser", "--port", "0", "--data", str(data)],
        stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        told = next((m for line in process.stderr if (m := re.search(r"http://\S+", line))), None)
        assert told, "the dashboard did not start"
        yield told[0].rstrip("/") + "/", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def seconds_until(page: Page, address: str, *selectors: str) -> list[float]:
    """From asking for an address until each of these is seen, one after the other."""
    began = time.monotonic()
    page.goto(address, wait_until="commit")
    seen = []
    for selector in selectors:
        page.wait_for_selector(selector, timeout=120_000)
        seen.append(time.monotonic() - began)
    return seen


def in_browser(browser: Browser, address: str, sweep_id: str, process: psutil.Process) -> dict[str, float]:
    """Seconds of each thing a visitor waits for; how far things jump meanwhile; the memory with one page open."""
    found: dict[str, float] = {}
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    (found["Start, list of 200 there"],) = seconds_until(page, address, "[class*=st-key-sweep-]")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
    found["Start, first paint"] = float("nan") if paint is None else paint / 1000
    jumped = 0.0
    for visit in ("first", "next"):
        name = f"Results of 50 cells, {visit} visit"
        page = browser.new_page(viewport={"width": 1280, "height": 1600})
        found |= {f"{name}: {what}": at for what, at in results(page, address, sweep_id).items()}
        jumped = max(jumped, page.evaluate(SHIFT))
    found["Results, layout shift (0 to 1)"] = jumped
    for context in browser.contexts[:-1]:
        context.close()
    found["Dashboard's own memory, MB"] = process.memory_full_info().pss / 1e6
    return found


def results(page: Page, address: str, sweep_id: str) -> dict[str, float]:
    """Seconds until the verdict is there, the frontier's picture with it, and every figure with its points."""
    began = time.monotonic()
    (verdict,) = seconds_until(page, f"{address}results?sweep={sweep_id}", VERDICT)
    while not page.evaluate(PICTURE):
        page.wait_for_timeout(10)
    picture = time.monotonic() - began
    for figure in (f".st-key-frontier {POINTS}", f"[class*=st-key-percentiles] {POINTS}"):
        page.wait_for_selector(figure, timeout=120_000)
    return {"verdict": verdict, "picture": picture, "figures": time.monotonic() - began}


def median_of(do: Callable[[], object], times: int = 7) -> tuple[float, float]:
    """Median seconds of doing it, by the wall clock and of the processor."""
    taken = []
    for _ in range(times):
        began = time.perf_counter(), time.process_time()
        do()
        taken.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return median(t[0] for t in taken), median(t[1] for t in taken)


def on_server(data: Path, sweep_id: str) -> dict[str, tuple[float, float]]:
    """Seconds of the page's script, without a browser: wall clock, processor."""
    os.environ["GOODPUT_DATA"] = str(data)
    logging.disable(logging.WARNING)  # a script without a browser is warned of at every step
    at = opened(ui.RESULTS, sweep=sweep_id)
    steps = iter((800.0, 600.0, 500.0, 400.0, 300.0, 250.0, 200.0, 150.0) * 2)
    slider = next(s for s in at.select_slider if str(s.key).startswith("ttft-"))

    def move() -> None:
        at.select_slider(key=slider.key).set_value(next(steps)).run()

    found = {"Slider, server time": median_of(move)}
    at.session_state["section"] = "cell"
    at.run()
    found["One cell, server time"] = median_of(at.run)
    watched = opened(ui.LIVE, sweep="20260101-000000-stored")
    found["Live, server time of a look"] = median_of(watched.run)
    return found


def opened(page: str, **query: str) -> AppTest:
    """A page without a browser."""
    at = AppTest.from_file(ROOT / "app" / "main.py", default_timeout=120)
    at.query_params.update(query)
    at.run()
    at.switch_page(page).run()
    assert not at.exception, at.exception[0].message
    return at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keep", type=Path)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sweep_id = make_data(folder)
        with dashboard(folder) as (address, process), chromium() as browser:
            seen = in_browser(browser, address, sweep_id, process)
        forget_result(folder / "sweeps" / sweep_id)
        with dashboard(folder) as (address, _), chromium() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 1600})
            seen["Results of 50 cells, no kept result: picture"] = results(page, address, sweep_id)["picture"]
        found: dict[str, tuple[float, float | None]] = {what: (wall, None) for what, wall in seen.items()}
        found |= on_server(folder, sweep_id)
    print(f"{'what':<46}{'seconds':>9}{'of CPU':>9}{'at most':>9}")
    for what, most in BOUNDS.items():
        wall, cpu = found[what]
        own = f"{cpu:>9.2f}" if cpu is not None else " " * 9
        limit = f"{most:>9.1f}{'' if wall <= most else '  too slow'}" if most is not None else ""
        print(f"{what:<46}{wall:>9.2f}{own}{limit}")


if __name__ == "__main__":
    main()
