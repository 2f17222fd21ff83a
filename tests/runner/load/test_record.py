"""From facts to the stored row."""

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.load.record import deltas_us, to_record
from runner.protocols.dialects import DIALECTS
from runner.protocols.facts import StreamFacts
from storage.columns import to_arrow
from storage.records import RequestRecord

ORIGIN_NS = 1_000_000_000
SENT = asdict(RequestRecord(3, 7, "chat", 1, 32, 16, scheduled_ns=10, sent_ns=20, end_ns=9_000_000, http_status=200))
FACTS = StreamFacts(
    text="ab",
    reasoning_text="",
    chunk_stamps_ns=[ORIGIN_NS + 1_000_400, ORIGIN_NS + 1_000_400, ORIGIN_NS + 3_000_000],
    shared_stamps=1,
    first_answer_ns=ORIGIN_NS + 1_000_400,
    output_tokens=3,
    output_tokens_source="usage",
    reasoning_tokens=None,
    prompt_tokens=9,
    cached_prompt_tokens=None,
    load_ms=None,
    finish_reason="stop",
    malformed_events=0,
    saw_terminator=True,
    error_kind=None,
    error_detail=None,
)


def test_a_good_answer_becomes_a_row_on_the_cells_clock() -> None:
    """Stamps lose the origin, what was asked stays, steps are in µs."""
    record = to_record(SENT, FACTS, origin_ns=ORIGIN_NS)
    assert (record.cell, record.request, record.output_tokens_asked, record.sent_ns) == (3, 7, 16, 20)
    assert (record.first_chunk_ns, record.first_answer_ns) == (1_000_400, 1_000_400)
    assert record.chunk_deltas_us == (0, 2000)
    assert (record.token_events, record.shared_stamps) == (3, 1)
    assert (record.outcome, record.error_kind) == ("ok", None)


def test_no_answer_keeps_the_transports_error_without_the_key() -> None:
    """A key that a server or library echoes never reaches the row."""
    sent = {**SENT, "error_kind": "unauthorized", "error_detail": "key SECRET123 refused for http://u:pw@host"}
    record = to_record(sent, None, secrets=["SECRET123"])
    assert record.outcome == "error"
    assert record.error_detail == "key *** refused for http://***@host"


@pytest.mark.parametrize(
    ("in_stream", "by_transport", "kept", "outcome"),
    [
        (None, None, None, "ok"),
        ("truncated", None, "truncated", "error"),
        ("truncated", "timeout", "timeout", "error"),
        ("empty_stream", "cancelled", "cancelled", "cancelled"),
        ("overloaded", "truncated", "overloaded", "error"),
        (None, "truncated", None, "ok"),  # it had reached its own end before the connection dropped
    ],
)
def test_the_better_informed_error_wins(
    in_stream: str | None, by_transport: str | None, kept: str | None, outcome: str
) -> None:
    """The server's own word, then the transport's, then what the stream looks like."""
    sent = {**SENT, "error_kind": by_transport, "error_detail": by_transport}
    record = to_record(sent, replace(FACTS, error_kind=in_stream, error_detail=in_stream))
    assert (record.error_kind, record.error_detail, record.outcome) == (kept, kept, outcome)


def test_steps_are_rounded_so_that_their_sum_does_not_drift() -> None:
    """A thousand steps of 1.4 µs are 1400 µs in all, not 1000."""
    deltas = deltas_us([1400 * i for i in range(1001)])
    assert set(deltas) == {1, 2}
    assert sum(deltas) == 1400


def test_a_stamp_that_goes_back_gives_no_negative_step() -> None:
    """A user stamp is late by up to some ms; the kernel stamp after it may be earlier."""
    assert deltas_us([0, 5_000_000, 4_000_000, 6_000_000]) == (5000, 0, 1000)


def test_a_silence_of_hours_is_kept_as_the_longest_step_there_is() -> None:
    """Two hours between two tokens don't fit 32 bits of µs; the step after them is still exact."""
    hours = 2 * 3600 * 1_000_000_000
    assert deltas_us([0, 1_000_000, hours, hours + 20_000_000]) == (1000, 2**32 - 1, 20_000)


SENSELESS = [-1, 2**63, 10**400, -0.5, 1e300, float("inf"), float("nan"), True, "7", [7], {"n": 7}]


@pytest.mark.parametrize("told", SENSELESS, ids=lambda told: str(told)[:12])
def test_a_senseless_count_is_not_told_and_the_row_can_be_stored(told: object) -> None:
    """Whatever a server writes where a count belongs, the row fits its columns and the other rows' batch with it."""
    usage = {"completion_tokens": told, "prompt_tokens": told, "prompt_tokens_details": {"cached_tokens": told}}
    chat = [{"choices": [{"delta": {"content": "a"}}]}, {"choices": [], "usage": usage, "timings": {"cache_n": told}}]
    names = ("eval_count", "prompt_eval_count", "load_duration")
    ollama = [{"message": {"content": "a"}}, {"message": {}, "done": True, **dict.fromkeys(names, told)}]
    records = []
    for api, events in (("openai_chat", chat), ("ollama_chat", ollama)):
        reads = [(ORIGIN_NS + at, json.dumps(event).encode() + b"\n") for at, event in enumerate(events)]
        facts = DIALECTS[api].read_stream(reads, content_type=None, clean_end=True)
        records.append(to_record(SENT, facts, origin_ns=ORIGIN_NS))
    assert to_arrow(RequestRecord, records).num_rows == 2
    for record in records:
        assert (record.output_tokens, record.output_tokens_source) == (1, "estimated")
        assert (record.prompt_tokens, record.cached_prompt_tokens, record.load_ms) == (None, None, None)


@given(st.lists(st.integers(0, 10**12), max_size=50))
def test_steps_always_lead_to_the_latest_stamp(stamps: list[int]) -> None:
    """One step fewer than stamps, none negative, and their sum is the span to half a µs."""
    deltas = deltas_us(stamps)
    assert len(deltas) == max(0, len(stamps) - 1)
    assert all(delta >= 0 for delta in deltas)
    if stamps:
        assert abs(1000 * sum(deltas) - (max(stamps) - stamps[0])) <= 500
