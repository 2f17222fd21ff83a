"""Figures of the client benchmark from hand-made stamps, and one small real run of the command."""

import argparse
import json

import pytest

from runner.bench.command import add_arguments, parse_scenario, run
from runner.bench.figures import compare, open_share, percentiles
from runner.errors import ConfigError

MS = 1_000_000


def test_errors_are_distances_from_the_servers_truth() -> None:
    """A client that sends 1 ms before receipt and stamps 2, 3 and 5 ms late has these and no other errors."""
    truth = {
        "received_ns": [10 * MS],
        "first_numbers": [0],
        "ended_ns": [90 * MS],
        "sent_ns": [50 * MS, 70 * MS, 90 * MS],
    }
    seen = [{"sent_ns": 9 * MS, "numbers": [0, 1, 2], "stamps_ns": [52 * MS, 73 * MS, 95 * MS]}]
    client = {"seen": seen, "cpu_s": 0.00006, "rss_mb": 42.0, "clock": "kernel"}
    figures = compare(truth, client, streams=1, started_ns=4 * MS)
    assert figures["ttft_error_ms"] == {"p50": 3.0, "p99": 3.0}  # 43 ms reported, 40 ms true
    assert figures["token_lag_ms"] == {"p50": 3.0, "p99": 5.0}
    assert figures["gap_error_ms"] == {"p50": 1.0, "p99": 2.0}
    assert figures["cpu_us_per_event"] == 20.0
    assert figures["first_request_s"] == 0.006
    assert figures["clock"] == "kernel"


def test_a_client_that_saw_nothing_has_nulls() -> None:
    """No event, no figure: null, not zero or an exception."""
    truth: dict[str, list[int]] = {"received_ns": [], "first_numbers": [], "ended_ns": [], "sent_ns": []}
    figures = compare(truth, {"seen": [], "cpu_s": 1.0, "rss_mb": 1.0, "clock": "user"}, 4, 0)
    assert figures["cpu_us_per_event"] is None
    assert figures["ttft_error_ms"] == {"p50": None, "p99": None}
    assert figures["streams_open_share"] is None
    json.dumps(figures, allow_nan=False)


def test_open_share_counts_overlap_with_the_steady_part() -> None:
    """Of two asked streams one is open all the time and one half of it: 75 %."""
    second = 1_000_000_000
    truth = {
        "received_ns": [0, 0, 3 * second],
        "ended_ns": [3 * second, 2 * second, 4 * second],
    }
    assert open_share(truth, 2) == 0.75  # from second 1 to second 3
    assert open_share({name: [t // 2 for t in times] for name, times in truth.items()}, 2) is None  # too short to say


def test_percentiles_are_nearest_rank() -> None:
    """Of 1 to 200 the median is 100 and the 99th percentile 198."""
    assert percentiles([float(i) for i in range(200, 0, -1)]) == {"p50": 100.0, "p99": 198.0}


@pytest.mark.parametrize("text", ["64", "64x", "x50", "0x5", "64x0", "a lot"])
def test_a_wrong_scenario_is_one_plain_sentence(text: str) -> None:
    """The message names the flag and shows the right form."""
    with pytest.raises(ConfigError, match="write for example 256x50"):
        parse_scenario(text)


def test_the_command_measures_our_client_against_a_real_server(capsys: pytest.CaptureFixture[str]) -> None:
    """One short run prints strict JSON with every promised key, and every stream was seen whole."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    line = ["--json", "--client", "goodput", "--scenario", "4x100", "--seconds", "1.5", "--tokens", "50"]
    assert run(parser.parse_args(line)) == 0
    report = json.loads(capsys.readouterr().out)
    (result,) = report["results"]
    assert report["hardware"]
    assert (result["client"], result["scenario"], result["streams"]) == ("goodput", "4x100", 4)
    assert result["events"] >= 4 * 50
    assert result["events"] % 50 == 0
    for key in ("ttft_error_ms", "token_lag_ms", "gap_error_ms"):
        assert 0 <= result[key]["p50"] <= result[key]["p99"]
    for key in ("cpu_us_per_event", "first_request_s", "rss_mb"):
        assert result[key] > 0
    assert result["clock"] in ("kernel", "user")
