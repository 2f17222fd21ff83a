"""Every stream case, played with its own timing over loopback and read by the real client."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from runner.analysis.result import build_result
from storage.records import RequestRecord
from tests.cases.load_cases import load_stream_cases
from tests.cases.play import Outcome, holds
from tests.support.tables import make_tables

TOLERANCE_MS = 30
TIMES = ("ttft_ms", "ttft_answer_ms", "last_token_ms")
PLAIN = (
    "outcome", "error_kind", "text", "reasoning_text", "output_tokens", "output_tokens_source", "token_events",
    "finish_reason", "flags", "prompt_tokens", "reasoning_tokens", "load_ms", "malformed_events", "http_status",
    "retry_after_s",
)  # fmt: skip
GOOD = [case.id for case in load_stream_cases() if case.expected["outcome"] == "ok"]
BAD = [case.id for case in load_stream_cases() if case.expected["outcome"] == "error"]


def near(outcome: Outcome, shown: float | None, due_ms: float) -> bool:
    """Within 30 ms of the moment the case names; the server's own lateness on a busy machine is not the client's."""
    late_ms = outcome.server_late_ms(due_ms)
    return shown is not None and due_ms - TOLERANCE_MS <= shown <= due_ms + late_ms + TOLERANCE_MS


def gaps_near(outcome: Outcome, expected: list[float]) -> bool:
    """Chunk gaps; each of them within 30 ms, beyond what the server itself was late."""
    pairs = zip(outcome.shown["chunk_gaps_ms"], expected, strict=True)
    return all(abs(gap - due_ms) <= TOLERANCE_MS + outcome.worst_late_ms for gap, due_ms in pairs)


def tpot_near(outcome: Outcome, shown: float | None, expected: float | None) -> bool:
    """The 30 ms hold for the time of all tokens together, so the more tokens, the closer their mean."""
    if shown is None or expected is None:
        return shown is expected
    slack_ms = TOLERANCE_MS + outcome.worst_late_ms
    return bool(abs(shown - expected) * (outcome.shown["output_tokens"] - 1) <= slack_ms)


def result_of(*records: RequestRecord) -> dict[str, Any]:
    """The one cell of a result made of these requests, all of them scheduled inside the measured window."""
    rows = [replace(r, request=i, class_name="chat", scheduled_ns=r.sent_ns or 0) for i, r in enumerate(records)]
    origin = min(r.scheduled_ns for r in rows)
    names = ("scheduled_ns", "sent_ns", "first_byte_ns", "first_chunk_ns", "first_answer_ns", "end_ns")
    rows = [replace(r, **{n: v - origin for n in names if (v := getattr(r, n)) is not None}) for r in rows]
    cell: dict[str, Any] = build_result(make_tables(rows))["cells"][0]
    return cell


def check_extra(outcome: Outcome, key: str, value: Any) -> bool:  # noqa: ANN401 - a JSON value of the case
    """The keys that only some cases have."""
    checks: dict[str, Callable[[], bool]] = {
        "chunk_gap_ms": lambda: gaps_near(outcome, [value] * (outcome.shown["token_events"] - 1)),
        "itl_ms": lambda: gaps_near(outcome, value),
        "tool_calls": lambda: outcome.shown["tool_calls"] == value,
        "e2e_ms": lambda: near(outcome, outcome.shown["e2e_ms"], value[0]),
        # no rate of decoding can be derived: neither a mean nor single gaps are given
        "decode_rate": lambda: outcome.shown["tpot_ms"] is outcome.shown["chunk_gaps_ms"] is None,
        # the case allows null, or tokens counted with and without the one that had no text
        "tpot_accept": lambda: any(tpot_near(outcome, outcome.shown["tpot_ms"], low) for low in (None, *value)),
    }
    return checks[key]()


@pytest.mark.parametrize("case_id", GOOD)
def test_a_good_answer_is_shown_as_its_case_says(case_id: str, played: dict[str, Outcome]) -> None:
    """Every expected value is met, times within 30 ms, and no value of the known-bad tools is shown."""
    holds(check_good, played[case_id])


def check_good(outcome: Outcome) -> None:
    shown, expected = outcome.shown, dict(outcome.case.expected)
    for key, wrong in expected.pop("wrong_values", {}).items():
        assert not shows(outcome, key, wrong), key
    if "tpot_accept" in expected:
        del expected["tpot_ms"]
    for key, value in expected.items():
        if key in PLAIN:
            assert shown[key] == value, key
        elif key in TIMES:
            assert shown[key] is None if value is None else near(outcome, shown[key], value), (key, shown[key])
        elif key == "tpot_ms":
            assert tpot_near(outcome, shown[key], value), shown[key]
        else:
            assert check_extra(outcome, key, value), key


def shows(outcome: Outcome, key: str, wrong: Any) -> bool:  # noqa: ANN401 - a JSON value of the case
    """Whether a known-bad value is what we show; a text lists several: `64 or 0`."""
    if key == "itl_ms":  # a figure for one token; the gaps are called gaps of chunks
        return tpot_near(outcome, outcome.shown["tpot_ms"], wrong)
    shown = outcome.shown[key]
    if isinstance(wrong, str):
        return str(shown) in wrong.split(" or ")
    return abs(shown - wrong) <= TOLERANCE_MS if key.endswith("_ms") else bool(shown == wrong)


@pytest.mark.parametrize("case_id", BAD)
def test_a_failed_answer_counts_nowhere_and_keeps_what_came(case_id: str, played: dict[str, Outcome]) -> None:
    """The kind is right, no latency is shown, and beside a good request the cell's numbers are that request's alone."""
    holds(partial(check_bad, good=played["A01"].record), played[case_id])


def check_bad(outcome: Outcome, good: RequestRecord) -> None:
    shown, expected = outcome.shown, outcome.case.expected
    for key in set(PLAIN) & set(expected):
        assert shown[key] == expected[key], key
    assert [shown[key] for key in (*TIMES, "tpot_ms")] == [None] * 4
    assert shown["token_events"] == expected["partial_token_events"]
    assert expected.get("message_contains", "") in shown["error_detail"]
    if "partial_ttft_ms" in expected:
        first_ns, sent_ns = outcome.record.first_chunk_ns, outcome.record.sent_ns
        assert first_ns is not None
        assert sent_ns is not None
        assert near(outcome, (first_ns - sent_ns) / 1e6, expected["partial_ttft_ms"])
    alone, both = result_of(good), result_of(good, outcome.record)
    assert (both["scheduled"], both["completed"], both["failed"] + both["rejected"]) == (2, 1, 1)
    assert both["ttft_ms"]["n"] == both["gap_ms"]["n"] - 1 == both["e2e_ms"]["n"] == 1
    assert both["output_tok_per_s"] == alone["output_tok_per_s"]
    assert (both["request_per_s"], both["prompt_tok_per_s"]) == (alone["request_per_s"], alone["prompt_tok_per_s"])


@pytest.mark.parametrize("case_id", ["B19", "B23"])
def test_a_refusal_was_asked_once_and_is_counted_apart(case_id: str, played: dict[str, Outcome]) -> None:
    """No hidden retry restarts the clock: one send, one record, in the cell's `rejected`."""
    assert played[case_id].record.resends == 0
    cell = result_of(played[case_id].record)
    assert (cell["rejected"], cell["failed"], cell["completed"]) == (1, 0, 0)


@pytest.mark.parametrize("case_id", ["D08"])
def test_a_cold_load_stays_in_the_raw_data_and_out_of_the_statistics(case_id: str, played: dict[str, Outcome]) -> None:
    """The request is completed, its 6.2 s are in its row, and no percentile of the cell has them."""
    assert played[case_id].shown["ttft_ms"] >= 6200 - TOLERANCE_MS
    cell = result_of(played["A31"].record, played[case_id].record)
    assert (cell["completed"], cell["ttft_ms"]["n"]) == (2, 1)
    assert "cold_load" in cell["flags"]


def test_the_stamps_are_those_of_the_wire(played: dict[str, Outcome]) -> None:
    """Over all cases the first chunk is dated at most a few ms after the server wrote it, and never before it."""
    lags = []
    for outcome in played.values():
        first, expected = outcome.record.first_chunk_ns, outcome.case.expected
        due = expected.get("ttft_ms") or expected.get("partial_ttft_ms")
        if first is not None and due is not None and outcome.record.sent_ns is not None:
            written = (first - outcome.record.sent_ns) / 1e6 - due - outcome.server_late_ms(due)
            lags.append(written)
    assert len(lags) > 20
    assert sorted(lags)[len(lags) // 2] < 5


def test_request_objects_are_strict_json(played: dict[str, Outcome]) -> None:
    """What is shown of every case can be printed and read back."""
    for outcome in played.values():
        assert json.loads(json.dumps(outcome.shown, allow_nan=False)) == outcome.shown
