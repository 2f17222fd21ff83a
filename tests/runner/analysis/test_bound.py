"""What bound a setting: each rule with its evidence, the order of the rules, and honest silence."""

from dataclasses import replace
from typing import Any

import pytest

from runner.analysis.bound import TEXTS, Evidence, bound_of, bounds_of_settings

# vLLM with 256 seats of which 37 were used, nothing waiting, KV half full
QUIET = Evidence(
    limit=256, budget=2048, running_mean=20, running_max=37, full_share=0.0, waiting_mean=0.0, waiting_max=0,
    kv_max=0.5, full_kv=0.95, preemptions=0, full_steps_share=0.0, chunked_share=0.0, streams_max=36, in_system_mean=21,
    in_system_max=38,
)  # fmt: skip
# a server that tells nothing
SILENT = Evidence(limit=4, streams_max=4, streams_full_share=0.6, in_system_mean=6.0, in_system_max=9)


def by(seen: Evidence, *flags: str, **changes: object) -> str:
    return str(bound_of(replace(seen, **changes), flags)["by"])


def test_the_sentence_says_limit_kv_preemptions_and_queue() -> None:
    """Seats were free, the cache was full at 37 and threw sequences out, nobody waited."""
    seen = replace(QUIET, kv_max=0.99, running_at_full_kv=37, preemptions=12)
    found = bound_of(seen, ())
    assert found["by"] == "kv"
    assert found["text"] == (
        "The KV cache was the bound: limit 256, never above 37; KV full at 37; 12 preemptions; the queue was empty."
    )
    assert [p["id"] for p in found["parts"]] == ["kv", "limit_not_reached", "kv_full", "preemptions", "queue_empty"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "load"),
        ({"preemptions": 1}, "kv"),
        ({"swapped_max": 2.0}, "kv"),
        ({"cut_off": 1}, "kv"),
        ({"kv_max": 0.96, "waiting_max": 1}, "kv"),
        ({"kv_max": 0.96}, "load"),  # full, and nobody minds
        ({"kv_max": 0.94, "waiting_max": 1}, "load"),
        ({"kv_max": 0.8, "full_kv": 0.7, "waiting_max": 1}, "kv"),  # a request needs more than what is left
        ({"running_max": 256, "full_share": 0.2, "waiting_max": 1}, "seats"),
        ({"running_max": 256, "full_share": 0.19, "waiting_max": 1}, "load"),
        ({"running_max": 256, "full_share": 0.9}, "load"),  # the load fits exactly
        ({"running_max": 256, "full_share": 0.9, "waiting_max": 3, "preemptions": 2}, "kv"),
        ({"full_steps_share": 0.1}, "token_budget"),
        ({"full_steps_share": 0.09}, "load"),
        ({"chunked_share": 0.5}, "token_budget"),
        ({"chunked_share": 0.49}, "load"),
        ({"chunked_share": 1.0, "running_mean": 0.1}, "token_budget"),
        ({"chunked_share": 1.0, "running_mean": 0.09}, "load"),  # idle for over nine tenths of the time
        ({"budget": None, "full_steps_share": 1.0}, "load"),
        ({"waiting_mean": 3.0, "waiting_max": 9}, "token_budget"),  # seats and KV free
        ({"waiting_mean": 1.9, "waiting_max": 9}, "load"),  # fewer than one for ten running
        ({"waiting_mean": 3.0, "waiting_max": 9, "queue_time_s": 0.03, "step_s": 0.02}, "load"),  # until the next step
        ({"waiting_mean": 3.0, "waiting_max": 9, "queue_time_s": 0.05, "step_s": 0.02}, "token_budget"),
        ({"waiting_mean": 3.0, "waiting_max": 9, "has_budget": False, "budget": None}, "unknown"),
        ({"waiting_mean": 3.0, "waiting_max": 9, "kv_max": None}, "unknown"),  # it may be the KV cache
        ({"limit": None}, "load"),
        ({"limit": None, "full_share": 0.5, "waiting_mean": 4.0, "waiting_max": 9}, "seats"),  # a plateau
        ({"limit": None, "full_share": 0.49, "waiting_mean": 4.0, "waiting_max": 9}, "unknown"),
        ({"waiting_mean": None, "waiting_max": None}, "load"),  # a slot list: what runs, not what waits
        ({"waiting_max": None, "limit": 8, "running_max": 8, "full_share": 0.5, "in_system_max": 12}, "seats"),
        ({"waiting_max": None, "limit": 8, "running_max": 8, "full_share": 0.5, "in_system_max": 8}, "unknown"),
    ],
)
def test_the_first_rule_with_evidence_decides(changes: dict[str, Any], expected: str) -> None:
    """Thresholds are those of the module's docstring, on both sides."""
    assert by(QUIET, **changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "seats"),
        ({"in_system_max": 4}, "unknown"),  # all had their stream
        ({"streams_full_share": 0.1}, "unknown"),
        ({"streams_max": 3, "streams_full_share": 0.0, "in_system_max": 3}, "load"),
        ({"limit": None}, "seats"),  # never more than 4 although 6 were there
        ({"limit": None, "in_system_mean": 4.9}, "unknown"),
        ({"limit": None, "streams_full_share": 0.4}, "unknown"),
        ({"limit": None, "streams_max": 0, "streams_full_share": 0.0}, "unknown"),
    ],
)
def test_a_server_that_tells_nothing_is_judged_by_its_streams(changes: dict[str, Any], expected: str) -> None:
    """Streams at the limit with more in the system are seats; without a limit a plateau is; else it is not known."""
    assert by(SILENT, **changes) == expected


def test_the_client_goes_before_everything() -> None:
    """A load that was not made tells nothing about the server."""
    for flag in ("client_saturated", "send_lag", "rate_not_reached"):
        assert by(QUIET, flag, preemptions=5) == "client"
        assert flag in [p["id"] for p in bound_of(QUIET, [flag])["parts"]]
    assert by(QUIET, "low_n", "overload") == "load"


def test_what_is_not_told_is_said() -> None:
    """No metrics at all, and metrics without KV use."""
    assert bound_of(SILENT, ())["text"] == (
        "The seats were the bound: the server does not tell how many it runs; limit 4, never more than 4 streams "
        "at once; up to 9 requests in the system."
    )
    assert "KV use is not told" in bound_of(replace(QUIET, kv_max=None), ())["text"]
    assert bound_of(Evidence(), ())["by"] == "unknown"


def test_requests_too_short_for_the_server_to_be_seen_running_are_seen_by_their_streams() -> None:
    """Looked at between two requests it ran nobody, yet streams came: never "never above 0"."""
    short = replace(QUIET, running_mean=0.0, running_max=0, streams_max=1)
    assert "limit 256, never above 1;" in bound_of(short, ())["text"]
    lone = replace(short, limit=1, streams_full_share=0.04)
    assert "limit 1, reached 4% of the time;" in bound_of(lone, ())["text"]


def test_one_and_many() -> None:
    """1 preemption, 2 preemptions."""
    assert "; 1 preemption;" in bound_of(replace(QUIET, preemptions=1), ())["text"]
    assert "; 2 preemptions;" in bound_of(replace(QUIET, preemptions=2), ())["text"]


def test_every_part_has_a_text_that_takes_its_values() -> None:
    """Whatever is decided, its parts are known by id: the app translates them."""
    cases = [
        QUIET, SILENT, Evidence(), replace(QUIET, limit=None), replace(QUIET, chunked_share=1.0, swapped_max=3.0),
        replace(QUIET, waiting_mean=9.0, waiting_max=9, running_max=256, full_share=1.0, cut_off=2),
    ]  # fmt: skip
    for seen in cases:
        found = bound_of(seen, ())
        assert {p["id"] for p in found["parts"]} <= set(TEXTS)
        assert found["parts"][0] == {"id": found["by"], "values": {}}


def test_a_setting_is_summed_up_over_its_loads() -> None:
    """Bound by the load at 1, by the seats from 2 on; another setting apart; cells that were not measured left out."""

    def row(cell: int, seats: int, rate: float, by: str | None) -> dict[str, Any]:
        bound = {"by": by} if by else None
        return {"cell": cell, "setting": {"max_num_seqs": seats}, "load": {"request_rate": rate}, "bound": bound}

    rows = [row(0, 4, 4.0, "seats"), row(1, 4, 2.0, "seats"), row(2, 4, 1.0, "load"), row(3, 8, 1.0, "load")]
    four, eight = bounds_of_settings([*rows, row(4, 8, 2.0, None)])
    assert (four["by"], four["cell"], four["since"]) == ("seats", 0, {"request_rate": 2.0})
    assert [(x["cell"], x["by"]) for x in four["loads"]] == [(2, "load"), (1, "seats"), (0, "seats")]
    assert (eight["setting"], eight["by"], eight["since"]) == ({"max_num_seqs": 8}, "load", {"request_rate": 1.0})
