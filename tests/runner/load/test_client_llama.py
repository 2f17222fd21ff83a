"""Our client against a real llama.cpp server, which promises keep-alive and closes after every streamed answer."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest

from runner.load.client import Result, Slot, Target, run_request
from runner.load.transport import StampedTransport
from runner.probe import Detected, detect, probe
from runner.protocols.facts import Ask, ServerParams
from tests.engines_support.llama import llama_installed, running_llama

pytestmark = [pytest.mark.llama, pytest.mark.skipif(not llama_installed(), reason="xllamacpp is not installed")]


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """Base URL of a server with four slots."""
    with running_llama("-np", "4", "-c", "4096", "--metrics") as url:
        yield url


@pytest.mark.parametrize("reuse", [True, False])
def test_no_request_is_lost_to_its_closed_connections(llama: str, reuse: bool) -> None:
    """50 requests on four workers: all answered with the length asked for, with and without reuse of connections."""

    async def run() -> list[Result]:
        async with httpx.AsyncClient(transport=StampedTransport(allow=()), trust_env=False) as client:
            target = Target(llama, reuse=reuse)
            results: list[Result] = []

            async def work() -> None:
                while len(results) < 50:
                    results.append(await run_request(client, target, Ask("hello", None, 4), Slot(time.monotonic_ns())))

            await asyncio.gather(*(work() for _ in range(4)))
            return results

    results = asyncio.run(run())
    assert [r.record.error_detail for r in results if r.record.outcome != "ok"] == []
    assert {r.record.output_tokens for r in results} == {4}
    assert {r.record.output_tokens_source for r in results} == {"usage"}
    assert sum(r.record.resends for r in results) <= 4  # one lesson per worker at most


def test_it_is_recognised_with_its_metrics_and_parameters(llama: str) -> None:
    """Detection finds kind, dialect, metrics and the parameters that llama.cpp takes."""

    async def run() -> Detected:
        async with httpx.AsyncClient(transport=StampedTransport(allow=()), trust_env=False) as client:
            return await detect(client, llama)

    found = asyncio.run(run())
    assert (found.kind, found.api, found.metrics) == ("llama_cpp", "openai_chat", True)
    assert found.params == ServerParams(cache_prompt=True)
    assert found.model in found.models


@pytest.mark.parametrize("api", ["openai_chat", "openai_completions", "llamacpp_completion"])
def test_each_of_its_dialects_is_probed(llama: str, api: str) -> None:
    """A probe in each dialect gives text, counts and times that add up."""
    answer = asyncio.run(probe(f"{llama}/v1", api=api, max_tokens=6))
    assert (answer["outcome"], answer["error_detail"]) == ("ok", None)
    assert answer["text"]
    assert answer["output_tokens"] == 6
    gaps = answer["chunk_gaps_ms"]
    assert isinstance(gaps, list)
    assert isinstance(answer["ttft_ms"], float)
    assert isinstance(answer["last_token_ms"], float)
    assert answer["ttft_ms"] + sum(gaps) == pytest.approx(answer["last_token_ms"], abs=0.01)


def test_a_prompt_beyond_the_context_is_said(llama: str) -> None:
    """400 for a prompt that is too long becomes context_overflow with the server's words."""
    answer = asyncio.run(probe(llama, api="openai_chat", prompt="word " * 3000))
    assert (answer["outcome"], answer["error_kind"], answer["http_status"]) == ("error", "context_overflow", 400)
