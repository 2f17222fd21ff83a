"""Scraping is gentle and honest: one hint, no key to strangers, no wrong number, no end of the run."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import httpx
import pytest

from runner.engines.scrape import Scraper, Source, wait_idle
from storage.records import EngineSample
from tests.engines_support.http_pages import Reply, Request, serve_pages

Answer = Callable[[Request], Awaitable[Reply]]
RUNNING = 'vllm:num_requests_running{engine="0",model_name="m"} '


def always(status: int, body: str, headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: Request) -> Reply:
        return status, headers or {}, body

    return answer


def scrape(
    answer: Answer, kind: str = "vllm", key: str | None = None, looks: int = 1, metrics_url: str | None = None
) -> tuple[list[EngineSample | None], Scraper]:
    """`looks` samples, one after the other, from a server that answers like this."""

    async def run() -> tuple[list[EngineSample | None], Scraper]:
        async with serve_pages(answer) as base, httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source(kind, base, metrics_url or f"{base}/metrics", key=key), 0.1)
            return [await scraper.sample(7, 0) for _ in range(looks)], scraper

    return asyncio.run(run())


def test_the_key_is_not_sent_to_a_metrics_server_elsewhere() -> None:
    """A metrics_url of another origin is asked without the key."""

    async def run() -> None:
        keys = []

        async def answer(request: Request) -> Reply:
            keys.append(request.headers.get("authorization"))
            return 200, {}, RUNNING + "1\n"

        async with serve_pages(answer) as elsewhere, httpx.AsyncClient(trust_env=False) as http:
            source = Source("vllm", "http://127.0.0.1:9", f"{elsewhere}/metrics", key="swordfish")
            assert await Scraper(http, source, 0.1).sample(0, 0) is not None
        assert keys == [None]

    asyncio.run(run())


def test_a_redirect_is_followed_within_its_origin_only() -> None:
    """307 to /metrics/ is followed (a mounted page does so); 307 to another server is not, and said."""

    async def mounted(request: Request) -> Reply:
        return (307, {"Location": "/metrics/"}, "") if request.path == "/metrics" else (200, {}, RUNNING + "2\n")

    (sample,), _ = scrape(mounted)
    assert sample is not None
    assert sample.running == 2
    (none,), scraper = scrape(always(307, "", {"Location": "http://169.254.169.254/latest"}))
    assert none is not None
    assert none.source == "none"
    assert scraper.hint is not None
    assert "sends elsewhere" in scraper.hint


def test_a_redirect_to_nowhere_is_no_page() -> None:
    """302 without a Location costs this look, not the cell."""
    (sample,), scraper = scrape(always(302, ""))
    assert sample is None
    assert not scraper.blind


def test_an_endless_redirect_ends() -> None:
    """A page that sends to itself for ever is given up."""
    (sample,), scraper = scrape(always(307, "", {"Location": "/metrics"}))
    assert sample is not None
    assert sample.source == "none"
    assert scraper.blind


def test_a_failing_scrape_leaves_no_row_and_the_next_one_counts() -> None:
    """500 is not "nothing is running": no row; once it works again there is one."""
    replies = iter([(500, "oops"), (200, RUNNING + "3\n")])

    async def answer(_: Request) -> Reply:
        status, body = next(replies)
        return status, {}, body

    (failed, sample), scraper = scrape(answer, looks=2)
    assert failed is None
    assert sample is not None
    assert sample.running == 3
    assert scraper.hint is None


def test_a_page_without_end_is_not_read_to_its_end() -> None:
    """Nine megabytes are no metrics page."""
    _, scraper = scrape(always(200, "x" * 9_000_000))
    assert scraper.hint is not None
    assert "does not end" in scraper.hint


def test_a_big_page_is_read_whole() -> None:
    """Two thousand other series around the one that matters, read in a thread."""
    other = "".join(f'http_request_seconds_bucket{{le="{n}"}} {n}\n' for n in range(4000))
    (sample,), _ = scrape(always(200, other + RUNNING + "5\n" + other))
    assert sample is not None
    assert sample.running == 5


def test_a_sample_is_dated_in_the_middle_of_its_request() -> None:
    """The clock said 100 before and 140 after, the cell began at 20: 120 - 20 = 100 ns."""

    async def run() -> None:
        ticks = iter([100, 140])
        async with serve_pages(always(200, RUNNING + "1\n")) as base, httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source("vllm", base, f"{base}/metrics"), 0.1, now_ns=lambda: next(ticks))
            sample = await scraper.sample(3, origin_ns=20)
        assert sample == EngineSample(3, 100, "metrics", 40 / 1e6, running=1, engines=1)

    asyncio.run(run())


def test_watch_samples_until_it_is_stopped_and_goes_easy_on_a_slow_page() -> None:
    """A page that takes 0.1 s is asked for at most a quarter of the time, though 0.01 s was wanted."""

    async def run() -> None:
        async def slow(_: Request) -> Reply:
            await asyncio.sleep(0.1)
            return 200, {}, RUNNING + "1\n"

        async with serve_pages(slow) as base, httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source("vllm", base, f"{base}/metrics"), 0.01)
            rows: list[EngineSample] = []
            stop = asyncio.Event()

            def keep(row: EngineSample) -> None:
                rows.append(row)
                if len(rows) == 4:
                    stop.set()

            await asyncio.wait_for(scraper.watch(1, 0, keep, stop), 60)
        gaps_ns = [b.at_ns - a.at_ns for a, b in itertools.pairwise(rows)]
        assert min(gaps_ns) >= 0.35e9  # 0.1 s of scrape and three times that of rest

    asyncio.run(run())


def test_watch_ends_by_itself_where_nothing_can_be_seen() -> None:
    """A server without metrics gives one row that says so, and no further requests."""

    async def run() -> None:
        rows: list[EngineSample] = []
        async with serve_pages(always(404, "")) as base, httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source("vllm", base, f"{base}/metrics"), 0.1)
            await asyncio.wait_for(scraper.watch(0, 0, rows.append, asyncio.Event()), 10)
        assert [row.source for row in rows] == ["none"]

    asyncio.run(run())


def test_wait_idle_wants_two_quiet_looks_in_a_row() -> None:
    """0 then 1 then 0, 0: a request between two looks starts the count anew."""

    async def run() -> None:
        running = iter([2, 0, 1, 0, 0, 9])

        async def answer(_: Request) -> Reply:
            return 200, {}, f"{RUNNING}{next(running)}\n"

        async with serve_pages(answer) as base, httpx.AsyncClient(trust_env=False) as http:
            assert await wait_idle(Scraper(http, Source("vllm", base, f"{base}/metrics"), 0.1), 30, pause_s=0.01)
        assert next(running) == 9

    asyncio.run(run())


@pytest.mark.parametrize(("reply", "idle"), [((404, ""), True), ((200, RUNNING + "1\n"), False), ((500, ""), False)])
def test_wait_idle_where_metrics_are_missing_or_never_quiet(reply: tuple[int, str], idle: bool) -> None:
    """No metrics: nothing to wait for. Always busy or always failing: false at the limit."""

    async def run() -> None:
        async with serve_pages(always(*reply)) as base, httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source("vllm", base, f"{base}/metrics"), 0.1)
            assert await wait_idle(scraper, limit_s=0.3, pause_s=0.05) is idle

    asyncio.run(run())


def test_a_server_without_a_metrics_page_is_blind_from_the_start() -> None:
    """A bare OpenAI-compatible server: no request, one row "none", a hint that all else is measured."""

    async def run() -> None:
        async with httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source("openai", "http://127.0.0.1:9", None), 0.1)
            sample = await scraper.sample(0, 0)
        assert scraper.blind
        assert sample is not None
        assert sample.source == "none"
        assert scraper.hint == "this server shows no metrics; what the client sees is measured all the same"

    asyncio.run(run())


SLOTS = '[{"id":0,"n_ctx":2048,"is_processing":true,"n_prompt_tokens":81},{"id":1,"n_ctx":2048,"is_processing":false}]'


def test_slots_tell_what_runs_when_metrics_are_off() -> None:
    """llama-server without --metrics: its slot list gives what runs and how many could; the hint is still given."""

    async def answer(request: Request) -> Reply:
        return (200, {}, SLOTS) if request.path == "/slots" else (501, {}, "")

    (sample, _), scraper = scrape(answer, "llama_cpp", looks=2)
    assert sample is not None
    assert (sample.source, sample.running, sample.seats, sample.waiting) == ("slots", 1, 2, None)
    assert not scraper.blind
    assert "--metrics" in str(scraper.hint)


def test_koboldcpp_tells_on_its_status_page() -> None:
    """It has no metrics page; its status page says whether it works and how many wait."""

    async def run() -> None:
        async def answer(request: Request) -> Reply:
            return (200, {}, '{"queue":2,"idle":0}') if request.path == "/api/extra/perf" else (404, {}, "")

        async with serve_pages(answer) as base, httpx.AsyncClient(trust_env=False) as http:
            sample = await Scraper(http, Source("koboldcpp", base, None), 0.1).sample(0, 0)
        assert sample is not None
        assert (sample.source, sample.running, sample.waiting) == ("status", 1, 2)

    asyncio.run(run())


@pytest.mark.parametrize(("told", "start_s"), [("2166430487", 2166430487.0), ("soon", None), ("-1", None)])
def test_the_start_of_the_process_is_kept(told: str, start_s: float | None) -> None:
    """llama-server dates its process in a header of every answer: another date later is another process."""
    headers = {"Process-Start-Time-Unix": told}
    (sample,), _ = scrape(always(200, "llamacpp:requests_processing 1\n", headers), "llama_cpp")
    assert sample is not None
    assert sample.server_start_s == start_s


def test_a_metrics_page_named_for_an_unknown_server_is_read() -> None:
    """kind = "openai" with its own metrics_url: the names of every known server are looked for."""
    (sample,), _ = scrape(always(200, RUNNING + "3\n"), "openai")
    assert sample is not None
    assert (sample.source, sample.running) == ("metrics", 3)


def test_a_page_that_never_answers_does_not_stop_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes too long is left out; the one after it counts."""
    monkeypatch.setattr("runner.engines.scrape._TIMEOUT_S", 0.2)
    stuck = iter([True, False])

    async def answer(_: Request) -> Reply:
        if next(stuck):
            await asyncio.sleep(3600)
        return 200, {}, RUNNING + "1\n"

    (failed, sample), scraper = scrape(answer, looks=2)
    assert failed is None
    assert sample is not None
    assert not scraper.blind


@pytest.mark.parametrize("body", ['{"error":"Unexpected endpoint or method"}', "python_info 1\n", ""])
def test_a_page_without_a_known_metric_tells_nothing_until_it_does(body: str) -> None:
    """Some servers answer any path with 200 and an error object, others show a metric from its first event on: nothing
    is claimed to be told, the hint says why, and goes when the metrics come."""
    pages = iter([body, RUNNING + "1\n"])

    async def answer(_: Request) -> Reply:
        return 200, {}, next(pages)

    async def run() -> None:
        async with serve_pages(answer) as base, httpx.AsyncClient(trust_env=False) as http:
            scraper = Scraper(http, Source("vllm", base, f"{base}/metrics"), 0.1)
            sample = await scraper.sample(0, 0)
            assert sample is not None
            assert (sample.source, sample.running, scraper.blind) == ("none", None, False)
            assert "none of the metrics that are known of vLLM" in str(scraper.hint)
            sample = await scraper.sample(0, 0)
            assert sample is not None
            assert (sample.source, sample.running, scraper.hint) == ("metrics", 1, None)

    asyncio.run(run())
