"""A server that hangs or goes away in mid-cell is told from the cell's own rows."""

import pytest

from runner.engines.silence import silence
from storage.records import EngineSample, RequestRecord
from tests.support.tables import MS, SECOND, make_request


def answered(number: int, at_s: float, *, ttft_ms: float = 100.0) -> RequestRecord:
    return make_request(number, at_ms=at_s * 1000, ttft_ms=ttft_ms, gaps_ms=(50.0,))


def cut(number: int, at_s: float, end_s: float) -> RequestRecord:
    """Sent, and never answered until our own end of the cell."""
    end = {"end_ns": round(end_s * SECOND), "outcome": "cancelled", "error_kind": "cancelled"}
    return make_request(number, at_ms=at_s * 1000, ttft_ms=None, **end)


def refused(number: int, at_s: float) -> RequestRecord:
    return make_request(number, at_ms=at_s * 1000, ttft_ms=None, outcome="error", error_kind="connect")


def test_open_requests_without_a_token_for_over_a_minute_are_a_hang() -> None:
    """The last token came at 10.15 s, requests stayed open until 90 s."""
    found = silence([answered(0, 10.0), cut(1, 12.0, 90.0), cut(2, 13.0, 90.0)], [], 600.0)
    assert found is not None
    assert found.error_kind == "server_hung"
    assert "2 requests were open" in str(found)
    assert "the last 78 s" in str(found)  # since 12 s: before, nobody waited


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ([answered(0, 10.0), cut(1, 12.0, 70.0)], "58 s are within what a long prompt may take"),
        ([answered(0, 1.0, ttft_ms=40_000.0), cut(1, 42.0, 150.0)], "108 s < 3 x a TTFT of 40 s"),
        ([cut(1, 0.0, 90.0), answered(0, 80.0)], "a token came to somebody 10 s before the end"),
        ([answered(0, 10.0), answered(1, 119.0)], "nobody waited"),
        ([answered(0, 50.0), cut(1, 119.9, 120.0)], "the only open request had just been sent"),
    ],
)
def test_a_slow_or_idle_server_does_not_hang(requests: list[RequestRecord], why: str) -> None:
    """Only a silence that begins with somebody waiting, and lasts, is one."""
    assert silence(requests, [], 600.0) is None, why


def test_the_request_timeout_bounds_the_wait() -> None:
    """With a timeout of 5 s, 6 s of silence with timed-out requests are a hang."""
    timed_out = make_request(1, at_ms=2000, ttft_ms=None, outcome="error", error_kind="timeout", end_ns=7 * SECOND)
    found = silence([answered(0, 0.5), timed_out, cut(2, 6.0, 8.0)], [], 5.0)
    assert found is not None
    assert found.error_kind == "server_hung"


def test_a_server_whose_counters_move_is_at_work() -> None:
    """A long prompt gives no token to anybody for minutes, but the server's prompt tokens go up."""
    samples = [EngineSample(0, s * SECOND, "metrics", 1.0, prompt_tokens_total=100.0 * s) for s in (20, 40, 80)]
    requests = [answered(0, 10.0), cut(1, 12.0, 90.0)]
    assert silence(requests, samples, 600.0) is None
    still = [EngineSample(0, s * SECOND, "metrics", 1.0, prompt_tokens_total=5.0) for s in (20, 40, 80)]
    assert silence(requests, still, 600.0) is not None


def test_a_server_that_refuses_everybody_after_its_last_token_has_gone() -> None:
    """Three requests in a row could not connect; two may be bad luck."""
    found = silence([answered(0, 1.0), *(refused(n, 2.0 + n) for n in (1, 2, 3))], [], 600.0)
    assert found is not None
    assert found.error_kind == "unreachable"
    assert "the last 3 requests could not connect" in str(found)
    assert silence([answered(0, 1.0), refused(1, 2.0), refused(2, 3.0)], [], 600.0) is None
    assert silence([answered(0, 1.0), *(refused(n, 2.0 + n) for n in (1, 2, 3)), answered(4, 6.0)], [], 600.0) is None


def test_a_request_that_was_answered_while_others_were_refused_shows_a_living_server() -> None:
    """Chunks count to their last one, not from the first."""
    long = make_request(0, at_ms=0, ttft_ms=100, gaps_ms=(2000.0,) * 3)
    assert long.end_ns == 6100 * MS
    assert silence([long, *(refused(n, 2.0 + n) for n in (1, 2, 3))], [], 600.0) is None
