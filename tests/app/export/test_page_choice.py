"""The shared page's script makes the choice by the same rules as the analysis, whatever targets are asked for."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page

from app.export import assets
from app.export.shared_page import render_page
from app.views.frontier import frontier_figure
from app.views.verdict import verdict
from app.words import ENGLISH
from runner.analysis.result import score
from runner.config import Slo
from tests.app.export.random_sweeps import TARGETS, made, scored
from tests.support.chromium import MARKS, chromium

pytestmark = MARKS


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield _page(browser)


def _page(browser: Browser) -> Page:
    return browser.new_context(offline=True).new_page()


def follow(page: Page, targets: dict[str, Slo], alpha: float) -> dict[str, Any]:
    """Moves all sliders at once; what the page then says."""
    data = json.loads(str(page.text_content("#goodput-data")))
    steps = {}
    for i, k in enumerate(data["tallies"]["classes"]):
        steps[f"ttft-{i}"] = k["ttft_steps_ms"].index(targets[k["name"]].ttft_ms)
        steps[f"gap-{i}"] = k["gap_steps_ms"].index(targets[k["name"]].gap_ms)
    found: dict[str, Any] = page.evaluate(
        """async ([steps, alpha]) => {
            for (const [id, at] of Object.entries(steps)) document.getElementById(id).value = at;
            document.getElementById("alpha").value = String(alpha);
            document.getElementById("sliders").dispatchEvent(new Event("input"));
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const rows = [...document.querySelectorAll("#numbers tbody tr")];
            const column = (key) => rows.map((row) => row.querySelector(`[data-key="${key}"]`).textContent);
            return {
                picked: rows.filter((row) => row.classList.contains("picked")).map((row) => Number(row.dataset.cell)),
                met: document.getElementById("verdict").className === "pass",
                headline: document.getElementById("headline").textContent,
                detail: document.getElementById("detail").textContent,
                goodput: column("goodput_per_s"), low: column("share_low"), high: column("share_high"),
                frontier: column("state").map((text) => text === "on the frontier"),
            };
        }""",
        [steps, alpha],
    )
    return found


def expected(result: dict[str, Any]) -> dict[str, Any]:
    """The same facts from the analysis' result object."""
    said, cells = verdict(result), result["cells"]
    return {
        "picked": sorted(result["choice"]["cells"]),
        "met": result["choice"]["target_met"],
        "headline": said.headline,
        "detail": said.detail,
        "goodput": [ENGLISH.significant(x["goodput_per_s"]) for x in cells],
        "low": [ENGLISH.share(x["share_low"]) for x in cells],
        "high": [ENGLISH.share(x["share_high"]) for x in cells],
        "frontier": [bool(x["on_frontier"]) for x in cells],
    }


def show(page: Page, file: Path, seed: int, requests: pd.DataFrame) -> None:
    cells = made(seed).cells
    windows, crowds = {f.cell: 100.0 for f in cells}, {f.cell: f.crowds for f in cells}
    html = render_page(score(made(seed)), requests, windows_s=windows, crowds=crowds)
    file.write_text(html.replace(assets.plotly_packed(), ""), encoding="utf-8")  # figures are not what is asked here
    page.goto(file.as_uri())


@pytest.mark.parametrize("seed", range(6))
def test_the_page_picks_what_the_analysis_picks(page: Page, tmp_path: Path, seed: int) -> None:
    """At several targets the page's pick, headline, intervals and frontier are those of scoring the requests anew."""
    show(page, tmp_path / "page.html", seed, made(seed).requests)
    for at in range(len(TARGETS)):
        targets, alpha, result = scored(seed, at)
        assert follow(page, targets, alpha) == expected(result), TARGETS[at]


def test_the_page_writes_beside_its_marks_where_the_results_page_does(page: Page, tmp_path: Path) -> None:
    """At several targets the marks of the pick and of the most raw tokens are named in the same words and places."""
    seen = set()
    for seed in (1, 2):
        show(page, tmp_path / "page.html", seed, made(seed).requests)
        page.evaluate("window.Plotly = {react: (slot, data) => (slot.data = data)}")
        for at in range(len(TARGETS)):
            targets, alpha, result = scored(seed, at)
            follow(page, targets, alpha)
            found = page.evaluate(
                """() => document.getElementById("fig-frontier").data
                    .filter((t) => ["pick", "raw"].includes((t.meta || {}).role) && t.x.length)
                    .map((t) => [t.text[0], t.textposition])"""
            )
            marks = [t for t in frontier_figure(result).data if t.meta["role"] in ("pick", "raw") and t.x]
            assert found == [[t.text[0], t.textposition] for t in marks], TARGETS[at]
            seen |= {t.textposition for t in marks}
    assert len(seen) >= 4


def test_without_the_order_of_requests_the_page_still_counts(page: Page, tmp_path: Path) -> None:
    """A page of very many requests holds counts alone: the same goodput, and a pick by plain intervals."""
    show(page, tmp_path / "page.html", 3, made(3).requests.drop(columns="request"))
    targets, alpha, result = scored(3, 7)
    found = follow(page, targets, alpha)
    assert (found["goodput"], found["met"]) == (expected(result)["goodput"], True)
    assert found["picked"]


def test_the_made_up_sweeps_ask_every_question() -> None:
    """Among them are choices that meet the target, that miss it, that have a doubt or overload, ties that go to a
    smaller change than the most goodput, repeats of which one is left out, and late sends that other targets excuse."""
    seen: set[str] = set()
    for seed, at in itertools.product(range(6), range(len(TARGETS))):
        _, _, result = scored(seed, at)
        choice, flags = result["choice"], {flag for x in result["cells"] for flag in x["flags"]}
        picked = [x["goodput_per_s"] for x in result["cells"] if x["cell"] in choice["cells"]]
        most = max((x["goodput_per_s"] for x in result["cells"] if not x["flags"]), default=0.0)
        seen |= flags | {"met" if choice["target_met"] else "missed"}
        seen |= {"tie"} if choice["target_met"] and most > max(picked) else set()
        seen |= {"excused"} if "send_lag" not in flags else set()
        seen |= {"doubtful"} if "Not to be relied on" in choice["reason"] else set()
        seen |= {"repeat left out"} if seed % 2 and len(choice["cells"]) == 1 else set()
    assert seen >= {
        "met", "missed", "tie", "send_lag", "excused", "doubtful", "repeat left out", "cold_load", "client_saturated",
        "overload",
    }  # fmt: skip
