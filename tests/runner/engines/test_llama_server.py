"""A real llama.cpp server under our control: started, set, watched, ended."""

import asyncio
from pathlib import Path

import httpx
import pytest

from runner.engines.address import free_port, port_is_taken
from runner.engines.running import Running
from runner.engines.scrape import Scraper, Source, wait_idle
from runner.engines.server import Server
from runner.errors import SettingFailed
from tests.engines_support.llama import llama_installed, random_gguf
from tests.engines_support.make_gguf import Size
from tests.engines_support.sweeps import llama_sweep

pytestmark = [pytest.mark.llama, pytest.mark.skipif(not llama_installed(), reason="xllamacpp is not installed")]
COMPLETION = {"prompt": "the server sends", "max_tokens": 40, "temperature": 0}


def scraper_of(http: httpx.AsyncClient, running: Running) -> Scraper:
    source = Source("llama_cpp", running.base_url, running.metrics_url, start_line=running.start_line)
    return Scraper(http, source, 0.1)


def test_each_setting_is_a_fresh_server_with_its_own_slots(tmp_path: Path) -> None:
    """-np follows the setting, counters begin anew, and nothing listens after the end."""

    async def run() -> None:
        port = free_port()
        server = Server(llama_sweep(port, {"max_num_seqs": [1, 4]}, "-np", "{max_num_seqs}", "-c", "2048"), tmp_path)
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            try:
                for slots in (1, 4):
                    running = await server.apply({"max_num_seqs": slots})
                    assert len((await http.get(f"http://127.0.0.1:{port}/slots")).json()) == slots
                    scraper = scraper_of(http, running)
                    before = await scraper.sample(0, 0)
                    reply = (await http.post(f"{running.base_url}/completions", json=COMPLETION)).json()
                    after = await scraper.sample(0, 0)
                    assert before is not None
                    assert after is not None
                    assert (before.source, before.prompt_tokens_total, before.generation_tokens_total) == (
                        "metrics",
                        0,
                        0,
                    )
                    assert after.generation_tokens_total == reply["usage"]["completion_tokens"] == 40
                    assert after.prompt_tokens_total == reply["usage"]["prompt_tokens"]
                    assert after.iteration_seqs_total == after.iterations_total  # one request: one sequence per step
                    assert await wait_idle(scraper, limit_s=5)
            finally:
                await server.stop()
        assert not port_is_taken("127.0.0.1", port)

    asyncio.run(run())


def test_running_waiting_and_kv_use_are_seen_under_load(tmp_path: Path) -> None:
    """One slot, three long streams: one runs, two wait, and the cache fills; afterwards the server is idle again."""

    async def run() -> None:
        server = Server(llama_sweep(free_port(), {}, "-np", "1", "-c", "4096", "-m", str(slow)), tmp_path)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            try:
                running = await server.apply({})
                scraper = scraper_of(http, running)
                body = COMPLETION | {"max_tokens": 400}
                posts = [asyncio.create_task(http.post(f"{running.base_url}/completions", json=body)) for _ in range(3)]
                seen = await scraper.sample(0, 0)
                while seen is None or (seen.running, seen.waiting) != (1, 2) or not seen.kv_cache_usage:
                    assert not all(p.done() for p in posts)
                    seen = await scraper.sample(0, 0)
                assert 0 < seen.kv_cache_usage < 404 / 4096 + 0.01
                assert not await wait_idle(scraper, limit_s=0.0)
                await asyncio.gather(*posts)
                assert await wait_idle(scraper, limit_s=10)
            finally:
                await server.stop()

    slow = random_gguf(Size(hidden=256, layers=8, ffn=768))
    asyncio.run(run())


@pytest.mark.parametrize(
    ("flags", "words", "kind"),
    [
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag", "bad_command"),
        (["-m", "nowhere.gguf"], "nowhere.gguf", "exited"),
    ],
)
def test_a_setting_that_llama_cpp_refuses_fails_with_its_own_words(
    tmp_path: Path, flags: list[str], words: str, kind: str
) -> None:
    """A bad flag (a fault of the start line) or a missing model: exit code and the engine's last lines."""
    server = Server(llama_sweep(free_port(), {}, *flags), tmp_path)
    with pytest.raises(SettingFailed) as failed:
        asyncio.run(server.apply({}))
    assert failed.value.error_kind == kind
    assert failed.value.exit_code not in (None, 0)
    assert words in str(failed.value.log_tail)


def test_metrics_that_are_switched_off_leave_the_slots(tmp_path: Path) -> None:
    """Without --metrics the running count and KV use still come from /slots, and the hint names the flag."""

    async def run() -> None:
        config = llama_sweep(free_port(), {}, "-np", "2", "-c", "512")
        command = [part for part in config.control.command or () if part != "--metrics"]
        config = config.model_copy(update={"control": config.control.model_copy(update={"command": tuple(command)})})
        server = Server(config, tmp_path)
        async with httpx.AsyncClient(trust_env=False) as http:
            try:
                scraper = scraper_of(http, await server.apply({}))
                sample = await scraper.sample(0, 0)
                assert sample is not None
                assert (sample.source, sample.running, sample.kv_cache_usage) == ("slots", 0, 0)
                assert scraper.hint == "start llama-server with --metrics to see its queue and batch"
            finally:
                await server.stop()

    asyncio.run(run())
