"""Every stream case of the public bug reports, read with exact synthetic stamps."""

import pytest

from runner.protocols.dialects import DIALECTS
from runner.protocols.errors import classify_http_error
from runner.protocols.facts import StreamFacts
from tests.cases.load_cases import StreamCase, load_stream_cases

CASES = {case.id: case for case in load_stream_cases()}
ANSWERED = [case for case in CASES.values() if case.status == 200]
SENT_NS = 7_000_000


def read(case: StreamCase) -> StreamFacts:
    dialect = DIALECTS[case.api]
    reads = case.reads(SENT_NS)
    return dialect.read_stream(reads, content_type=case.headers["Content-Type"], clean_end=case.end != "cut")


def ms(stamp: int | None) -> float | None:
    return None if stamp is None else (stamp - SENT_NS) / 1e6


@pytest.mark.parametrize("case", [c for c in ANSWERED if c.expected["outcome"] == "ok"], ids=lambda case: case.id)
def test_a_good_stream_gives_the_facts_of_its_case(case: StreamCase) -> None:
    """Text, stamps and counts are the ones that the case says are right."""
    facts, expected = read(case), case.expected
    assert (facts.error_kind, facts.error_detail) == (None, None)
    for key in ("text", "reasoning_text", "output_tokens", "output_tokens_source", "finish_reason"):
        assert getattr(facts, key) == expected[key], key
    for key in ("prompt_tokens", "reasoning_tokens", "load_ms", "malformed_events"):
        if key in expected:
            assert getattr(facts, key) == expected[key], key
    assert len(facts.chunk_stamps_ns) == expected["token_events"]
    assert ms(facts.chunk_stamps_ns[0]) == expected["ttft_ms"]
    assert ms(facts.chunk_stamps_ns[-1]) == expected["last_token_ms"]
    assert ms(facts.first_answer_ns) == expected["ttft_answer_ms"]
    assert facts.malformed_events == 0


@pytest.mark.parametrize("case", [c for c in ANSWERED if c.expected["outcome"] == "error"], ids=lambda case: case.id)
def test_an_error_inside_a_stream_is_classed_and_keeps_what_came_before(case: StreamCase) -> None:
    """A status of 200 does not make an answer good; chunks before the error are kept."""
    facts, expected = read(case), case.expected
    assert facts.error_kind == expected["error_kind"]
    assert expected.get("message_contains", "") in (facts.error_detail or "")
    assert len(facts.chunk_stamps_ns) == expected["partial_token_events"]
    if "partial_ttft_ms" in expected:
        assert ms(facts.chunk_stamps_ns[0]) == expected["partial_ttft_ms"]


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.status != 200], ids=lambda case: case.id)
def test_an_http_error_is_classed_by_its_status_and_words(case: StreamCase) -> None:
    """429 and 503 keep their own kinds, and Retry-After is told."""
    body = b"".join(data for _, data in case.chunks)
    kind, detail, retry_after_s = classify_http_error(case.status, case.headers, body)
    assert kind == case.expected["error_kind"]
    assert retry_after_s == case.expected.get("retry_after_s")
    assert str(case.status) in detail


def test_shared_stamps_count_the_events_of_one_read() -> None:
    """Two reads of three events each: four events came together with the one before."""
    facts = read(CASES["A23"])
    assert facts.shared_stamps == 4


def test_the_same_overflow_by_status_400_reads_the_same() -> None:
    """llama.cpp tells it inside a stream and vLLM by status 400; the kind is one."""
    body = (
        b'{"error":{"message":"maximum context length is 4096 tokens, request has 5000",'
        b'"type":"BadRequestError","code":400}}'
    )
    assert classify_http_error(400, {}, body)[0] == read(CASES["B18"]).error_kind == "context_overflow"


def test_the_end_mark_is_told_but_not_demanded() -> None:
    """A stream without [DONE] is good; whether the mark came is kept as a fact."""
    assert read(CASES["A01"]).saw_terminator
    assert read(CASES["A31"]).saw_terminator
    assert read(CASES["A35"]).saw_terminator
    assert not read(CASES["A09"]).saw_terminator
