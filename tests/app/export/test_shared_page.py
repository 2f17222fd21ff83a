"""The shared page as a file: what is in it, what never is, and that it comes back."""

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from app.export import assets
from app.export.redact import redact
from app.export.shared_page import MAX_BYTES, PageError, read_page, render_page
from runner.analysis.requests import request_table
from runner.analysis.result import build_result
from runner.config import SweepConfig
from tests.app.views.made_up import HOSTILE, made_up_requests, made_up_result, made_up_tables, windows

GOLDEN = Path(__file__).parents[2] / "golden"


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of each script and style element."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw.append((self._inside, data))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None


def parse(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(made_up_result(), made_up_requests(), windows_s=windows())


def hostile_result() -> dict[str, Any]:
    """Every text of the result is hostile: names, model, settings, errors, classes, warnings."""

    def spoil(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {k: spoil(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [spoil(v, key) for v in value]
        return HOSTILE if isinstance(value, str) and key not in ("status", "type", "rule", "sweep_id") else value

    spoiled = spoil(made_up_result())
    assert isinstance(spoiled, dict)
    for cell in spoiled["cells"]:
        cell["setting"] = {HOSTILE: HOSTILE + str(cell["cell"] // 4)}
        cell["classes"] = {HOSTILE: cell["classes"]["chat"]}
    spoiled["targets"] = {HOSTILE: {"ttft_ms": 1000, "gap_ms": 150, "rule": "p99_gap"}}
    spoiled["warnings"] = [HOSTILE]
    return spoiled


def test_round_trip(page: str) -> None:
    """What went in comes out, number for number, and can be rendered again to the same page."""
    data = read_page(page)
    assert data["result"] == redact(made_up_result())
    assert data["result"]["cells"][0] == json.loads(json.dumps(redact(made_up_result())["cells"][0]))
    assert data["tallies"]["cells"].keys() == {str(x["cell"]) for x in made_up_result()["cells"] if x["status"] == "ok"}
    assert render_page(data["result"]) == render_page(made_up_result())


@pytest.mark.parametrize(
    ("html", "says"),
    [
        ("<html></html>", "not a page of Goodput Lab"),
        ('<script type="application/json" id="goodput-data">{"cells"</script>', "damaged"),
        ('<script type="application/json" id="goodput-data">[]</script>', "not a page of Goodput Lab"),
        (
            '<script type="application/json" id="goodput-data">'
            '{"format":"goodput-page","version":99,"result":{}}</script>',
            "later version",
        ),
    ],
)
def test_other_files_are_refused_in_plain_words(html: str, says: str) -> None:
    """Not ours, damaged, or from a later version: one sentence says which."""
    with pytest.raises(PageError, match=says):
        read_page(html)


def test_policy_allows_only_hashes(page: str) -> None:
    """Nothing by default, scripts and styles by hash only, and each inline text has its hash."""
    tags = parse(page)
    policy = next(
        a["content"] for t, a in tags.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    (style,) = [text for kind, text in tags.raw if kind == "style"]
    assert assets.csp_hash(style) in policy
    script = [text for kind, text in tags.raw if kind == "script"][-1]
    assert assets.csp_hash(script) in policy
    assert assets.csp_hash(assets.plotly_source()) in policy


def test_nothing_is_fetched(page: str) -> None:
    """No tag refers to anything outside the file, no handler or style attribute is there."""
    for _, attributes in parse(page).tags:
        assert not {"src", "href", "srcset", "action", "data", "poster", "style"} & attributes.keys()
        assert not [a for a in attributes if a.startswith("on")]
    assert not re.search(r"url\(|@import|https?://", assets.text("page.css") + assets.text("page.js"))


def test_hostile_names_stay_text() -> None:
    """Markup in any name makes no tag, in the page and in the data blocks."""
    html = render_page(hostile_result(), windows_s=windows())
    tags = parse(html)
    assert not [t for t, _ in tags.tags if t == "img"]
    assert "<img" not in html
    assert sum(t == "script" for t, _ in tags.tags) == 4
    assert read_page(html)["result"]["name"].startswith("<")


def test_private_facts_stay_out(page: str) -> None:
    """Host, address, URL, folder and key of the fixture are nowhere in the page; hardware and versions are."""
    text = page.replace(assets.plotly_packed(), "")
    for secret in ("SECRET123", "192.168.1.20", "nas.local", "/models/", '"hostname"'):
        assert secret not in text
    for kept in ("made-up GPU 24 GB", "0.0-test", "made-up-8b", "--max-num-seqs 32"):
        assert kept in text


def test_private_facts_can_be_ticked_but_keys_cannot() -> None:
    """include_private keeps host and folder; the key in the URL goes all the same."""
    text = render_page(made_up_result(), include_private=True)
    assert "192.168.1.20" in text
    assert "/models/made-up-8b" in text
    assert "SECRET123" not in text


def test_every_number_is_there_without_scripts(page: str) -> None:
    """Tables have captions and scopes; figures are hidden until scripts run; the language is told."""
    tags = parse(page).tags
    assert ("html", {"lang": "en"}) in tags
    names = [t for t, _ in tags]
    assert names.count("h1") == 1
    assert names.count("table") == names.count("caption") == 4
    assert all("scope" in a or a.get("class") == "corner" for t, a in tags if t == "th")
    rows = [a for t, a in tags if t == "tr" and "data-cell" in a]
    assert len(rows) == len(made_up_result()["cells"])
    assert all(a.get("aria-label") for t, a in tags if a.get("role") in ("img", "group"))


def test_what_a_sweep_asked_more_is_told(page: str) -> None:
    """Searched loads, and requests that froze behind a good mean, have their sections where the sweep has them."""
    assert 'id="rates"' not in page
    assert 'id="stalls"' not in page
    setting = made_up_result()["cells"][0]["setting"]
    found = {
        "setting": setting, "caps": {}, "axis": "request_rate", "load": 2.5, "low": 2.0, "high": 3.0, "probes": 4,
        "ill_defined": False, "reason_templates": ["Up to {x}."], "reason_values": {"x": HOSTILE},
    }  # fmt: skip
    stalled = pd.DataFrame(
        [(0, 7, HOSTILE, 3.0, 900.0, 4.0, 60.0, 150.0, 2, 1500.0)],
        columns=[
            "cell", "request", "class_name", "scheduled_s", "longest_gap_ms", "at_s", "tpot_ms", "gap_target_ms",
            "long_gaps", "stalled_ms",
        ],
    )  # fmt: skip
    more = render_page({**made_up_result(), "max_rates": [found]}, stalled=stalled)
    tags = parse(more).tags
    assert {"rates", "stalls", "fig-rates"} <= {a.get("id") for _, a in tags}
    assert "froze all the same" in more
    assert not [t for t, _ in tags if t == "img"]


def test_ids_are_unique(page: str) -> None:
    """Labels and headings point at one element each."""
    ids = [a["id"] for _, a in parse(page).tags if "id" in a]
    assert len(ids) == len(set(ids))


def test_fifty_cells_fit_into_the_size_limit() -> None:
    """50 cells with all their requests: at most 1.5 MB."""
    tables = made_up_tables((2, 4, 8, 32, 64), (256, 2048), (1.0, 1.5, 2.0, 2.5, 3.0))
    requests = request_table(tables, SweepConfig.model_validate(tables.meta["config"]))
    result = build_result(tables)
    assert len(result["cells"]) == 50
    assert len(render_page(result, requests).encode()) <= MAX_BYTES


def test_vendored_files_have_their_checksums() -> None:
    """plotly and its licence are the files that were taken from the package."""
    vendor = Path(assets.__file__).parent / "vendor"
    lines = (vendor / "SHA256SUMS.txt").read_text().split("\n")
    sums = dict(reversed(line.split("  ")) for line in lines if line)
    assert set(sums) == {"plotly-basic.min.js", "LICENSE-plotly.txt"}
    for name, wanted in sums.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == wanted


def test_plotly_of_the_page_is_plotly_of_the_views() -> None:
    """The bundle's version is the one that the installed plotly.py makes figures for."""
    from plotly.offline import get_plotlyjs_version

    assert f"v{get_plotlyjs_version()}" in assets.plotly_source()[:200]


def test_figures_use_traces_of_the_basic_bundle(page: str) -> None:
    """scatter, bar and pie only."""
    parts = re.search(r'id="goodput-parts">(.*?)</script>', page, re.S)
    assert parts is not None
    for figure in json.loads(parts.group(1))["figures"].values():
        assert {t["type"] for t in figure["data"]} <= {"scatter", "bar", "pie"}


def golden_requests() -> pd.DataFrame:
    """Three requests a cell: in time, stalled, failed."""
    rows = [
        (cell, "chat", ttft, gap, ok)
        for cell in (0, 1, 2)
        for ttft, gap, ok in ((400.0, 40.0, True), (400.0, 700.0, True), (None, None, False))
    ]
    table = pd.DataFrame(rows, columns=["cell", "class_name", "ttft_ms", "gap_p99_ms", "completed"])
    return table.assign(in_window=True, cancelled=False, waited_ms=float("nan")).astype(
        {"ttft_ms": float, "gap_p99_ms": float}
    )


def test_page_is_as_it_was(request: pytest.FixtureRequest) -> None:
    """The page of a small fixed result, word for word. After a wanted change: --update-golden, and look at it."""
    result = json.loads((GOLDEN / "small_result.json").read_text(encoding="utf-8"))
    html = render_page(result, golden_requests(), windows_s={0: 100.0, 1: 100.0, 2: 100.0})
    # the packed bundle depends on the zlib at hand; its unpacked text has its own checksum
    html = html.replace(assets.plotly_packed(), "PLOTLY")
    # what intervals are made with is settled, and tested, with the analysis
    html = re.sub(r'"stat":\{[^}]*\}', '"stat":{}', html)
    golden = GOLDEN / "small_page.html"
    if request.config.getoption("--update-golden"):
        golden.write_text(html, encoding="utf-8")
    assert html == golden.read_text(encoding="utf-8")
