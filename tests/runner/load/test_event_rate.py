"""Expected events of a cell, and the processes they take."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import Length, SweepConfig
from runner.load.event_rate import (
    LOOP_EVENTS_PER_S,
    STREAM_TOKENS_PER_S,
    expected_events_per_s,
    load_processes,
    mean_tokens,
)
from runner.load.trace_file import TraceRow
from runner.load.workload import build_trace
from tests.support.small_sweeps import quick_config


def config(*classes: dict[str, Any], **grid: Any) -> SweepConfig:  # noqa: ANN401 - lists of a grid
    base = {"prompt_tokens": 10, "output_tokens": 100}
    named = [{"name": f"c{i}", **base, **c} for i, c in enumerate(classes)]
    return quick_config(classes=named, grid=grid or {"max_num_seqs": [8]})


@pytest.mark.parametrize(
    ("length", "mean"),
    [
        ({"fixed": 7}, 7.0),
        ({"uniform": [1, 4]}, 2.5),
        ({"p50": 100, "p90": 100}, 100.0),
        ({"p50": 100, "p90": 100, "max": 60}, 60.0),
    ],
)
def test_mean_of_simple_lengths(length: dict[str, Any], mean: float) -> None:
    """Fixed, uniform, and a lognormal without spread."""
    assert mean_tokens(Length.model_validate(length)) == pytest.approx(mean)


@pytest.mark.parametrize("length", [{"p50": 160, "p90": 400}, {"p50": 160, "p90": 400, "max": 300}])
def test_mean_of_a_lognormal_length_is_that_of_its_draws(length: dict[str, Any]) -> None:
    """The closed form, cut at max as the draws are, agrees with the mean of 40,000 drawn lengths."""
    c = config({"rate": 1000.0, "output_tokens": length})
    drawn = [s.output_tokens for s in build_trace(c.classes, {}, 40, seed=3).open_loop]
    error = np.std(drawn) / math.sqrt(len(drawn))
    assert mean_tokens(c.classes[0].output_tokens) == pytest.approx(float(np.mean(drawn)), abs=4 * error)


def test_open_loop_classes_bring_rate_times_length() -> None:
    """Weighted classes share the rate, `rate` classes scale with load_scale."""
    weighted = config({"weight": 3}, {"weight": 1, "output_tokens": 20}, request_rate=[8.0])
    assert expected_events_per_s(weighted, {"request_rate": 8.0}) == pytest.approx(6 * 100 + 2 * 20)
    assert expected_events_per_s(config({"rate": 2.0}), {"load_scale": 3.0}) == pytest.approx(600)


def test_closed_loops_and_dumps_bring_a_stream_each() -> None:
    """Concurrency x tokens per second of a stream; max_concurrency replaces the closed classes' own numbers."""
    closed = config({"closed": {"concurrency": 4}})
    assert expected_events_per_s(closed, {}) == 4 * STREAM_TOKENS_PER_S
    assert expected_events_per_s(closed, {"max_concurrency": 64}) == 64 * STREAM_TOKENS_PER_S
    both = config({"weight": 1}, {"closed": {"concurrency": 4}}, max_concurrency=[64])
    assert expected_events_per_s(both, {"max_concurrency": 64}) == 68 * STREAM_TOKENS_PER_S
    assert expected_events_per_s(config({"dump": {"count": 30, "at_s": 1}}), {}) == 30 * STREAM_TOKENS_PER_S


def test_a_recorded_trace_brings_its_own_tokens() -> None:
    """1,000 tokens (a missing length counts as the class's mean) within 10 s, played twice as fast."""
    rows = {"c0": [TraceRow(0.0, 5, 300), TraceRow(4.0, 5, None), TraceRow(10.0, 5, 600)]}
    trace = config({"trace": "x.csv"})
    assert expected_events_per_s(trace, {}, rows) == pytest.approx(100)
    assert expected_events_per_s(trace, {"load_scale": 2.0}, rows) == pytest.approx(200)
    assert expected_events_per_s(trace, {}) == 0


@given(rate=st.floats(0.1, 1e5), cores=st.integers(1, 64))
def test_processes_are_enough_but_never_more_than_cores(rate: float, cores: int) -> None:
    """At most one a core, none above its share unless the cores run out; none where the runner's own loop will do."""
    c = config({"weight": 1}, request_rate=[rate])
    processes = load_processes(c, {"request_rate": rate}, cores)
    assert 0 <= processes <= cores
    count = max(1, processes)
    assert count == cores or count * LOOP_EVENTS_PER_S >= rate * 100 * 0.999999
    assert count == 1 or (count - 1) * LOOP_EVENTS_PER_S < rate * 100 * 1.000001


def test_a_cap_on_running_requests_keeps_them_in_the_runner() -> None:
    """A cap holds for the whole cell, so that one loop must see all of its requests."""
    load = {"request_rate": 1e4}
    assert load_processes(config({"weight": 1}, request_rate=[1e4]), load, 8) == 8
    assert load_processes(config({"weight": 1, "max_in_flight": 5}, request_rate=[1e4]), load, 8) == 0
    capped = config({"weight": 1}, request_rate=[1e4], c0_max_in_flight=[5])
    assert load_processes(capped, {**load, "c0_max_in_flight": 5}, 8) == 0


def test_the_loads_one_loop_was_shown_to_carry_stay_in_one() -> None:
    """256 closed streams, and 99 requests/s of 100 tokens, need no process of their own; 1,024 streams need three."""
    assert load_processes(config({"closed": {"concurrency": 256}}), {}, 8) == 0
    assert load_processes(config({"weight": 1}, request_rate=[99.0]), {"request_rate": 99.0}, 8) == 0
    assert load_processes(config({"closed": {"concurrency": 1024}}), {}, 8) == 3


def test_many_requests_a_second_are_sent_by_a_process_of_their_own() -> None:
    """From 100 a second on, however short their answers: those who write the rows would make the sends late."""
    short = {"output_tokens": 2}
    assert load_processes(config({"weight": 1, **short}, request_rate=[100.0]), {"request_rate": 100.0}, 2) == 1
    assert load_processes(config({"weight": 1, **short}, request_rate=[100.0]), {"request_rate": 100.0}, 1) == 0
    assert load_processes(config({"rate": 40.0, **short}), {"load_scale": 2.0}, 8) == 0
    assert load_processes(config({"rate": 40.0, **short}), {"load_scale": 2.5}, 8) == 1
    rows = {"c0": [TraceRow(i / 100, 5, 2) for i in range(1001)]}
    assert load_processes(config({"trace": "x.csv", **short}), {}, 8, rows) == 1
    assert load_processes(config({"trace": "x.csv", **short}), {"load_scale": 0.5}, 8, rows) == 0
