"""The cases about a server's own metrics: pages read as text, and scraped over real HTTP."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from html import escape
from typing import Any

import httpx
import pytest

from app.export.shared_page import read_page, render_page
from runner.analysis.engine import engine_numbers, increase
from runner.engines.metric_names import LLAMA_CPP_METRICS, SGLANG_METRICS, VLLM_METRICS
from runner.engines.metrics_text import parse_points, read_fields
from runner.engines.scrape import Scraper, Source
from storage.records import EngineSample
from tests.app.views.made_up import made_up_result
from tests.cases.load_cases import load_cases
from tests.engines_support.http_pages import Reply, Request, serve_pages
from tests.support.tables import SECOND, make_tables

CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in load_cases()}
Answer = Callable[[Request], Awaitable[Reply]]


def scrape(answer: Answer, kind: str, looks: int = 1, key: str | None = None) -> tuple[list[EngineSample], Scraper]:
    """`looks` samples, one after the other, from a server that answers like this."""

    async def run() -> tuple[list[EngineSample], Scraper]:
        async with serve_pages(answer) as base, httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source(kind, base, f"{base}/metrics", "m", key), 0.1)
            samples = [await scraper.sample(0, 0) for _ in range(looks)]
            assert all(samples)
            return [s for s in samples if s], scraper

    return asyncio.run(run())


def page(text: str) -> Answer:
    async def answer(request: Request) -> Reply:
        return (200, {}, text) if request.path == "/metrics" else (404, {}, "")

    return answer


@pytest.mark.parametrize("case_id", ["C01"])
def test_the_renamed_kv_gauge_is_read_once_and_its_absence_is_null(case_id: str) -> None:
    """Old name, new name, both: one value. Neither: null, never 0."""
    given, expected = CASES[case_id]["input"], CASES[case_id]["expected"]["kv_cache_usage"]
    for which in ("old", "new", "both"):
        (sample,), _ = scrape(page(given[which]), "vllm")
        assert sample.kv_cache_usage == expected[which], which
    (sample,), _ = scrape(page("vllm:num_requests_running 1\n"), "vllm")
    assert (sample.running, sample.kv_cache_usage) == (1, None)


@pytest.mark.parametrize("case_id", ["C03"])
def test_counters_are_read_with_and_without_their_suffix_and_give_a_rate(case_id: str) -> None:
    """The _total may be there or not, the _created sample is no count; 1,000 tokens in 10 s are 100 a second."""
    given, expected = CASES[case_id]["input"], CASES[case_id]["expected"]
    samples = []
    for which, value in expected["generation_tokens"].items():
        (sample,), _ = scrape(page(given[which]), "vllm")
        assert sample.generation_tokens_total == value, which
        samples.append(sample)
    assert expected["created_ignored"]
    told = [EngineSample(0, at_s * SECOND, "metrics", 1.0, generation_tokens_total=s.generation_tokens_total)
            for at_s, s in zip((0, 10), samples, strict=False)]  # fmt: skip
    grown = increase(make_tables(engine=told).engine, "generation_tokens_total", 0, 11 * SECOND)
    assert grown is not None
    assert grown / 10 == expected["rate_tok_s"]


@pytest.mark.parametrize("case_id", ["C04"])
def test_not_a_number_costs_only_its_own_sample(case_id: str) -> None:
    """NaN, -nan and infinities become null; their neighbours keep their values and the whole is legal JSON."""
    text, expected = CASES[case_id]["input"]["text"], CASES[case_id]["expected"]
    points = {p.name: p.value for p in parse_points(text)}
    assert {k: v for k, v in points.items() if v is not None} == expected["kept"]
    assert {k for k, v in points.items() if v is None} == set(expected["null"])
    assert json.loads(json.dumps(points, allow_nan=False)) == points
    (sample,), scraper = scrape(page(text), "sglang")
    assert (sample.source, sample.running, scraper.blind) == ("metrics", 3, False)
    assert read_fields(text, LLAMA_CPP_METRICS).get("iteration_seqs_total") is None


@pytest.mark.parametrize("case_id", ["C05"])
def test_several_engines_add_up_and_another_model_is_left_out(case_id: str) -> None:
    """Running requests are summed, the KV share averaged, histograms added: over the measured model's engines only."""
    text, expected = CASES[case_id]["input"]["text"], CASES[case_id]["expected"]
    (sample,), _ = scrape(page(text), "vllm")
    assert sample.running == expected["running"]
    assert (sample.running == 0) == expected["idle"]
    assert sample.engines == expected["engines"]
    assert sample.kv_cache_usage == pytest.approx(expected["kv_cache_usage"]["mean"])
    assert sample.kv_cache_usage_max == expected["kv_cache_usage"]["max"]
    assert sample.ttft_s_total is not None
    assert sample.ttft_count is not None
    assert sample.ttft_s_total / sample.ttft_count == expected["server_ttft_mean_s"]
    fresh = EngineSample(0, 0, "metrics", 1.0, ttft_s_total=0.0, ttft_count=0.0)  # as the engines were when they began
    grown = make_tables(engine=[fresh, replace(sample, at_ns=SECOND)]).engine
    numbers = engine_numbers(grown, 0, 2 * SECOND)
    assert numbers["server_ttft_mean_s"] == expected["server_ttft_mean_s"]
    assert numbers["kv_cache_usage_max"] == expected["kv_cache_usage"]["max"]
    assert numbers["kv_cache_usage_mean"] == pytest.approx(expected["kv_cache_usage"]["mean"])
    everything = read_fields(text, VLLM_METRICS)["running"]
    assert everything == expected["running"] + 7  # what the other model runs


@pytest.mark.parametrize("case_id", ["C08"])
@pytest.mark.parametrize("which", ["501", "404"])
def test_switched_off_metrics_are_told_once_and_asked_for_no_more(case_id: str, which: str) -> None:
    """A row that says "none", one hint with the flag; the next looks ask nothing, so nothing is logged each second."""
    given = CASES[case_id]["input"] if which == "501" else CASES[case_id]["input"]["also"]
    asked = []

    async def answer(request: Request) -> Reply:
        asked.append(request.path)
        return given["status"], given.get("headers", {}), given["body"]

    samples, scraper = scrape(answer, "llama_cpp", looks=3)
    assert [(s.source, s.running, s.kv_cache_usage) for s in samples] == [("none", None, None)] * 3
    assert asked == ["/metrics", "/slots"]
    assert scraper.blind
    assert "--metrics" in str(scraper.hint)


@pytest.mark.parametrize("case_id", ["C09"])
def test_metrics_behind_the_key_are_read_with_it(case_id: str, caplog: pytest.LogCaptureFixture) -> None:
    """The backend's key goes to its own origin and into no log; without one, the 401 is said once with its mend."""
    given, expected = CASES[case_id]["input"], CASES[case_id]["expected"]
    caplog.set_level(logging.DEBUG)

    async def answer(request: Request) -> Reply:
        allowed = f"Authorization: {request.headers.get('authorization')}" == given["with_header"]
        reply = given["then"] if allowed else given["without_key"]
        return reply["status"], {}, reply["body"]

    (sample,), scraper = scrape(answer, "llama_cpp", key="test-key")
    assert (sample.running, scraper.hint) == (expected["running"], None)
    assert ("test-key" in caplog.text + repr(scraper._source)) is expected["key_in_logs"]
    samples, scraper = scrape(answer, "llama_cpp", looks=2)
    assert [s.source for s in samples] == ["none", "none"]
    assert "wants a key (401)" in str(scraper.hint)
    assert "backend.api_key_env" in str(scraper.hint)


@pytest.mark.parametrize("case_id", ["C11"])
def test_label_values_with_quotes_and_braces_are_read_whole_and_shown_as_text(case_id: str) -> None:
    """Escapes are undone, the value and the server's own time are found behind them; a page shows the name escaped."""
    text, expected = CASES[case_id]["input"]["text"], CASES[case_id]["expected"]
    (point,) = parse_points(text)
    assert (point.labels["model_name"], point.value) == (expected["model_name"], expected["running"])
    assert point.timestamp_ms == expected["timestamp_ms"]
    assert read_fields(text, VLLM_METRICS, expected["model_name"])["running"] == expected["running"]
    html = render_page({**made_up_result(), "name": expected["model_name"]}, include_private=True)
    assert (f"<title>{escape(expected['model_name'])} " in html) is expected["shown_escaped"]
    assert read_page(html)["result"]["name"] == expected["model_name"]


@pytest.mark.parametrize("word", ["NaN", "nan", "-nan", "+Inf", "-Inf", "Inf", "inf", "infinity", "-NaN", "null", ""])
def test_any_spelling_of_no_number_is_null(word: str) -> None:
    """printf, Go, Java and JSON spell it differently; the value beside it is kept."""
    fields = read_fields(f"sglang:token_usage {word}\nsglang:num_running_reqs 3\n", SGLANG_METRICS)
    assert (fields["kv_cache_usage"], fields["running"]) == (None, 3)


@pytest.mark.parametrize(
    "labels", ['model_name="a}b",engine="0"', 'model_name="a,b=\\"c\\"" , engine="0",', 'x="\\\\"']
)
def test_labels_of_any_shape_leave_the_value_readable(labels: str) -> None:
    """A brace, an escaped quote, a comma at the end, a backslash as the last character."""
    assert read_fields(f"vllm:num_requests_running{{{labels}}} 4\n", VLLM_METRICS)["running"] == 4


@pytest.mark.parametrize(
    ("text", "running"),
    [
        ("vllm:num_requests_running 2\r\nvllm:num_requests_waiting 1\r\n", 2),
        ("vllm:num_requests_running 2.0 1700000000000\n", 2),
        ("vllm:num_requests_running   2e0", 2),
        ('vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running{engine="1"} NaN\n', 1),
        ("# EOF\n", None),
    ],
)
def test_dialects_of_the_text_format(text: str, running: float | None) -> None:
    """CRLF, a time stamp, several blanks, no end of line, one engine of two without a number, an empty page."""
    assert read_fields(text, VLLM_METRICS)["running"] == running


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 501])
def test_every_lasting_refusal_ends_the_asking(status: int) -> None:
    """Asked once, told once."""
    asked = []

    async def answer(request: Request) -> Reply:
        asked.append(request.path)
        return status, {}, "no"

    samples, scraper = scrape(answer, "vllm", looks=2)
    assert [s.source for s in samples] == ["none", "none"]
    assert (len(asked), bool(scraper.hint)) == (1, True)


def test_a_web_page_is_no_metrics_page() -> None:
    """Web interfaces answer any path with 200 and themselves: the server shows nothing, and the hint says why."""
    (sample,), scraper = scrape(page("<!doctype html>\n<html><body>Chat</body></html>"), "vllm")
    assert (sample.source, scraper.blind) == ("none", True)
    assert "web page" in str(scraper.hint)
