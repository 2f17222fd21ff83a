"""Shapes of answers beyond the collected cases: other dialects, odd usage, odd ends, bodies that are no stream."""

import json
from typing import Any

import pytest

from runner.protocols.dialects import DIALECTS
from runner.protocols.facts import StampedRead, StreamFacts


def sse(*events: dict[str, Any] | str, done: bool = True) -> list[StampedRead]:
    """One event a read, stamped 1, 2, 3 ..."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    texts += ["[DONE]"] if done else []
    return [(stamp, b"data: " + text.encode() + b"\n\n") for stamp, text in enumerate(texts, start=1)]


def delta(finish: str | None = None, **fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def read(
    reads: list[StampedRead], api: str = "openai_chat", *, clean_end: bool = True, content_type: str | None = None
) -> StreamFacts:
    return DIALECTS[api].read_stream(reads, content_type=content_type, clean_end=clean_end)


def test_a_running_usage_counts_once() -> None:
    """The last count stands; counts are not added."""
    chunks = [delta(content="a") | {"usage": {"completion_tokens": n, "prompt_tokens": 3}} for n in (1, 2)]
    assert read(sse(*chunks)).output_tokens == 2


@pytest.mark.parametrize("usage", [None, {}, {"completion_tokens": 0, "prompt_tokens": 0}, {"completion_tokens": None}])
def test_a_usage_that_tells_nothing_leaves_the_estimate(usage: dict[str, Any] | None) -> None:
    """Zero tokens beside generated text is no count."""
    facts = read(sse(delta(content="a"), delta(content="b", finish="stop") | {"usage": usage}))
    assert (facts.output_tokens, facts.output_tokens_source) == (2, "estimated")


def test_a_later_zero_does_not_replace_a_count() -> None:
    """Some proxies append an empty usage of their own."""
    counts = ({"completion_tokens": 5, "prompt_tokens": 3}, {"completion_tokens": 0, "prompt_tokens": 0})
    facts = read(sse(delta(content="a"), *({"choices": [], "usage": usage} for usage in counts)))
    assert (facts.output_tokens, facts.prompt_tokens) == (5, 3)


def test_usage_comes_before_timings() -> None:
    """Two counts of one answer: the usage is the one that is stored."""
    tail = {
        "choices": [],
        "usage": {"completion_tokens": 3},
        "timings": {"predicted_n": 9, "prompt_n": 4, "cache_n": 2},
    }
    facts = read(sse(delta(content="a"), tail))
    assert (facts.output_tokens, facts.output_tokens_source) == (3, "usage")
    assert (facts.prompt_tokens, facts.cached_prompt_tokens) == (6, 2)


def test_reasoning_under_two_names_at_once_is_told_once() -> None:
    """Servers in transition send the same text as `reasoning` and `reasoning_content`."""
    facts = read(sse(delta(reasoning="hm", reasoning_content="hm"), delta(reasoning="!"), delta(content="4")))
    assert (facts.reasoning_text, facts.text, facts.first_answer_ns) == ("hm!", "4", 3)


def test_a_refusal_is_answer_text_and_parts_are_joined() -> None:
    """Both are what the user sees."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image_url"}]
    facts = read(sse(delta(content=parts), delta(content=None, refusal="no")))
    assert (facts.text, len(facts.chunk_stamps_ns)) == ("abno", 2)


def test_a_tool_call_id_alone_is_not_generated_text() -> None:
    """The server makes up the id; name and arguments come from the model."""
    calls = [{"index": 0, "id": "t1"}], [{"index": 0, "function": {"name": "f", "arguments": ""}}]
    facts = read(sse(*(delta(tool_calls=call) for call in calls), delta(finish="tool_calls")))
    assert list(facts.chunk_stamps_ns) == [2]


def test_one_bad_event_is_counted_and_the_rest_is_read() -> None:
    """A stream does not fail on one line that is no JSON object."""
    facts = read(sse(delta(content="a"), '{"choices":[{', "7", delta(content="b", finish="stop")))
    assert (facts.text, facts.malformed_events, facts.error_kind) == ("ab", 2, None)


def test_halves_of_a_character_in_two_events_become_one() -> None:
    """JSON escapes name the halves; a lone half is replaced, so the text can always be stored."""
    joined = read(sse('{"choices":[{"delta":{"content":"\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00"}}]}'))
    alone = read(sse('{"choices":[{"delta":{"content":"a\\ud83d"}}]}'))
    assert (joined.text, alone.text) == ("😀", "a\ufffd")


def test_nothing_counts_after_the_end_mark() -> None:
    """What a proxy appends is not the answer."""
    facts = read([*sse(delta(content="a", finish="stop")), *sse(delta(content="b"))])
    assert facts.text == "a"


def test_a_usage_behind_the_end_mark_counts_if_there_was_none() -> None:
    """Usage may come anywhere; text there is still none of the answer's, nor is a second count."""
    late = delta(content="more") | {"usage": {"completion_tokens": 7, "prompt_tokens": 3}}
    facts = read(sse(delta(content="a"), delta(finish="stop"), "[DONE]", late, done=False))
    assert (facts.text, facts.output_tokens, facts.output_tokens_source) == ("a", 7, "usage")
    told = {"choices": [], "usage": {"completion_tokens": 1}}
    assert read(sse(delta(content="a"), told, "[DONE]", late, done=False)).output_tokens == 1


def test_text_after_an_error_does_not_count_and_the_first_error_stands() -> None:
    """The error is the end of the answer."""
    facts = read(sse(delta(content="a"), {"error": "first"}, delta(content="b"), {"error": {"code": 503}}))
    assert (facts.text, facts.error_detail, facts.saw_terminator) == ("a", "first", True)


ERROR_FIELD = (
    b'error: {"code":400,"message":"the request exceeds the available context size. try increasing the context size",'
    b'"type":"invalid_request_error"}\n\n'
)


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("api", ["openai_chat", "openai_completions", "llamacpp_completion"])
def test_the_error_field_of_older_llama_cpp_ends_the_answer(api: str, before: int) -> None:
    """Ended by [DONE] as if nothing had happened, it is neither a good answer nor an empty one."""
    chunk: dict[str, Any] = {"choices": [{"text": "a", "delta": {"content": "a"}}], "content": "a"}
    facts = read([*sse(*[chunk] * before, done=False), (8, ERROR_FIELD), (9, b"data: [DONE]\n\n")], api)
    assert (facts.error_kind, len(facts.chunk_stamps_ns)) == ("context_overflow", before)
    assert "available context size" in (facts.error_detail or "")


TOKEN_OF: dict[str, dict[str, Any]] = {
    "openai_chat": {"choices": [{"delta": {"content": "a"}}]},
    "openai_completions": {"choices": [{"text": "a"}]},
    "llamacpp_completion": {"content": "a"},
    "ollama_chat": {"message": {"content": "a"}, "done": False},
    "ollama_generate": {"response": "a", "done": False},
    "tgi_generate_stream": {"token": {"text": "a"}},
}
ERRORS = (
    '{"error": {"message": "out of memory", "code": 500}}',
    '{"error": "out of memory"}',
    '{"object": "error", "message": "out of memory", "code": 500}',
    '{"type": "error", "error": {"message": "out of memory"}}',
    '{"error": "out of memory", "error_type": "generation"}',
)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("api", TOKEN_OF)
def test_an_error_in_mid_stream_is_one_in_every_dialect(api: str, error: str) -> None:
    """With what came before it, and nothing of what comes after; as an event, as a line, and at the very start."""
    token = json.dumps(TOKEN_OF[api])
    lines = [token, token, error, token]
    events = [(i, f"data: {line}\n\n".encode()) for i, line in enumerate(lines)]
    rows = [(i, f"{line}\n".encode()) for i, line in enumerate(lines)]
    for reads in (rows if api.startswith("ollama") else events, [(0, b"".join(data for _, data in events))]):
        facts = read(reads, api)
        assert (facts.error_kind, facts.text, len(facts.chunk_stamps_ns)) == ("out_of_memory", "aa", 2)
    first = read([(0, f"data: {error}\n\n".encode())], api)
    assert (first.error_kind, first.text) == ("out_of_memory", "")


def test_the_whole_answer_once_more_is_no_new_text() -> None:
    """Some servers repeat it as `message` beside an empty last delta; alone it is the answer of one that does not
    stream."""
    whole = {"choices": [{"delta": {}, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    facts = read(sse(delta(content="a"), delta(content="b"), whole))
    assert (facts.text, len(facts.chunk_stamps_ns), facts.finish_reason) == ("ab", 2, "stop")
    assert read(sse(whole)).text == "ab"


def test_an_end_mark_without_a_line_end_is_seen() -> None:
    """The last bytes of a clean stream count, with or without the blank line."""
    facts = read([(1, b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'), (2, b"data: [DONE]")])
    assert facts.saw_terminator


@pytest.mark.parametrize("clean_end", [True, False])
def test_half_an_event_at_the_end_is_bad_json_only_in_a_whole_stream(clean_end: bool) -> None:
    """In a broken stream it is the break."""
    facts = read([*sse(delta(content="a"), done=False), (9, b'data: {"cho')], clean_end=clean_end)
    assert facts.malformed_events == int(clean_end)
    assert facts.error_kind == (None if clean_end else "truncated")


def test_a_connection_that_drops_after_the_end_mark_costs_nothing() -> None:
    """llama.cpp closes early; the answer was whole."""
    assert read(sse(delta(content="a")), clean_end=False).error_kind is None
    assert read(sse(delta(content="a", finish="stop"), done=False), clean_end=False).error_kind is None


def test_no_bytes_at_all_is_truncated_or_empty() -> None:
    """A closed connection and an empty body are different faults."""
    assert read([], clean_end=False).error_kind == "truncated"
    assert read([], clean_end=True).error_kind == "empty_stream"


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_an_aborted_answer_is_an_error(reason: str) -> None:
    """Servers that drop a request say so in finish_reason alone."""
    assert read(sse(delta(content="a"), delta(finish=reason))).error_kind == "server_error"


def test_a_web_page_is_no_answer() -> None:
    """A proxy's login page has status 200 too."""
    facts = read([(1, b"<!doctype html><title>Log in</title>")], content_type="text/html")
    assert facts.error_kind == "http_error"
    assert "text/html" in (facts.error_detail or "")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("pieces", [1, 7])
def test_one_json_answer_instead_of_a_stream_is_read_whole(indent: int | None, pieces: int) -> None:
    """It is useful when its last byte is there, and it has no end mark of a stream."""
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "a b"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": 2, "prompt_tokens": 4},
    }
    data = json.dumps(answer, indent=indent).encode()
    size = len(data) // pieces + 1
    reads = [(1 + start, data[start : start + size]) for start in range(0, len(data), size)]
    facts = read(reads, content_type="application/json")
    assert (facts.text, facts.output_tokens, facts.finish_reason) == ("a b", 2, "stop")
    assert list(facts.chunk_stamps_ns) == [reads[-1][0]]
    assert (facts.saw_terminator, facts.malformed_events, facts.error_kind) == (False, 0, None)


def test_a_json_error_of_status_200_is_an_error() -> None:
    """No stream, no text, but a reason."""
    facts = read([(1, b'{"error": {"message": "no slot available", "code": 503}}')])
    assert (facts.error_kind, facts.error_detail) == ("overloaded", "no slot available")


def test_ollama_thinks_in_its_own_channel_and_names_load_and_counts() -> None:
    """Times are ns; a tool call's arguments are an object there."""
    lines = [
        {"message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False},
        {"message": {"content": "4"}, "done": False},
        {"message": {"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}, "done": False},
        {"message": {"content": ""}, "done": True, "done_reason": "stop", "eval_count": 3, "load_duration": 1_500_000},
    ]
    reads = [(stamp, json.dumps(line).encode() + b"\n") for stamp, line in enumerate(lines, start=1)]
    facts = read(reads, "ollama_chat", content_type="application/x-ndjson")
    assert (facts.reasoning_text, facts.text, facts.load_ms, facts.prompt_tokens) == ("hm", "4", 1.5, None)
    assert list(facts.chunk_stamps_ns) == [1, 2, 3]
    assert facts.saw_terminator


def test_ollama_generate_reads_response_and_an_error_line() -> None:
    """The model may die in the middle."""
    reads = [(1, b'{"response":"a","done":false}\n'), (2, b'{"error":"an error was encountered"}\n')]
    facts = read(reads, "ollama_generate")
    assert (facts.text, facts.error_kind, len(facts.chunk_stamps_ns)) == ("a", "server_error", 1)


def test_tgi_leaves_out_special_tokens_and_takes_details() -> None:
    """The end token is counted by the server and shown to nobody."""
    events = [
        {"index": 1, "token": {"id": 5, "text": " a", "special": False}, "generated_text": None, "details": None},
        {
            "index": 2,
            "token": {"id": 2, "text": "</s>", "special": True},
            "generated_text": " a",
            "details": {"finish_reason": "eos_token", "generated_tokens": 2, "input_length": 4},
        },
    ]
    facts = read(
        [(at, data.replace(b"data: ", b"data:")) for at, data in sse(*events, done=False)], "tgi_generate_stream"
    )
    assert (facts.text, facts.output_tokens, facts.prompt_tokens) == (" a", 2, 4)
    assert (facts.finish_reason, facts.saw_terminator, list(facts.chunk_stamps_ns)) == ("stop", True, [1])


def test_tgi_error_event_is_an_error() -> None:
    """Generation may fail in the middle."""
    error = {"error": "Request failed during generation: Server error: CUDA out of memory", "error_type": "generation"}
    assert read(sse(error, done=False), "tgi_generate_stream").error_kind == "out_of_memory"


def test_old_llamacpp_tells_its_stop_by_flags() -> None:
    """Versions before `stop_type`."""
    end = {"content": "", "stop": True, "stopped_limit": True, "tokens_predicted": 1, "tokens_evaluated": 3}
    facts = read(sse({"content": "a", "stop": False}, end, done=False), "llamacpp_completion")
    assert (facts.finish_reason, facts.output_tokens) == ("length", 1)
