"""`goodput probe` as a user types it, in every dialect that a real llama.cpp server and the built-in engine speak."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.cli import main
from runner.environment import kernel_stamps_available
from tests.engines_support.llama import llama_installed, running_llama
from tests.support.running_engine import running_engine

needs_llama = pytest.mark.skipif(not llama_installed(), reason="xllamacpp is not installed")
CLOCK = "kernel" if kernel_stamps_available() else "user"
MAX_TOKENS = "7"
Probed = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """The random model has no end token: every answer is as long as allowed."""
    with running_llama("-np", "2", "-c", "2048") as url:
        yield url


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with running_engine("--cost", "a=20,b=0.1", "--model", "mine") as url:
        yield url


@pytest.fixture
def probed(capsys: pytest.CaptureFixture[str]) -> Probed:
    """Exit code and the printed request object of `goodput probe URL` with these flags."""

    def probe(url: str, *flags: str) -> tuple[int, dict[str, Any]]:
        code = main(["probe", url, "--max-tokens", MAX_TOKENS, "--json", *flags])
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, answer

    return probe


def check_answer(code: int, answer: dict[str, Any]) -> None:
    """One token a chunk on both servers, so counts by the server, by chunks and by gaps must agree."""
    assert (code, answer["outcome"], answer["error_detail"]) == (0, "ok", None)
    assert (answer["output_tokens"], answer["token_events"]) == (7, 7)
    assert answer["output_tokens_source"] in ("usage", "timings")
    assert (answer["clock"], answer["finish_reason"], answer["malformed_events"]) == (CLOCK, "length", 0)
    assert answer["text"]
    gaps = answer["chunk_gaps_ms"]
    # a random model of 10 M parameters may be done before a busy machine looks at its first token
    assert (gaps is None) == ("stream_buffered" in answer["flags"])
    if gaps is not None:
        assert len(gaps) == 6
        assert answer["ttft_ms"] + sum(gaps) == pytest.approx(answer["last_token_ms"], abs=0.01)


@pytest.mark.llama
@needs_llama
@pytest.mark.parametrize("api", [None, "openai_chat", "openai_completions", "llamacpp_completion"])
def test_each_dialect_of_llama_cpp_tells_the_same_counts(llama: str, probed: Probed, api: str | None) -> None:
    """Seven tokens asked, seven told, each with the kernel's time; without --api the dialect is found out."""
    code, answer = probed(f"{llama}/v1", "--prompt", f"Hello {api}", *(["--api", api] if api else []))
    check_answer(code, answer)
    assert answer["prompt_tokens"] > 0


@pytest.mark.llama
@needs_llama
@pytest.mark.parametrize("api", ["ollama_chat", "tgi_generate_stream"])
def test_a_dialect_that_llama_cpp_does_not_speak_is_said(llama: str, probed: Probed, api: str) -> None:
    """No such route: exit code 1 and the server's own words."""
    code, answer = probed(llama, "--api", api)
    assert (code, answer["outcome"], answer["http_status"]) == (1, "error", 404)
    assert "File Not Found" in answer["error_detail"]


@pytest.mark.parametrize("api", [None, "openai_chat", "openai_completions"])
def test_the_built_in_engine_is_probed_in_both_its_dialects(engine: str, probed: Probed, api: str | None) -> None:
    """Seven tokens asked, seven told, each with the kernel's time; without --api the dialect is found out."""
    check_answer(*probed(engine, *(["--api", api] if api else [])))


def test_a_probe_as_it_is_typed(engine: str) -> None:
    """A process of its own prints the same object, and nothing goes wrong beside it."""
    command = [sys.executable, "-m", "app.cli", "probe", engine, "--max-tokens", MAX_TOKENS, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    check_answer(done.returncode, json.loads(done.stdout))
