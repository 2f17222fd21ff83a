"""What stands beside the stream cases: the same faults in other dialects, at other places, with other line ends."""

import asyncio
import json
import socket
import struct
from time import monotonic_ns
from typing import Any

import httpx
import pytest

from runner.analysis.request_object import request_object
from runner.load.client import Result, Slot, Target, run_request
from runner.load.transport import StampedTransport
from runner.probe import probe
from runner.protocols.dialects import DIALECTS
from runner.protocols.errors import classify_http_error
from runner.protocols.facts import Ask, StreamFacts
from tests.cases.load import DONE, HEAD, on_our_loop, token
from tests.cases.replay_server import replay_server
from tests.support.scripted_http import Play, chunk, serving, take_request

Json = dict[str, Any]


def sse(*events: Json | str, end: str = "\n\n", before: str = "data: ") -> list[bytes]:
    """One read for each event."""
    return [f"{before}{e if isinstance(e, str) else json.dumps(e)}{end}".encode() for e in events]


def delta(finish: str | None = None, **fields: object) -> Json:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def read(reads: list[bytes], api: str = "openai_chat", *, clean_end: bool = True) -> StreamFacts:
    """Each read stamped by its number, from 1."""
    stamped = list(enumerate(reads, start=1))
    return DIALECTS[api].read_stream(stamped, content_type=None, clean_end=clean_end)


AB = (delta(content="a"), delta(content="b"), delta(finish="stop"), "[DONE]")


@pytest.mark.parametrize(
    "reads",
    [
        sse(*AB, end="\n"),  # no blank line at all
        sse(*AB, end="\r\n"),
        sse(*AB, end="\r\r"),
        sse(*AB, end="\n\r\n"),
        sse(*AB, end="\n\n\n\n"),
        sse(*AB, before="data:\t"),  # a tab belongs to the value, and is white space to JSON
        sse(*AB, before="event: message\nid: 7\ndata: "),
        sse(*AB, before=": ping\n\ndata: "),
        sse(*AB, before="\ufeff" + "retry: 3000\ndata: ")[:1] + sse(*AB)[1:],
        [b"\n\n" + sse(*AB)[0], *sse(*AB)[1:]],
        [json.dumps(e).encode() + b"\n" for e in AB[:3]],  # JSON lines from an endpoint that promises events
    ],
)
def test_line_ends_and_frames_of_any_kind(reads: list[bytes]) -> None:
    """Beside A12, A13, A15 and A17: two chunks, each dated to the read that completed it."""
    facts = read(reads)
    assert (facts.text, list(facts.chunk_stamps_ns), facts.finish_reason) == ("ab", [1, 2], "stop")
    assert (facts.malformed_events, facts.error_kind) == (0, None)


def test_an_event_over_several_lines_is_not_taken_apart_where_a_line_looks_whole() -> None:
    """A17 with a line that is a JSON object by itself, but not the first one of the event."""
    facts = read([b'data: {"choices":\ndata: [\ndata: {"delta": {"content": "a"}}\ndata: ]}\n\n'])
    assert (facts.text, facts.malformed_events) == ("a", 0)


@pytest.mark.parametrize(
    ("api", "reads"),
    [
        ("openai_chat", sse(delta(content=None, text=None), delta(content="a"))),
        ("openai_chat", sse({"choices": [{"delta": None, "message": None}]}, delta(content="a"))),
        ("openai_chat", sse({"choices": None}, {"choices": [{"text": "a"}]})),
        ("openai_completions", sse({"choices": []}, {"choices": [{"delta": {"content": "a"}}]})),
        ("openai_completions", sse({"choices": [{"text": None}]}, {"choices": [{"text": "a"}]})),
        ("ollama_chat", [b'{"message":{"role":"assistant","content":null}}\n', b'{"message":{"content":"a"}}\n']),
        ("ollama_generate", [b'{"response":"","done":false}\r\n', b'{"response":"a","done":false}\r\n']),
        ("llamacpp_completion", sse({"content": "", "stop": False}, {"content": "a", "stop": False})),
        ("tgi_generate_stream", sse({"token": {"text": ""}}, {"token": {"text": "a"}}, before="data:")),
    ],
)
def test_an_opening_without_text_is_no_token_in_any_dialect(api: str, reads: list[bytes]) -> None:
    """Beside A01, A03, A06 and A33: the first token is in the second read."""
    facts = read(reads, api)
    assert (facts.text, list(facts.chunk_stamps_ns), facts.first_answer_ns) == ("a", [2], 2)


@pytest.mark.parametrize(
    ("api", "reads"),
    [
        ("openai_chat", sse(delta(reasoning="hm"), delta(content="4"))),
        ("openai_chat", sse(delta(content="", thinking="hm"), delta(content="4"))),
        ("openai_chat", sse(delta(content=[{"type": "thinking", "thinking": [{"text": "hm"}]}]), delta(content="4"))),
        ("openai_completions", sse({"choices": [{"text": "", "reasoning": "hm"}]}, {"choices": [{"text": "4"}]})),
        ("ollama_chat", [b'{"message":{"content":"","thinking":"hm"}}\n', b'{"message":{"content":"4"}}\n']),
        ("ollama_generate", [b'{"response":"","thinking":"hm"}\n', b'{"response":"4"}\n']),
    ],
)
def test_thoughts_stop_the_clock_under_any_name(api: str, reads: list[bytes]) -> None:
    """Beside A28: first token in the first read, first answer in the second."""
    facts = read(reads, api)
    assert (facts.reasoning_text, facts.text) == ("hm", "4")
    assert (list(facts.chunk_stamps_ns), facts.first_answer_ns) == ([1, 2], 2)


@pytest.mark.parametrize(
    ("reads", "api", "calls"),
    [
        (
            sse(delta(function_call={"name": "f", "arguments": ""}), delta(function_call={"arguments": "{}"})),
            "openai_chat",
            [("f", "{}")],
        ),
        (
            sse(
                delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "["}}]),
                delta(
                    tool_calls=[
                        {"index": 1, "function": {"name": "g", "arguments": "{}"}},
                        {"index": 0, "function": {"arguments": "]"}},
                    ]
                ),
            ),
            "openai_chat",
            [("f", "[]"), ("g", "{}")],
        ),
        (
            [b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"q":"\xc3\xa9"}}}]}}\n'] * 2,
            "ollama_chat",
            [("f", '{"q": "é"}')] * 2,
        ),
        (
            sse(delta(tool_calls=[{"id": "t"}, None, {"function": None}]), delta(tool_calls={"a": 1}, content="x")),
            "openai_chat",
            [],
        ),
    ],
)
def test_tool_calls_of_any_shape_are_put_together(reads: list[bytes], api: str, calls: list[tuple[str, str]]) -> None:
    """Beside A30: the older field, two calls in turns, whole calls with an object, and nonsense."""
    facts = read(reads, api)
    assert [(call["name"], call["arguments"]) for call in facts.tool_calls] == calls


@pytest.mark.parametrize(
    ("api", "last", "told"),
    [
        ("openai_chat", delta("stop", content="") | {"usage": {"completion_tokens": 7, "prompt_tokens": 3}}, "usage"),
        ("openai_chat", {"choices": [{"delta": {}, "usage": {"completion_tokens": 7, "prompt_tokens": 3}}]}, "usage"),
        ("openai_chat", {"usage": {"completion_tokens": 7, "prompt_tokens": 3}}, "usage"),
        ("openai_chat", {"choices": [], "timings": {"predicted_n": 7, "prompt_n": 3}}, "timings"),
        (
            "openai_completions",
            {"choices": [{"text": ""}], "usage": {"completion_tokens": 7, "prompt_tokens": 3}},
            "usage",
        ),
        ("llamacpp_completion", {"stop": True, "tokens_predicted": 7, "tokens_evaluated": 3}, "usage"),
        ("llamacpp_completion", {"stop": True, "timings": {"predicted_n": 7, "prompt_n": 3}}, "timings"),
        ("ollama_chat", {"done": True, "eval_count": 7, "prompt_eval_count": 3}, "usage"),
        ("ollama_generate", {"response": "", "done": True, "eval_count": 7, "prompt_eval_count": 3}, "usage"),
        (
            "tgi_generate_stream",
            {"generated_text": "a", "token": {}, "details": {"generated_tokens": 7, "input_length": 3}},
            "usage",
        ),
    ],
)
def test_token_counts_are_found_wherever_a_server_puts_them(api: str, last: Json, told: str) -> None:
    """Beside A06, A31, A33, A35 and A44: in the finish chunk, in the choice, alone, as timings, in each dialect."""
    first = {"openai_chat": delta(content="a"), "openai_completions": {"choices": [{"text": "a"}]}}.get(
        api, {"message": {"content": "a"}, "response": "a", "content": "a", "token": {"text": "a"}}
    )
    reads = [json.dumps(e).encode() + b"\n" for e in (first, last)] if "ollama" in api else sse(first, last)
    facts = read(reads, api)
    assert (facts.output_tokens, facts.output_tokens_source, facts.prompt_tokens) == (7, told, 3)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sse({"error": {"message": "engine stopped", "code": 500}}), "server_error"),
        (sse({"error": "engine stopped"}), "server_error"),
        (sse({"object": "error", "message": "engine stopped", "code": 500}), "server_error"),
        (sse({"type": "error", "message": "engine stopped"}), "server_error"),
        (sse({"code": 500, "message": "engine stopped"}), "server_error"),
        (sse({"code": "503", "message": "engine stopped"}), "overloaded"),
        (sse({"message": "engine stopped"}, before="event: error\ndata: "), "server_error"),
        (sse("engine stopped", before="event: error\ndata: "), "server_error"),
        (sse({"error": {"error": {"message": "engine stopped"}}}), "server_error"),
        (sse({"error": {"message": "engine stopped: CUDA out of memory", "code": 500}}), "out_of_memory"),
        (sse({"error": {"message": "engine stopped: rate limit", "code": 429}}), "rate_limited"),
    ],
)
def test_an_error_in_the_stream_is_one_in_any_shape(error: list[bytes], kind: str) -> None:
    """Beside A24: what came before it is kept, what comes after it does not make it good."""
    facts = read([*sse(delta(content="a")), *error, *sse(delta(content="b"), "[DONE]")])
    assert (facts.error_kind, facts.text, list(facts.chunk_stamps_ns)) == (kind, "a", [1])
    assert "engine stopped" in (facts.error_detail or "")


@pytest.mark.parametrize("chunk_extra", [{"error": None}, {"code": 200, "message": "ok"}, {"type": "chunk"}])
def test_fields_that_look_like_an_error_are_none(chunk_extra: Json) -> None:
    """`error: null` in every chunk, a code that means success."""
    facts = read(sse(delta(content="a") | chunk_extra, "[DONE]"))
    assert (facts.error_kind, facts.text) == (None, "a")


@pytest.mark.parametrize(
    ("api", "reads"),
    [
        ("openai_chat", sse("[DONE]")),
        ("openai_chat", sse(delta(role="assistant"), delta("stop"), {"usage": {"completion_tokens": 0}}, "[DONE]")),
        ("openai_chat", [b": ping\n\n"]),
        ("openai_completions", sse({"choices": [{"text": "", "finish_reason": "stop"}]}, "[DONE]")),
        ("ollama_chat", [b'{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":1}\n']),
        ("ollama_generate", [b'{"response":"","done":true,"done_reason":"load"}\n']),
        ("llamacpp_completion", sse({"content": "", "stop": True, "tokens_predicted": 0})),
        ("tgi_generate_stream", sse({"token": {"text": "</s>", "special": True}, "generated_text": ""})),
    ],
)
def test_no_token_is_an_error_in_any_dialect(api: str, reads: list[bytes]) -> None:
    """Beside A27: a good end does not make an answer of nothing."""
    assert read(reads, api).error_kind == "empty_stream"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 1024 tokens. However, your prompt contains 21021 characters"),
        (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
        (400, "Prompt length 5000 is greater than max_seq_len 4096"),
        (400, "Requested tokens (5000) exceed context window of 4096"),
        (400, "input token length 5000 exceeds session_len 4096"),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1500 and 1000"),
        (500, "the input length exceeds the context length"),
        (500, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    ],
)
def test_a_prompt_that_is_too_long_reads_the_same_from_every_server(status: int, message: str) -> None:
    """Beside B18: vLLM, SGLang, TabbyAPI, llama-cpp-python, LMDeploy, TGI, Ollama; by status and in the stream."""
    body = {"error": {"message": message, "code": status}}
    assert classify_http_error(status, {}, json.dumps(body).encode())[0] == "context_overflow"
    assert read(sse(body)).error_kind == "context_overflow"


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "retry_after_s"),
    [
        (429, {"retry-after": "2"}, b"", "rate_limited", 2.0),
        (429, {"Retry-After-Ms": "1500"}, b"{}", "rate_limited", 1.5),
        (
            429,
            {"Retry-After": "Sun, 29 Nov 2026 18:00:30 GMT", "Date": "Sun, 29 Nov 2026 18:00:00 GMT"},
            b"",
            "rate_limited",
            30.0,
        ),
        (429, {"Retry-After": "soon"}, b'{"error":"queue full"}', "rate_limited", None),
        (503, {"Retry-After": "1"}, b"<html>503</html>", "overloaded", 1.0),
        (529, {}, b'{"type":"error","error":{"type":"overloaded_error"}}', "overloaded", None),
        (504, {}, b"<html>gateway timeout</html>", "timeout", None),
        (500, {}, b'{"error":"cudaErrorMemoryAllocation"}', "out_of_memory", None),
    ],
)
def test_refusals_of_any_kind(
    status: int, headers: dict[str, str], body: bytes, kind: str, retry_after_s: float | None
) -> None:
    """Beside B19 and B23: header names of any case, dates, milliseconds, web pages of proxies."""
    told = classify_http_error(status, headers, body)
    assert (told[0], told[2]) == (kind, retry_after_s)


async def ask(play: Play, **options: Any) -> Result:  # noqa: ANN401 - passed on
    async with serving(play) as url, httpx.AsyncClient(transport=StampedTransport(allow=())) as client:
        target = Target(url, **options)
        return await run_request(client, target, Ask("hello", "m", 64, hold_length=False), Slot(monotonic_ns()))


def shown(play: Play, **options: Any) -> Json:  # noqa: ANN401 - passed on
    result = on_our_loop(ask(play, **options))
    return request_object(result.record, result.text, result.reasoning_text, result.tool_calls)


def test_a_reset_connection_is_a_cut_one() -> None:
    """Beside A39: RST instead of FIN, as a killed container sends it."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(HEAD + token("a"))
        await asyncio.sleep(0.1)
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    got = shown(play)
    assert (got["outcome"], got["error_kind"], got["text"], got["token_events"]) == ("error", "truncated", "a", 1)


def test_a_stream_that_is_held_open_after_its_end_mark_ends_there() -> None:
    """Beside A09 and A15: pings after [DONE] and no end of the body; the answer is good and short."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(HEAD + token("a") + DONE.removesuffix(b"0\r\n\r\n"))
        for _ in range(1000):
            await asyncio.sleep(0.02)
            writer.write(chunk(b": ping\n\n"))
            await writer.drain()

    got = shown(play)
    assert (got["outcome"], got["text"]) == ("ok", "a")
    assert got["e2e_ms"] < 10_000  # of 20 s


def test_silence_beyond_the_user_s_limit_is_a_timeout_that_says_how_long() -> None:
    """Beside B02: a true timeout has its own kind and the time waited; the default is 600 s or more."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(HEAD)
        await reader.read()

    assert (Target("http://h").limit_s or 0) >= 600
    got = shown(play, limit_s=0.3)
    assert (got["error_kind"], "0.3 s" in got["error_detail"]) == ("timeout", True)


def test_probes_of_a_case_are_what_the_command_prints() -> None:
    """The whole way of `goodput probe URL`, whatever the base URL ends with: no flag, a connect time, strict JSON."""

    async def probed() -> list[Json]:
        async with replay_server() as base:
            return await asyncio.gather(
                *(probe(f"{base}/A44{end}") for end in ("", "/", "/v1", "/v1/chat/completions"))
            )

    for got in on_our_loop(probed()):
        assert (got["outcome"], got["text"], got["output_tokens"]) == ("ok", "All of it at once", 5)
        assert got["flags"] == ["multi_token_chunks"]
        assert got["connect_ms"] is not None
        assert json.loads(json.dumps(got, allow_nan=False)) == got
