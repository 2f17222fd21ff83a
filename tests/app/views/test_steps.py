"""Iterations as bars, from the log of a run worked out by hand: 10 ms an iteration and 1 ms per prompt token."""

import pandas as pd
import pytest

from app.views.steps import Bar, bars_of, chosen_rows, fewer_bars, steps_figure, window_sentence, worst_window
from runner.analysis.requests import request_table
from runner.load.workload import RequestSpec
from runner.simulator.step_log import Step, StepLog
from tests.support.tables import make_config, make_request, make_tables

MS = 1_000_000
A = RequestSpec(7, "chat", 0, 0, 4, 4, 1, 0)
B = RequestSpec(8, "rag", 0, 15 * MS, 30, 2, 2, 1)


def log(from_ms: int = 0, until_ms: int = 100) -> StepLog:
    """vllm_v0: B's whole prompt at once while A, which has begun to answer, waits."""
    steps = [
        Step(0, 0, 14 * MS, 4, ((0, 4, "prefill"),)),
        Step(0, 14 * MS, 24 * MS, 1, ((0, 1, "decode"),)),
        Step(0, 24 * MS, 64 * MS, 30, ((1, 30, "prefill"),)),
        Step(0, 64 * MS, 74 * MS, 2, ((0, 1, "decode"), (1, 1, "decode"))),
        Step(0, 74 * MS, 84 * MS, 1, ((0, 1, "decode"),)),
    ]
    kept = [s for s in steps if s.begin_ns < until_ms * MS and s.end_ns > from_ms * MS]
    return StepLog(from_ms * MS, until_ms * MS, kept, {0: (A, 0), 1: (B, 15 * MS)})


ANSWERS = {7: (14 * MS, 84 * MS), 8: (64 * MS, 74 * MS)}


def test_who_waits_is_told_from_who_is_held_up() -> None:
    """B waits for its prompt's turn from its arrival on; A stands still in the middle of its answer meanwhile."""
    told = [(b.request, b.kind, b.begin_ns // MS, b.end_ns // MS) for b in bars_of(log(), ANSWERS)]
    assert told == [
        (7, "prefill", 0, 14),
        (7, "decode", 14, 24),
        (7, "held", 24, 64),
        (7, "decode", 64, 74),
        (7, "decode", 74, 84),
        (8, "waits", 15, 24),
        (8, "prefill", 24, 64),
        (8, "decode", 64, 74),
    ]


def test_a_bar_knows_its_iteration() -> None:
    """Own tokens, all tokens, requests in the batch and ms, for the hover."""
    bar = next(b for b in bars_of(log(), ANSWERS) if b.request == 8 and b.kind == "decode")
    assert bar == Bar(8, "decode", 64 * MS, 74 * MS, 1, 1, 2, 2, 10.0)


def test_waiting_begins_and_ends_with_the_window() -> None:
    """Of a request that was held up before the window and after it, no more than the window is shown."""
    told = [(b.request, b.kind, b.begin_ns // MS, b.end_ns // MS) for b in bars_of(log(30, 60), ANSWERS)]
    assert told == [(7, "held", 30, 60), (8, "prefill", 24, 64)]


def test_what_has_ended_before_the_window_or_comes_after_it_is_left_out() -> None:
    """Only B runs into a window from 84 ms on; nobody has arrived in one that ends at 0."""
    assert {b.request for b in bars_of(log(84, 90), {7: (1, 84 * MS), 8: (1, 99 * MS)})} == {8}


def test_like_iterations_in_a_row_become_one_bar() -> None:
    """Neither a prompt's chunk beside them nor a pause is lost, and the ms are their mean."""
    decodes = [Bar(1, "decode", i * 10, i * 10 + 10, 1, 1, 2, 2, 10.0 + i) for i in range(4)]
    beside = Bar(1, "decode", 40, 90, 1, 1, 258, 3, 50.0)
    merged = fewer_bars([*decodes, beside], 2)
    assert merged == [Bar(1, "decode", 0, 40, 4, 1, 2, 2, 11.5), beside]
    assert fewer_bars(decodes, 4) == decodes


def test_the_victim_and_the_longest_prompts_are_shown_first() -> None:
    """Of many requests some are shown: the one in question, those whose prompts hold up others, who waits most."""
    bars = [Bar(1, "decode", 0, 1), Bar(2, "prefill", 0, 90), Bar(3, "held", 0, 90), Bar(4, "held", 0, 50)]
    assert chosen_rows(bars, 1, 0, 90, most=3) == [1, 2, 3]
    assert chosen_rows(bars, 99, 0, 90, most=2) == [2, 3]


def test_what_reaches_out_of_the_window_counts_by_its_part_in_it() -> None:
    """A prompt that begins at the window's end does not push out those that fill it."""
    bars = [Bar(1, "prefill", 0, 90), Bar(2, "prefill", 80, 900)]
    assert chosen_rows(bars, 99, 0, 90, most=1) == [1]


def requests(*rows: object) -> pd.DataFrame:
    tables = make_tables(requests=rows)  # type: ignore[arg-type]
    return request_table(tables, make_config())


def test_the_window_lies_around_the_longest_gap() -> None:
    """A third of the gap before and after it, which is more than eight usual gaps here."""
    calm = make_request(request=0, first_chunk_ns=2_000 * MS, chunk_deltas_us=[10_000] * 9)
    frozen = make_request(request=1, first_chunk_ns=2_000 * MS, chunk_deltas_us=[10_000, 600_000, 10_000])
    window = worst_window(requests(calm, frozen), ["chat"])
    assert window is not None
    assert (window.request, window.ms, window.stall) == (1, 600.0, True)
    assert (window.from_ns, window.until_ns) == (1_810 * MS, 2_810 * MS)
    assert window_sentence(window, "vllm_v0").endswith("request 1 waits 600\u00a0ms in the middle of its answer.")


def test_without_answers_there_is_no_window() -> None:
    """Of a class that sent nothing there is nothing to show."""
    assert worst_window(requests(make_request()), ["other"]) is None


@pytest.mark.parametrize("dark", [False, True])
def test_the_figure_tells_kinds_by_colour_and_pattern_and_shares_its_time_axis(dark: bool) -> None:
    """Two panels, five words in the legend at most and each once, bars as wide as iterations in seconds."""
    fig = steps_figure({"vllm_v0": (log(), ANSWERS), "again": (log(), ANSWERS)}, 7, dark=dark)
    named = [t.name for t in fig.data if t.showlegend]
    assert sorted(named) == sorted(set(named))
    styles = {(t.name, t.marker.color, t.marker.pattern.shape) for t in fig.data}
    assert len(styles) == len({s[1] for s in styles}) == len({s[2] for s in styles}) == len(named) == 4
    prompts = next(t for t in fig.data if t.name == "prompt (prefill)")
    assert list(prompts.y) == ["▸ 7", "8"]
    assert list(prompts.x) == [0.014, 0.04]
    assert "30 of the iteration's 30 tokens" in prompts.text[1]
    assert "rag 8: 30 tokens in, 2 out" in prompts.text[1]
    assert fig.layout.xaxis.matches == "x2"
    assert fig.layout.xaxis2.title.text == "time in the cell (s)"


def test_names_of_classes_are_text() -> None:
    """Nothing in a hover is read as HTML."""
    hostile = RequestSpec(7, "<b>x</b>", 0, 0, 4, 4, 1, 0)
    told = log()
    told.requests[0] = (hostile, 0)
    fig = steps_figure({"<i>": (told, ANSWERS)}, 7)
    assert "<b>" not in "".join(t.text[0] for t in fig.data)
    assert fig.layout.annotations[0].text == "&lt;i&gt;"
