"""The exported page of the recorded sweep in Firefox and in Chromium, offline: its sliders say what the analysis says,
and what the page says after it was imported again."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from app.cli import main
from app.data import SAMPLES, load_prepared, result_of
from app.imports import import_result, list_imports, load_import
from app.views.verdict import verdict
from app.words import ENGLISH
from runner.config import Slo
from tests.support.chromium import CHROMIUM, chromium
from tests.support.firefox import MARKS, Firefox, firefox

SAMPLE = SAMPLES / "llama_cpp_sweep"
# from the sweep's own 3000 ms and 200 ms, one press a step
PRESSES = {"#ttft-0": ("ArrowLeft", 3), "#gap-0": ("ArrowRight", 3)}
MOVED = {"chat": Slo(ttft_ms=1500, gap_ms=400)}
PATIENCE_S = 60.0
READ = """() => {
    const text = (id) => document.getElementById(id).textContent;
    const rows = [...document.querySelectorAll("#numbers tbody tr")];
    const column = (key) => rows.map((row) => row.querySelector(`[data-key="${key}"]`).textContent);
    const points = document.getElementById("fig-frontier").data.filter((t) => t.meta && t.meta.role === "points");
    return {
        headline: text("headline"), detail: text("detail"), targets: [text("ttft-0-out"), text("gap-0-out")],
        met: document.getElementById("verdict").className === "pass",
        picked: rows.filter((row) => row.classList.contains("picked")).map((row) => Number(row.dataset.cell)),
        goodput: column("goodput_per_s"), share: column("share"), low: column("share_low"), high: column("share_high"),
        frontier: column("state").map((state) => state === "on the frontier"),
        curve: Object.fromEntries(points.flatMap((t) => t.customdata.map((data, i) => [data[0], t.y[i]]))),
    };
}"""
DRAWN = "() => [...document.querySelectorAll('.figure')].every((f) => f.querySelector('.main-svg'))"
pytestmark = [*MARKS, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Seen:
    """What one browser showed, before and after its sliders were moved; `trouble`: what went wrong or was asked for."""

    before: dict[str, Any]
    after: dict[str, Any]
    trouble: list[str]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "sweep.html"
    assert main(["report", str(SAMPLE), "-o", str(path)]) == 0
    return path


@contextmanager
def in_firefox(url: str) -> Iterator[tuple[Firefox, list[str]]]:
    with firefox() as page:
        trouble: list[str] = []
        page.goto(url)
        yield page, trouble
        trouble += page.said + page.evaluate("() => refused") + [u for u in page.asked if not _own(u, url)]


@contextmanager
def in_chromium(url: str) -> Iterator[tuple[Page, list[str]]]:
    with chromium() as browser:
        page = browser.new_context(offline=True).new_page()
        trouble: list[str] = []
        page.on("request", lambda r: trouble.append(r.url) if not _own(r.url, url) else None)
        page.on("console", lambda m: trouble.append(m.text))
        page.on("pageerror", lambda e: trouble.append(str(e)))
        page.goto(url)
        yield page, trouble


def _own(asked: str, url: str) -> bool:
    return asked == url or asked.startswith(("data:", "blob:", "about:"))


def look(page: Firefox | Page) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads the page, moves its sliders by keys, reads it again; on a phone it must not be wider than the window."""
    until(page, DRAWN)
    before = page.evaluate(READ)
    for selector, (key, times) in PRESSES.items():
        for _ in range(times):
            page.press(selector, key)
    wanted = [ENGLISH.ms(MOVED["chat"].ttft_ms), ENGLISH.ms(MOVED["chat"].gap_ms)]
    until(page, f"(wanted) => String(({READ})().targets) === String(wanted)", wanted)
    after = page.evaluate(READ)
    page.set_viewport_size({"width": 400, "height": 800})
    until(page, "() => innerWidth === 400 && document.documentElement.scrollWidth <= 400")
    return before, after


def until(page: Firefox | Page, function: str, arg: object = None) -> None:
    """Asks the page again and again until it says yes."""
    deadline = time.monotonic() + PATIENCE_S
    while not page.evaluate(function, arg):
        assert time.monotonic() < deadline, function
        time.sleep(0.05)


@pytest.fixture(scope="module")
def seen(file: Path) -> dict[str, Seen]:
    """By the browser's name."""
    assert CHROMIUM, "a Chromium is needed beside the Firefox"
    found = {}
    for name, opened in (("firefox", in_firefox), ("chromium", in_chromium)):
        with opened(file.as_uri()) as (page, trouble):
            told = look(page)
        found[name] = Seen(*told, trouble)
    return found


def facts(result: dict[str, Any]) -> dict[str, Any]:
    """What a page has to show of a result object, but for the curve and the sliders."""
    said, cells = verdict(result), result["cells"]
    return {
        "headline": said.headline,
        "detail": said.detail,
        "met": result["choice"]["target_met"],
        "picked": sorted(result["choice"]["cells"]),
        "goodput": [ENGLISH.significant(x["goodput_per_s"]) for x in cells],
        "share": [ENGLISH.share(x["share"]) for x in cells],
        "low": [ENGLISH.share(x["share_low"]) for x in cells],
        "high": [ENGLISH.share(x["share_high"]) for x in cells],
        "frontier": [bool(x["on_frontier"]) for x in cells],
    }


def test_both_browsers_open_it_and_complain_of_nothing(seen: dict[str, Seen]) -> None:
    """All figures are drawn, no error, nothing against its own policy, and nobody is asked for anything."""
    assert {name: one.trouble for name, one in seen.items()} == {"firefox": [], "chromium": []}


def test_both_browsers_show_the_same_numbers(seen: dict[str, Seen]) -> None:
    """Before and after the sliders were moved, to the last digit; and moving them changed what is said."""
    assert seen["firefox"].before == seen["chromium"].before
    assert seen["firefox"].after == seen["chromium"].after
    assert seen["firefox"].after["headline"] != seen["firefox"].before["headline"]


@pytest.mark.parametrize("name", ["firefox", "chromium"])
def test_they_are_the_numbers_of_the_analysis(seen: dict[str, Seen], name: str) -> None:
    """The page says what scoring the measured requests says, at the sweep's own targets and at the others."""
    prepared = load_prepared(SAMPLE)
    for shown, targets, digits in ((seen[name].before, None, 1e-5), (seen[name].after, MOVED, 1e-12)):
        result = result_of(prepared, SAMPLE, targets=targets)
        expected = facts(result)
        assert {key: shown[key] for key in expected} == expected
        goodput = {str(x["cell"]): pytest.approx(x["goodput_per_s"], rel=digits) for x in result["cells"]}
        assert shown["curve"] == goodput


def test_imported_again_it_says_the_same(seen: dict[str, Seen], file: Path, tmp_path: Path) -> None:
    """`goodput import` of the same file, scored at the same targets."""
    assert main(["import", str(file), "--data", str(tmp_path)]) == 0
    (imported,) = list_imports(tmp_path)
    document = load_import(imported.folder)
    for shown, targets in ((seen["firefox"].before, None), (seen["firefox"].after, MOVED)):
        result = import_result(document, targets=targets)
        expected = facts(result)
        assert {key: shown[key] for key in expected} == expected
        goodput = {str(x["cell"]): pytest.approx(x["goodput_per_s"], rel=1e-5) for x in result["cells"]}
        assert shown["curve"] == goodput
