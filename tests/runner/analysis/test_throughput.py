"""Tokens and requests per second of the window, counted by hand."""

from runner.analysis.gaps import gap_table
from runner.analysis.requests import request_table
from runner.analysis.throughput import throughput
from storage.records import RequestRecord
from tests.support.tables import MS, SECOND, make_cell, make_config, make_request, make_tables

CELLS = [make_cell(window_start_ns=10 * SECOND, window_end_ns=20 * SECOND)]


def rates(records: list[RequestRecord]) -> dict[str, float]:
    rows = request_table(make_tables(records, cells=CELLS), make_config())
    return throughput(rows, gap_table(rows), 10 * SECOND, 20 * SECOND)


def test_only_tokens_inside_the_window_count() -> None:
    """Of 5 tokens a second apart across the start of a 10 s window, the 3 that arrive inside count: 0.3 tok/s."""
    found = rates([make_request(at_ms=8000, ttft_ms=500, gaps_ms=[1000] * 4)])  # tokens at 8.5 … 12.5 s
    assert found == {
        "output_tok_per_s": 0.3,
        "prompt_tok_per_s": 0.0,  # its first token came before the window
        "request_per_s": 0.1,
        "offered_rate": 0.0,
    }


def test_a_request_that_ends_after_the_window_was_offered_but_not_completed_in_it() -> None:
    """Scheduled inside, ended after: offered yes, completed no, its tokens up to the end of the window yes."""
    found = rates([make_request(at_ms=19_000, ttft_ms=500, gaps_ms=[1000])])
    assert found == {"output_tok_per_s": 0.1, "prompt_tok_per_s": 3.2, "request_per_s": 0.0, "offered_rate": 0.1}


def test_several_tokens_in_a_chunk_are_spread_over_the_chunks() -> None:
    """12 tokens in 3 chunks are 4 a chunk; two chunks inside the window are 8 tokens."""
    found = rates([make_request(at_ms=18_000, ttft_ms=500, gaps_ms=[1000, 1000], output_tokens=12)])
    assert found["output_tok_per_s"] == 0.8


def test_cut_requests_count_their_tokens_and_failed_ones_do_not() -> None:
    """Tokens of a request cut by our end were produced; a broken one counts in no throughput."""
    cut = make_request(0, at_ms=12_000, gaps_ms=[100] * 9, outcome="cancelled", output_tokens=None)
    broken = make_request(1, at_ms=12_000, gaps_ms=[100] * 9, outcome="error", error_kind="truncated")
    assert rates([cut, broken]) == {
        "output_tok_per_s": 1.0,
        "prompt_tok_per_s": 3.2,
        "request_per_s": 0.0,
        "offered_rate": 0.2,
    }


def test_untold_prompt_lengths_are_those_asked() -> None:
    """Without a told prompt length the asked one is used."""
    assert rates([make_request(at_ms=12_000, prompt_tokens=None, prompt_tokens_asked=50)])["prompt_tok_per_s"] == 5.0


def test_no_request_is_zero_per_second() -> None:
    """An empty cell did nothing: zeros, not nulls and no division error."""
    assert set(rates([]).values()) == {0.0}


def test_requests_are_completed_where_their_stream_ends() -> None:
    """The end of the stream decides, not the last token."""
    assert rates([make_request(at_ms=19_000, ttft_ms=500, end_ns=20_000 * MS)])["request_per_s"] == 0.0
    assert rates([make_request(at_ms=19_000, ttft_ms=500, end_ns=19_999 * MS)])["request_per_s"] == 0.1
