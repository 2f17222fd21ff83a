"""Looks at a server's own metrics while it is measured: a sample every scrape_interval_s, gently."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from runner.engines.address import same_origin, server_root
from runner.engines.catalogue import KINDS
from runner.engines.metric_names import ANY_METRICS
from runner.engines.metrics_text import read_fields, read_iteration_buckets
from runner.engines.slots_text import kv_is_unified, parse_slots
from runner.engines.status_text import parse_status
from runner.protocols.scrub import scrub
from storage.records import EngineSample

_TIMEOUT_S = 5.0
_LONGEST_PAUSE_S = 5.0
_LARGEST_PAGE = 8_000_000  # bytes; an address that streams without end is no metrics page
_THREAD_FROM = 100_000  # characters; below that, handing over costs more than reading
_REDIRECTS = 3
_FOR_NOW = (408, 425, 429)  # refusals that the next look may not meet


@dataclass(frozen=True)
class Source:
    """Where and how a server shows its state."""

    kind: str
    base_url: str
    metrics_url: str | None
    model: str | None = None  # only its series are counted where several models share the page
    key: str | None = field(default=None, repr=False)  # sent to the server's own origin only
    start_line: str | None = None


@dataclass(frozen=True)
class _Page:
    """What one address said: `text` when it could be read, else `gone` when asking again is useless."""

    text: str | None = None
    gone: bool = False
    hint: str | None = None
    started_s: float | None = None  # when the server's process began, in llama.cpp's response header


class Scraper:
    """The watcher of one running server. `hint`: one sentence, once, when it cannot see what it should."""

    def __init__(
        self, http: httpx.AsyncClient, source: Source, interval_s: float, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        kind = KINDS[source.kind]
        self.hint: str | None = None if source.metrics_url else kind.metrics_hint
        self._http = http
        self._source = source
        self._interval_s = interval_s
        self._now_ns = now_ns
        self._names = kind.metrics or ANY_METRICS
        self._hint = kind.metrics_hint
        self._nothing_known = scrub(f"{source.metrics_url} shows none of the metrics that are known of {kind.title}")
        self._metrics_url = source.metrics_url
        self._slots_url = server_root(source.base_url) + kind.slots_path if kind.slots_path else None
        self._status_url = server_root(source.base_url) + kind.status_path if kind.status_path else None
        self._kv_unified = kv_is_unified(source.start_line)

    @property
    def blind(self) -> bool:
        """True when the server shows nothing: asking again is useless."""
        return self._metrics_url is None and self._slots_url is None and self._status_url is None

    async def watch(self, cell: int, origin_ns: int, keep: Callable[[EngineSample], None], stop: asyncio.Event) -> None:
        """Samples until `stop`. A scrape that fails is left out; a slow one makes the next ones rarer."""
        failures = 0
        while not stop.is_set():
            began_ns = self._now_ns()
            sample = await self.sample(cell, origin_ns)
            if sample is not None:
                keep(sample)
            if self.blind:
                return
            failures = 0 if sample is not None else failures + 1
            took_s = (self._now_ns() - began_ns) / 1e9
            # never more than a quarter of the time in scrapes: they cost the server too
            pause_s = max(self._interval_s * 2 ** min(failures, 5) - took_s, 3 * took_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), min(pause_s, _LONGEST_PAUSE_S))

    async def sample(self, cell: int, origin_ns: int) -> EngineSample | None:
        """One look, its time the middle of the request. Null when it failed this time; source "none" when the server
        shows nothing at all."""
        began_ns = self._now_ns()
        metrics = await self._read(self._metrics_url)
        ended_ns = self._now_ns()
        beside = [await self._read(self._slots_url), await self._read(self._status_url)]
        self._forget(metrics, *beside)
        facts, source = self._beside(*beside)
        if source != "none" and metrics.text is None:
            ended_ns = self._now_ns()
        if metrics.text is not None:
            told = {k: v for k, v in (await self._told(metrics.text)).items() if v is not None}
            if self._is_known(told):
                facts, source = facts | told, "metrics"
        if source == "none" and metrics.text is None and not self.blind:
            return None
        started_s = next((p.started_s for p in (metrics, *beside) if p.started_s is not None), None)
        facts = {"server_start_s": started_s} | facts
        middle_ns = (began_ns + ended_ns) // 2
        return EngineSample(cell, middle_ns - origin_ns, source, (ended_ns - began_ns) / 1e6, **facts)

    def _is_known(self, told: dict[str, Any]) -> bool:
        """False for a page without any of the metrics looked for; they may come with the first request, so it is asked
        on, and the hint goes when they do."""
        if told.keys() - {"server_start_s"}:
            if self.hint == self._nothing_known:
                self.hint = None
            return True
        self.hint = self.hint or self._nothing_known
        return False

    def _forget(self, metrics: _Page, slots: _Page, status: _Page) -> None:
        """Addresses that will never tell anything are not asked again."""
        if metrics.gone:
            self._metrics_url, self.hint = None, metrics.hint or self._hint
        if slots.gone:
            self._slots_url = None
        if status.gone:
            self._status_url = None

    def _beside(self, slots: _Page, status: _Page) -> tuple[dict[str, Any], str]:
        """What a slot list or a status page tells, and which of them it was."""
        if slots.text is not None and (seen := parse_slots(slots.text, self._kv_unified)):
            use = seen.kv_cache_usage
            facts = {"running": float(seen.running), "seats": float(seen.count)}
            return {**facts, "kv_cache_usage": use, "kv_cache_usage_max": use}, "slots"
        if status.text is not None and (told := parse_status(status.text)):
            return dict(told), "status"
        return {}, "none"

    async def _told(self, text: str) -> dict[str, Any]:
        if len(text) < _THREAD_FROM:
            return self._read_all(text)
        return await asyncio.to_thread(self._read_all, text)

    def _read_all(self, text: str) -> dict[str, Any]:
        buckets = read_iteration_buckets(text, self._source.model)
        return {**read_fields(text, self._names, self._source.model), "iteration_tokens_buckets": buckets}

    async def _read(self, url: str | None) -> _Page:
        """One page as text, following redirects within its own origin; the key goes to the server's origin only."""
        if url is None:
            return _Page()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._get(url, _REDIRECTS)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL):
            return _Page()

    async def _get(self, url: str, redirects: int) -> _Page:
        key = self._source.key if same_origin(url, self._source.base_url) else None
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with self._http.stream("GET", url, headers=headers, follow_redirects=False) as response:
            if not response.has_redirect_location:
                return await _page(response)
            onward = str(response.url.join(response.headers["location"]))
        if redirects == 0 or not same_origin(onward, url):
            return _Page(
                gone=True, hint=scrub(f"{url} sends elsewhere ({onward}), which is not followed; mend metrics_url")
            )
        return await self._get(onward, redirects - 1)


async def _page(response: httpx.Response) -> _Page:
    if response.status_code in (401, 403):
        hint = f"{response.url} wants a key ({response.status_code}); name its variable in backend.api_key_env"
        return _Page(gone=True, hint=scrub(hint))
    if response.status_code == 501 or (response.is_client_error and response.status_code not in _FOR_NOW):
        return _Page(gone=True)
    if response.status_code != 200:
        return _Page()
    return await _body(response)


async def _body(response: httpx.Response) -> _Page:
    data = bytearray()
    async for part in response.aiter_bytes():
        data += part
        if len(data) > _LARGEST_PAGE:
            hint = f"{response.url} is no metrics page: it does not end; mend backend.metrics_url"
            return _Page(gone=True, hint=scrub(hint))
    text = data.decode("utf-8", "replace")
    if text.lstrip().startswith("<"):  # a web interface that answers any path with itself
        return _Page(gone=True, hint=scrub(f"{response.url} is a web page, no metrics page; mend backend.metrics_url"))
    return _Page(text=text, started_s=_start_time(response.headers.get("process-start-time-unix")))


def _start_time(value: str | None) -> float | None:
    return float(value) if value is not None and value.isascii() and value.isdigit() else None


async def wait_idle(scraper: Scraper, limit_s: float, pause_s: float = 0.2) -> bool:
    """Between cells: true once two looks in a row show nobody running or waiting; false when the limit came first.

    A server that does not tell is idle as far as anyone can know (our own streams have ended by then).
    """
    deadline = time.monotonic() + limit_s
    idle_looks = 0
    while time.monotonic() < deadline or idle_looks:
        sample = await scraper.sample(0, 0)
        if scraper.blind or (sample is not None and sample.running is None):
            return True
        idle_looks = 0 if sample is None or sample.running or sample.waiting else idle_looks + 1
        if idle_looks == 2:
            return True
        await asyncio.sleep(pause_s)
    return False
