"""However the network cuts the bytes, and whatever the bytes are."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.protocols.dialects import DIALECTS
from runner.protocols.errors import classify_http_error
from runner.protocols.facts import StampedRead, StreamFacts
from tests.cases.load_cases import load_stream_cases

BODIES = [(case.api, b"".join(data for _, data in case.chunks)) for case in load_stream_cases() if case.status == 200]

KEYS = [
    *("choices", "delta", "message", "content", "text", "finish_reason", "thinking", "reasoning", "tool_calls"),
    *(
        "usage",
        "completion_tokens",
        "prompt_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "timings",
        "predicted_n",
    ),
    *("error", "code", "done", "done_reason", "response", "eval_count", "load_duration", "function", "name"),
    *("token", "details", "special", "stop", "generated_text"),
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def split(body: bytes, cuts: list[int]) -> list[StampedRead]:
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [(number, body[a:b]) for number, (a, b) in enumerate(pairwise(edges))]


def without_stamps(facts: StreamFacts) -> tuple[StreamFacts, int]:
    bare = replace(facts, chunk_stamps_ns=(), shared_stamps=0, first_answer_ns=None)
    return bare, len(facts.chunk_stamps_ns)


@given(st.sampled_from(BODIES), st.lists(st.integers(0, 1 << 20), max_size=12), st.booleans())
def test_the_cuts_change_nothing_but_stamps(body: tuple[str, bytes], cuts: list[int], clean_end: bool) -> None:
    """Text, tokens, errors and the number of chunks are those of the whole body."""
    api, data = body
    read = DIALECTS[api].read_stream
    whole = read([(0, data)], content_type=None, clean_end=clean_end)
    pieces = read(split(data, cuts), content_type=None, clean_end=clean_end)
    assert without_stamps(pieces) == without_stamps(whole)
    assert list(pieces.chunk_stamps_ns) == sorted(pieces.chunk_stamps_ns)


@pytest.mark.parametrize(("api", "body"), BODIES)
def test_single_bytes_give_the_same_answer(api: str, body: bytes) -> None:
    """The finest cut there is."""
    read = DIALECTS[api].read_stream
    single = [(number, body[number : number + 1]) for number in range(len(body))]
    whole = read([(0, body)], content_type=None, clean_end=True)
    assert without_stamps(read(single, content_type=None, clean_end=True)) == without_stamps(whole)


@given(
    st.sampled_from(sorted(DIALECTS)),
    st.lists(
        st.binary(max_size=30) | st.sampled_from([b"data: ", b"\r", b"\n\n", b"{", b"event: error\n", b"\xef\xbb\xbf"])
    ),
    st.booleans(),
)
def test_no_bytes_raise(api: str, pieces: list[bytes], clean_end: bool) -> None:
    """A broken server costs one request, never the run."""
    reads = list(enumerate(pieces))
    facts = DIALECTS[api].read_stream(reads, content_type=None, clean_end=clean_end)
    facts.text.encode()
    (facts.error_detail or "").encode()


@given(st.sampled_from(sorted(DIALECTS)), st.lists(JSON_VALUES, max_size=5), st.sampled_from([b"data: ", b""]))
def test_no_json_raises_and_counts_are_counts(api: str, values: list[object], prefix: bytes) -> None:
    """Wrong types where text, lists or numbers should be are let go."""
    reads = [(at, prefix + json.dumps(value).encode() + b"\n\n") for at, value in enumerate(values)]
    facts = DIALECTS[api].read_stream(reads, content_type=None, clean_end=True)
    for count in (facts.output_tokens, facts.prompt_tokens, facts.cached_prompt_tokens, facts.reasoning_tokens):
        assert count is None or (isinstance(count, int) and count >= 0)
    assert (facts.output_tokens is None) == (facts.output_tokens_source is None)


DEEP = (
    '{"choices": [{"delta": {"tool_calls": [{"function": {"name": "f", "arguments": %s}}]}}]}',
    '{"message": {"tool_calls": [{"function": {"name": "f", "arguments": %s}}]}}',
    '{"error": %s}',
    '{"error": {"type": %s, "message": "x"}}',
    '{"code": %s, "message": "x"}',
)


@pytest.mark.parametrize("template", DEEP)
@pytest.mark.parametrize("api", ["openai_chat", "ollama_chat"])
def test_no_depth_of_lists_inside_lists_raises(api: str, template: str) -> None:
    """Also not where the reader of JSON just takes what its writer would not: a part of it is written into texts."""
    for depth in range(900, 985):
        body = template.replace("%s", "[" * depth + "]" * depth).encode()
        DIALECTS[api].read_stream([(1, b"event: error\ndata: " + body + b"\n\n")], content_type=None, clean_end=True)
        DIALECTS[api].read_stream([(1, body + b"\n")], content_type=None, clean_end=True)
        classify_http_error(400, {}, body)
