"""Probing servers that nobody has described: dialect, model, fields, and failures as request objects."""

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest

from runner.engines.identify import model_names
from runner.errors import SettingFailed
from runner.load.transport import StampedTransport
from runner.probe import Detected, detect, probe, without_refused
from runner.protocols.facts import ServerParams
from tests.support.posting_server import Json, Reply, chat_answer, models, server

KEYS = {
    "outcome", "error_kind", "error_detail", "http_status", "text", "reasoning_text", "finish_reason", "scheduled_ns",
    "sent_ns", "connect_ms", "ttft_ms", "ttft_answer_ms", "last_token_ms", "e2e_ms", "tpot_ms", "chunk_gaps_ms",
    "token_events", "output_tokens", "output_tokens_source", "reasoning_tokens", "prompt_tokens",
    "cached_prompt_tokens", "load_ms", "retry_after_s", "malformed_events", "clock", "flags",
}  # fmt: skip


def found(url: str, **options: Any) -> Detected:  # noqa: ANN401 - passed on
    async def run() -> Detected:
        async with httpx.AsyncClient(transport=StampedTransport(allow=()), trust_env=False) as client:
            return await detect(client, url, **options)

    return asyncio.run(run())


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_a_probe_prints_the_request_object_whatever_the_url_ends_with(end: str) -> None:
    """Base URLs with and without /v1 or a slash reach the same endpoint; the first listed model is asked for."""
    with server({"/v1/models": models("vllm", "first", "second")}, lambda *_: (200, chat_answer())) as (url, posts):
        answer = asyncio.run(probe(url + end))
    assert set(answer) == KEYS
    assert (answer["outcome"], answer["text"], answer["output_tokens"]) == ("ok", "hello", 1)
    assert [(path, body["model"]) for path, body in posts] == [("/v1/chat/completions", "first")]
    assert answer["scheduled_ns"] == 0
    json.dumps(answer, allow_nan=False)


def test_a_probe_takes_any_spelling_of_an_address() -> None:
    """A scheme in capitals or none, a host in capitals, a path of a proxy, a query that is kept."""
    seen: list[str] = []

    def post(path: str, body: Json) -> Reply:
        seen.append(path)
        return 200, chat_answer()

    with server({}, post) as (url, _):
        for end in ("", "/llm/v1/", "/v1?api-version=3"):
            bare = url.removeprefix("http://") + end
            for asked in (f"HTTP://{bare}", bare, f"http://LOCALHOST:{bare.partition(':')[2]}"):
                assert asyncio.run(probe(asked, api="openai_chat", model="m"))["outcome"] == "ok"
    chat = "/v1/chat/completions"
    assert seen == [chat] * 3 + [f"/llm{chat}"] * 3 + [f"{chat}?api-version=3"] * 3


def test_a_probe_with_dialect_and_model_is_exactly_one_request() -> None:
    """Nothing is asked beside the one streamed request that was ordered, and a refusal is not tried again."""
    with server({}, lambda *_: (503, '{"error": "busy"}')) as (url, posts):
        answer = asyncio.run(probe(url, api="openai_chat", model="m", prompt="p", max_tokens=3))
    assert (answer["outcome"], answer["error_kind"], answer["http_status"]) == ("error", "overloaded", 503)
    assert len(posts) == 1
    assert (posts[0][1]["max_tokens"], posts[0][1]["stream"]) == (3, True)
    assert "ignore_eos" not in posts[0][1]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/tokenize", lambda text: {"tokens": [7] * len(text.split())}),  # llama.cpp
        ("/tokenize", lambda text: {"count": len(text.split()) + 1, "tokens": None}),  # vLLM, with a mark in front
        ("/tokenize", lambda text: [{"id": 7}] * len(text.split())),  # TGI
        ("/extras/tokenize/count", lambda text: {"count": len(text.split()) + 1}),  # llama-cpp-python
        ("/api/extra/tokencount", lambda text: {"value": len(text.split()), "ids": []}),  # KoboldCpp
    ],
)
def test_tokens_that_nobody_told_are_counted_by_the_server_s_tokenizer(path: str, told: Any) -> None:  # noqa: ANN401
    """Two chunks of four words: without usage and timings the tokenizer goes before the number of chunks."""
    stream = "".join(f'data: {{"choices": [{{"delta": {{"content": "{t}"}}}}]}}\n\n' for t in ("a b ", "c d"))

    def post(asked: str, body: Json) -> Reply:
        if asked == "/v1/chat/completions":
            return 200, stream + "data: [DONE]\n\n"
        return (200, json.dumps(told(body["prompt"]))) if asked == path else (404, "{}")

    with server({}, post) as (url, _):
        answer = asyncio.run(probe(url, api="openai_chat", model="m"))
    assert (answer["token_events"], answer["output_tokens"], answer["output_tokens_source"]) == (2, 4, "tokenize")
    assert "multi_token_chunks" in answer["flags"]
    assert "tokens_estimated" not in answer["flags"]


def test_without_a_tokenizer_tokens_stay_estimated() -> None:
    """Pages of anything else are no counts."""
    stream = 'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n'
    for page in ("<html>", '{"count": true}', '{"count": -1}', '"many"', "[" * 10_000):
        with server({}, lambda path, _, page=page: (200, stream if "chat" in path else page)) as (url, _):
            answer = asyncio.run(probe(url, api="openai_chat", model="m"))
        assert (answer["output_tokens"], answer["output_tokens_source"]) == (1, "estimated")


def test_a_probe_of_nobody_is_a_request_object_too() -> None:
    """A closed port gives an object with error_kind connect, not an exception."""
    answer = asyncio.run(probe("http://127.0.0.1:9"))
    assert (answer["outcome"], answer["error_kind"]) == ("error", "connect")
    assert set(answer) == KEYS


def test_a_server_that_never_answers_is_not_waited_for_like_a_cold_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and says nothing to any question: told after half a minute (here less), not five or ten."""
    monkeypatch.setattr("runner.probe.LOOK_LIMIT_S", 0.1)
    monkeypatch.setattr("runner.probe.MUTE_LIMIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        assert asyncio.run(probe(url))["error_kind"] == "timeout"
        with pytest.raises(SettingFailed) as failed:
            found(url)
        assert failed.value.error_kind == "timeout"


def test_ollama_is_spoken_to_in_its_own_dialect() -> None:
    """A server with Ollama's pages gets /api/chat, and its first model is found in /api/tags."""
    line = {"model": "tiny", "message": {"role": "assistant", "content": "hi"}, "done": False}
    last = {"model": "tiny", "message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 1}
    gets: dict[str, Json | str] = {"/api/tags": {"models": [{"name": "tiny"}]}, "/api/version": {"version": "0.9"}}
    with server(gets, lambda *_: (200, f"{json.dumps(line)}\n{json.dumps(last)}\n")) as (url, posts):
        answer = asyncio.run(probe(url))
        detected = found(url)
    assert (answer["outcome"], answer["text"]) == ("ok", "hi")
    assert posts[0][0] == "/api/chat"
    assert (detected.api, detected.kind, detected.model, detected.metrics) == ("ollama_chat", "ollama", "tiny", False)


@pytest.mark.parametrize(
    "refusal", [(404, '{"detail": "Not Found"}'), (400, '{"error": {"message": "no chat template is set"}}')]
)
def test_a_missing_endpoint_leads_to_the_next_dialect(refusal: Reply) -> None:
    """A server without chat is asked for completions; so is a base model without a chat template."""

    def post(path: str, body: Json) -> Reply:
        if path == "/v1/completions":
            return 200, 'data: {"choices": [{"text": "x", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        return refusal

    with server({"/v1/models": models("vllm", "base")}, post) as (url, _):
        assert found(url).api == "openai_completions"


def test_an_unknown_model_is_said_and_not_taken_for_a_missing_endpoint() -> None:
    """404 for the model ends the search with the server's words."""
    refusal = (404, '{"error": {"message": "The model `b` does not exist."}}')
    with (
        server({"/v1/models": models("vllm", "a")}, lambda *_: refusal) as (url, posts),
        pytest.raises(SettingFailed, match="does not exist") as caught,
    ):
        found(url, model="b")
    assert caught.value.error_kind == "model_not_found"
    assert len(posts) == 1


def test_fields_that_a_strict_server_refuses_are_left_out() -> None:
    """transformers serve: 422 names the unknown fields; the rest is kept."""
    allowed = {"model", "messages", "stream", "max_tokens", "stream_options"}

    def post(path: str, body: Json) -> Reply:
        extra = sorted(set(body) - allowed)
        return (
            (422, json.dumps({"detail": f"Unexpected fields in the request: {extra}"}))
            if extra
            else (200, chat_answer())
        )

    with server({"/v1/models": models("me", "m")}, post) as (url, posts):
        detected = found(url)
    assert detected.params == ServerParams(ignore_eos=False, min_tokens=False)
    assert len(posts) == 2
    assert detected.kind == "openai"


def test_max_completion_tokens_is_used_where_max_tokens_is_refused() -> None:
    """The name is found out once, by the server's own words."""

    def post(path: str, body: Json) -> Reply:
        if "max_tokens" in body:
            error = {"message": "use max_completion_tokens", "type": "invalid_request_error", "param": "max_tokens"}
            return 400, json.dumps({"error": error})
        return 200, chat_answer()

    with server({"/v1/models": models("vllm", "m")}, post) as (url, posts):
        assert found(url).params.max_tokens_name == "max_completion_tokens"
    assert posts[-1][1]["max_completion_tokens"] == 2


def test_a_server_that_refuses_without_saying_why_gets_the_bare_request() -> None:
    """A wordless 400 is answered by leaving out all that is not OpenAI's, then stream_options."""

    def post(path: str, body: Json) -> Reply:
        return (200, chat_answer()) if set(body) == {"model", "messages", "stream", "max_tokens"} else (400, "no")

    with server({"/v1/models": models("vllm", "m")}, post) as (url, posts):
        params = found(url).params
    assert params == ServerParams(ignore_eos=False, min_tokens=False, stream_options=False)
    assert len(posts) == 3


def test_llama_cpp_is_known_by_its_name_and_asked_not_to_use_its_cache() -> None:
    """Its metrics page is seen, and cache_prompt=false goes out so that prompts are really computed."""
    gets: dict[str, Json | str] = {
        "/v1/models": models("llamacpp", "m"),
        "/metrics": "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 0\n",
    }
    with server(gets, lambda *_: (200, chat_answer()), banner="llama.cpp") as (url, posts):
        detected = found(url)
    assert (detected.kind, detected.metrics, detected.params.cache_prompt) == ("llama_cpp", True, True)
    assert posts[0][1]["cache_prompt"] is False


def test_a_key_that_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """401 ends the search with its own error kind."""
    monkeypatch.setenv("PROBE_TEST_KEY", "sk-wrong-key-000000")
    refusal = (401, '{"error": {"message": "Incorrect API key provided: sk-wrong-key-000000"}}')
    with server({}, lambda *_: refusal) as (url, _), pytest.raises(SettingFailed) as caught:
        found(url, api_key_env="PROBE_TEST_KEY")
    assert caught.value.error_kind == "unauthorized"
    assert "sk-wrong" not in str(caught.value)


def test_a_key_that_is_not_set_is_named() -> None:
    """401 without a key says which variable was looked for, or that none was named."""
    refusal = (401, '{"error": {"message": "no"}}')
    with server({}, lambda *_: refusal) as (url, _):
        with pytest.raises(SettingFailed, match="the environment variable PROBE_TEST_UNSET is not set"):
            found(url, api_key_env="PROBE_TEST_UNSET")
        with pytest.raises(SettingFailed, match="name the environment variable that holds the key in api_key_env"):
            found(url)


def test_a_key_that_the_model_says_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that echoes what it was sent must not bring the key into a terminal, a log or an export."""
    monkeypatch.setenv("PROBE_TEST_KEY", "sk-echoed-key-000000")
    echo = chat_answer("Bearer sk-echoed-key-000000").replace('"stop"', '"sk-echoed-key-000000"')
    with server({}, lambda *_: (200, echo)) as (url, _):
        answer = asyncio.run(probe(url, api_key_env="PROBE_TEST_KEY"))
    assert answer["text"] == "Bearer ***"
    assert answer["finish_reason"] == "***"


def test_model_lists_of_any_shape_are_read() -> None:
    """Names come in the server's order; nonsense gives none."""
    assert model_names({"data": [{"id": "a"}, {"id": 7}, "x", {"id": "b"}]}) == ("a", "b")
    assert model_names({"models": [{"name": "q:1b"}, {"model": "r"}]}) == ("q:1b", "r")
    assert model_names({"data": [{"id": "\ud800"}, {"id": "\x1b[31mred"}, {"id": "日本 / x:1b"}]}) == ("日本 / x:1b",)
    assert model_names({"data": None}) == ()
    assert model_names({}) == ()


def test_leaving_out_ends() -> None:
    """However often a server refuses, there is a last request."""
    params: ServerParams | None = ServerParams(priority=True, cache_prompt=True)
    steps = 0
    while params is not None:
        params = without_refused(params, "bad request")
        steps += 1
    assert steps == 3
