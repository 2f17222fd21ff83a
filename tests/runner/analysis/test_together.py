"""The batch as the arrival of tokens shows it: exact on made-up bursts, silent where there are none."""

import numpy as np
import pandas as pd
import pytest

from runner.analysis.gaps import gap_table
from runner.analysis.requests import request_table
from runner.analysis.together import Together, arrivals_together
from storage.records import RequestRecord
from tests.support.tables import SECOND, make_config, make_request, make_tables


def seen(records: list[RequestRecord], streams_mean: float, end_s: float = 10) -> Together:
    rows: pd.DataFrame = request_table(make_tables(records), make_config())
    return arrivals_together(rows, gap_table(rows), 0, end_s * SECOND, streams_mean)


def batched(streams: int, steps: int) -> list[RequestRecord]:
    """`streams` answers that all get one token a step of 15 to 45 ms, written 0.1 ms one after the other."""
    gaps = 30 * np.random.default_rng(1).uniform(0.5, 1.5, steps - 1)
    return [make_request(i, ttft_ms=100 + 0.1 * i, gaps_ms=gaps.tolist()) for i in range(streams)]


@pytest.mark.parametrize("streams", [2, 4, 16, 64])
def test_tokens_of_one_iteration_are_counted_as_its_batch(streams: int) -> None:
    """N streams stepped together, 0.1 ms apart in every burst: N on average and at most."""
    assert seen(batched(streams, 100), streams) == Together(streams, streams)


def test_bursts_of_several_sizes_give_their_mean() -> None:
    """Three streams, of which one ends after half the steps: 50 bursts of 3 and 50 of 2 are 2.5 on average."""
    records = [make_request(i, ttft_ms=100 + 0.1 * i, gaps_ms=[30] * (49 if i == 1 else 99)) for i in range(3)]
    assert seen(records, 2.5) == Together(2.5, 3)


def test_one_stream_at_a_time_is_a_batch_of_one() -> None:
    """Answers one after the other: every token arrives alone."""
    records = [make_request(i, at_ms=1000 * i, gaps_ms=[20] * 30) for i in range(5)]
    assert seen(records, 0.6) == Together(1, 1)


def test_a_rare_second_stream_is_seen_where_few_are_open() -> None:
    """One stream for 200 steps with a second one beside it for the last 4: 204 tokens in 200 bursts."""
    records = [make_request(0, gaps_ms=[20] * 199), make_request(1, ttft_ms=100.1 + 20 * 196, gaps_ms=[20] * 3)]
    assert seen(records, 1.02) == Together(204 / 200, 2)


def test_streams_that_are_not_stepped_together_give_nothing() -> None:
    """Sixteen streams of their own pace and phase: no bursts stand out, so nothing is claimed."""
    rng = np.random.default_rng(2)
    records = [
        make_request(i, ttft_ms=100 + float(rng.uniform(0, 30)), gaps_ms=(30 * rng.uniform(0.7, 1.3, 200)).tolist())
        for i in range(16)
    ]
    assert seen(records, 16) == Together()


def test_several_tokens_of_a_stream_in_one_burst_are_one_sequence() -> None:
    """Speculative decoding: two chunks of each stream in every burst are still four sequences."""
    records = [make_request(i, ttft_ms=100 + 0.1 * i, gaps_ms=[*[0.02, 30] * 60, 0.02]) for i in range(4)]
    assert seen(records, 4) == Together(4, None)


def test_pauses_of_very_different_length_are_all_pauses() -> None:
    """Every tenth step takes 0.5 s because a long prompt shares it; the batch is 8 all the same."""
    gaps = [500 if n % 10 == 9 else 12 for n in range(99)]
    records = [make_request(i, ttft_ms=100 + 0.05 * i, gaps_ms=gaps) for i in range(8)]
    assert seen(records, 8) == Together(8, 8)


def test_few_tokens_tell_nothing() -> None:
    """Below twenty arrivals in the window, or with answers that came in one piece, there is no estimate."""
    assert seen(batched(4, 4), 4) == Together()
    assert seen([], 0) == Together()
    assert seen([make_request(i, at_ms=i, gaps_ms=[0.0] * 30) for i in range(4)], 4) == Together()


def test_many_streams_over_a_long_cell() -> None:
    """A thousand answers of a hundred tokens, a hundred at a time: bursts of a hundred."""
    records = [
        make_request(g * 100 + i, at_ms=g * 3000, ttft_ms=0.02 * i, gaps_ms=[25] * 99)
        for g in range(10)
        for i in range(100)
    ]
    assert seen(records, 100, 40) == Together(100, 100)
