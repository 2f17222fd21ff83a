"""A running server as a cell uses it: found out once, prompts calibrated, requests sent, metrics watched."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import httpx

from runner.cold_start import cold_start_note, first_token_ms
from runner.config import Scalar, SweepConfig
from runner.engines.knowledge import setting_oddities
from runner.engines.running import Running
from runner.engines.scrape import Scraper, Source, wait_idle
from runner.errors import SettingFailed
from runner.load.client import Slot, Target, run_request, secrets_of
from runner.load.clock import Clock
from runner.load.sender import Sender, SenderFacts
from runner.load.transport import StampedTransport
from runner.load.workload import PromptScale, RequestSpec, make_prompt
from runner.probe import Detected, detect
from runner.protocols.facts import Ask
from runner.protocols.scrub import hide
from storage.records import EngineSample

CALIBRATION_WORDS = (16, 96)


@dataclass
class Measured:
    """Made by `find`; closed by its sweep."""

    client: httpx.AsyncClient
    clock: Clock
    sender_facts: SenderFacts
    sender: Sender
    scraper: Scraper
    detected: Detected

    @classmethod
    async def find(
        cls, config: SweepConfig, setting: Mapping[str, Scalar], running: Running, clock: Clock
    ) -> "Measured":
        """Asks the server what it speaks and how it counts prompt tokens. Raises SettingFailed if it can't be used."""
        backend = config.backend
        transport = StampedTransport(clock=clock)
        client = httpx.AsyncClient(transport=transport, trust_env=False, timeout=30.0)
        try:
            wanted = setting.get("model", backend.model)
            detected = await detect(
                client,
                running.base_url,
                api=backend.api,
                model=str(wanted) if wanted is not None else None,
                api_key_env=backend.api_key_env,
                kind=backend.kind,
            )
            odd = [o.sentence for o in setting_oddities(backend.kind, None, config, setting)]
            detected = replace(detected, notes=(*running.notes, *detected.notes, *odd))
            if any(c.shared_prefix_tokens for c in config.classes):  # the cache is part of the workload then
                detected = replace(detected, params=replace(detected.params, cache_prompt=False))
            target = Target(
                running.base_url,
                detected.api,
                detected.params,
                backend.api_key_env,
                limit_s=config.run.request_timeout_s,
                reuse=config.run.connections != "new",
            )
            scale, warm_ttft_ms = await calibrate(client, target, detected.model)
            note = cold_start_note(detected.load_ms, detected.ttft_ms, warm_ttft_ms)
            detected = replace(detected, notes=(*detected.notes, note)) if note else detected
        except BaseException:
            await client.aclose()
            raise
        key = os.environ.get(backend.api_key_env) if backend.api_key_env else None
        # a hook's line has the user's own words, not the engine's flags
        line = running.start_line if config.control.mode != "command" else None
        source = Source(backend.kind, running.base_url, running.metrics_url, detected.model, key, line)
        prefixes = {c.name: c.shared_prefix_tokens for c in config.classes}
        preopen = config.run.connections == "preopened"
        facts = SenderFacts(target, detected.model, scale, prefixes, preopen)
        scraper = Scraper(client, source, config.run.scrape_interval_s)
        return cls(client, clock, facts, Sender(client, transport, facts), scraper, detected)

    def facts(self) -> dict[str, object]:
        """What was found out about the server, for the cell's row."""
        secrets = secrets_of(self.sender_facts.target)
        notes = [*self.detected.notes, *([self.scraper.hint] if self.scraper.hint else [])]
        return {
            "api": self.sender_facts.target.api,
            "model": self.sender_facts.model and hide(self.sender_facts.model, secrets),
            "kind": self.detected.kind,
            "params": asdict(self.sender_facts.target.params),
            "tokens_per_word": self.sender_facts.scale.tokens_per_word,
            "overhead_tokens": self.sender_facts.scale.overhead_tokens,
            "notes": [hide(note, secrets) for note in notes],
        }

    async def scrape(self, cell: int, origin_ns: int, keep: Callable[[EngineSample], None]) -> None:
        """Watches the server until cancelled."""
        await self.scraper.watch(cell, origin_ns, keep, asyncio.Event())

    async def wait_idle(self, limit_s: float) -> bool:
        return await wait_idle(self.scraper, limit_s)

    async def close(self) -> None:
        await self.client.aclose()


async def calibrate(client: httpx.AsyncClient, target: Target, model: str | None) -> tuple[PromptScale, float | None]:
    """Two requests of two tokens tell how many tokens the server counts per word and for its template, and how soon a
    first token comes (ms from sending, the sooner of both) once the model is there.

    They warm the server up as well. A server that does not count prompt tokens gets one word per token; one whose
    context is too small for the longer prompt is judged by the shorter alone.
    Raises SettingFailed when it refuses an ordinary request.
    """
    counts: list[int] = []
    firsts: list[float | None] = []
    for i, words in enumerate(CALIBRATION_WORDS):
        spec = RequestSpec(i, "calibration", 0, None, words, 1, time.time_ns(), i)
        ask = Ask(make_prompt(spec, PromptScale()), model, 2)
        slot = Slot(time.monotonic_ns(), class_name="calibration", prompt_tokens_asked=words)
        record = (await run_request(client, target, ask, slot)).record
        if record.error_kind == "context_overflow" and counts:
            break
        if record.outcome != "ok":
            detail = f"the server refused a test request: {record.error_detail}"
            raise SettingFailed(record.error_kind or "http_error", detail)
        counts.append(record.prompt_tokens or 0)
        firsts.append(first_token_ms(record))
    return prompt_scale(counts), min((ms for ms in firsts if ms is not None), default=None)


def prompt_scale(counts: Sequence[int]) -> PromptScale:
    """From the server's counts for prompts of CALIBRATION_WORDS words; no count, or a senseless one: 1 per word."""
    if not counts or counts[0] <= 0:
        return PromptScale()
    few, many = CALIBRATION_WORDS
    if len(counts) == 1:
        return PromptScale(counts[0] / few)
    per_word = (counts[1] - counts[0]) / (many - few)
    return PromptScale(per_word, counts[0] - few * per_word) if per_word > 0 else PromptScale()
