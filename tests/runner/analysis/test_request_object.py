"""The request object of the interface page, from stream case to printed row."""

import json
import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from runner.analysis.request_object import request_flags, request_object
from runner.load.record import to_record
from runner.protocols.dialects import DIALECTS
from runner.protocols.errors import classify_http_error
from storage.records import RequestRecord
from tests.cases.load_cases import StreamCase, load_stream_cases

SENT_NS = 5_000_000
KEYS = [
    *("outcome", "error_kind", "error_detail", "http_status", "text", "reasoning_text", "finish_reason"),
    *("scheduled_ns", "sent_ns", "connect_ms", "ttft_ms", "ttft_answer_ms", "last_token_ms", "e2e_ms", "tpot_ms"),
    *("chunk_gaps_ms", "token_events", "output_tokens", "output_tokens_source", "reasoning_tokens"),
    *("prompt_tokens", "cached_prompt_tokens", "load_ms", "retry_after_s", "malformed_events", "clock", "flags"),
]

GOOD = RequestRecord(
    cell=0,
    request=0,
    class_name="chat",
    priority=0,
    prompt_tokens_asked=0,
    output_tokens_asked=0,
    scheduled_ns=0,
    sent_ns=SENT_NS,
    first_chunk_ns=SENT_NS + 100_000_000,
    chunk_deltas_us=(10_000,) * 9,
    end_ns=SENT_NS + 191_000_000,
    token_events=10,
    output_tokens=10,
    output_tokens_source="usage",
    prompt_tokens=100,
    saw_terminator=True,
    finish_reason="stop",
)


def printed(case: StreamCase) -> dict[str, Any]:
    """The request object of a case that was sent 5 ms after it was scheduled."""
    reads = case.reads(SENT_NS)
    sent = replace(RequestRecord(0, 0, "probe", 0, 0, 0, 0), sent_ns=SENT_NS, http_status=case.status)
    sent = replace(sent, end_ns=reads[-1][0])
    if case.status != 200:
        kind, detail, wait_s = classify_http_error(case.status, case.headers, b"".join(data for _, data in reads))
        record = to_record({**asdict(sent), "error_kind": kind, "error_detail": detail, "retry_after_s": wait_s}, None)
        return request_object(record, "", "")
    facts = DIALECTS[case.api].read_stream(reads, content_type=None, clean_end=case.end != "cut")
    return request_object(to_record(asdict(sent), facts), facts.text, facts.reasoning_text)


@pytest.mark.parametrize("case", load_stream_cases(), ids=lambda case: case.id)
def test_every_case_prints_what_it_says_is_right(case: StreamCase) -> None:
    """Each expected value that the request object has a key for is met; known-bad values are not."""
    shown, expected = printed(case), dict(case.expected)
    for key, value in expected.items():
        if key == "tpot_ms" and "tpot_accept" in expected:
            low, high = expected["tpot_accept"]
            assert shown["tpot_ms"] is None or low <= shown["tpot_ms"] <= high
        elif key == "e2e_ms":
            assert value[0] <= shown["e2e_ms"] <= value[1]
        elif key in KEYS:
            assert shown[key] == value, key
    if "itl_ms" in expected:
        assert shown["chunk_gaps_ms"] == expected["itl_ms"]
    if "partial_token_events" in expected:
        assert shown["token_events"] == expected["partial_token_events"]
    for key, value in expected.get("wrong_values", {}).items():
        if key in KEYS:
            assert shown[key] != value


def test_the_object_has_the_promised_keys_in_their_order_and_is_strict_json() -> None:
    """Scripts rely on the keys of the interface page."""
    shown = request_object(GOOD, "text", "")
    assert list(shown) == KEYS
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


def test_times_count_from_the_send_and_tpot_ends_at_the_last_chunk() -> None:
    """Ten tokens 10 ms apart: 100 ms to the first, 190 to the last, 10 ms each."""
    shown = request_object(GOOD, "", "")
    assert (shown["ttft_ms"], shown["last_token_ms"], shown["e2e_ms"], shown["tpot_ms"]) == (100, 190, 191, 10)
    assert shown["chunk_gaps_ms"] == [10] * 9


def test_the_last_token_never_comes_after_the_end() -> None:
    """Gaps are whole µs: their sum may be half of one longer than the time between the stamps."""
    record = replace(GOOD, end_ns=(GOOD.first_chunk_ns or 0) + 1000 * sum(GOOD.chunk_deltas_us) - 400)
    shown = request_object(record, "", "")
    assert shown["last_token_ms"] == shown["e2e_ms"] == 190


def test_a_request_that_never_connected_has_no_times() -> None:
    """No send, no latency."""
    refused = replace(RequestRecord(0, 0, "probe", 0, 0, 0, 0, end_ns=5), outcome="error", error_kind="connect")
    shown = request_object(refused, "", "")
    assert [shown[key] for key in KEYS if key.endswith("_ms") and key != "chunk_gaps_ms"] == [None] * 7
    assert shown["flags"] == []


def test_connect_time_holds_tcp_and_tls() -> None:
    """Both are set-up, and neither is in the TTFT."""
    shown = request_object(replace(GOOD, connect_ns=2_000_000, tls_ns=3_500_000), "", "")
    assert shown["connect_ms"] == 5.5
    assert shown["ttft_ms"] == 100


@pytest.mark.parametrize("tokens", [0, 1])
def test_no_token_and_one_token_have_no_tpot(tokens: int) -> None:
    """Nothing is divided by zero."""
    record = replace(GOOD, output_tokens=tokens, token_events=tokens, chunk_deltas_us=())
    assert request_object(record, "", "")["tpot_ms"] is None


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({}, []),
        ({"output_tokens": 11}, []),  # the end token has no chunk
        ({"output_tokens": 12}, ["multi_token_chunks"]),
        ({"output_tokens_source": "estimated"}, ["tokens_estimated"]),
        ({"chunk_deltas_us": (0, 0, 0, 0, 40, 0, 0, 0, 0)}, ["stream_buffered"]),
        ({"chunk_deltas_us": (0, 0, 0, 0, 9000, 0, 0, 0, 0)}, []),
        (
            {"chunk_deltas_us": (), "token_events": 1, "output_tokens": 40},
            ["multi_token_chunks", "stream_buffered"],
        ),
        (
            {"chunk_deltas_us": (), "token_events": 1, "output_tokens": 5, "saw_terminator": False},
            ["multi_token_chunks", "stream_buffered"],
        ),
        ({"cached_prompt_tokens": 10}, []),
        ({"cached_prompt_tokens": 11}, ["prefix_cached"]),
        ({"cached_prompt_tokens": 1, "prompt_tokens": None}, ["prefix_cached"]),
        ({"load_ms": 500.0}, []),
        ({"load_ms": 500.1}, ["cold_load"]),
        ({"malformed_events": 1}, ["malformed_events"]),
        ({"saw_terminator": False}, []),
        ({"finish_reason": None}, []),
        ({"saw_terminator": False, "finish_reason": None}, ["no_terminator"]),
        ({"output_tokens_asked": 12}, []),
        ({"output_tokens_asked": 13}, ["output_length_not_held"]),
        ({"output_tokens_asked": 64, "output_tokens_source": "estimated"}, ["tokens_estimated"]),
        ({"prompt_tokens_asked": 57}, []),
        ({"prompt_tokens_asked": 56}, ["prompt_length_mismatch"]),
    ],
)
def test_each_flag_has_its_bound(changes: dict[str, Any], flags: list[str]) -> None:
    """A value at the bound raises nothing, one beyond it does."""
    assert request_flags(replace(GOOD, **changes)) == flags


def test_a_failed_request_is_not_called_buffered_or_unfinished() -> None:
    """Flags about whole answers say nothing about broken ones."""
    failed = replace(GOOD, outcome="error", error_kind="truncated", chunk_deltas_us=(0,) * 9, output_tokens_asked=99)
    assert request_flags(replace(failed, saw_terminator=False, finish_reason=None)) == []


def test_flag_names_are_plain_words() -> None:
    """They are keys in JSON and column values."""
    every = replace(GOOD, cached_prompt_tokens=99, load_ms=1e4, malformed_events=2, output_tokens=40)
    assert all(re.fullmatch(r"[a-z_]+", flag) for flag in request_flags(every))
