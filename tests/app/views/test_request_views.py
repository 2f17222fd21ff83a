"""One request token by token, the table of a cell's requests, and where their time goes."""

import math

import pandas as pd
import pytest

from app.views import phases, request, requests
from runner.analysis.requests import request_table
from runner.analysis.result import build_result
from storage.records import EngineSample
from tests.support.tables import MS, make_cell, make_config, make_request, make_tables

TARGET = {"ttft_ms": 200.0, "gap_ms": 50.0}
ENGINE = [EngineSample(0, at * MS, "metrics", 1.0, 2.0, 1.0, 0.25) for at in (0, 1000, 2000)]


def table(records: list, **changes: object) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """(request table, engine samples, result object) of one cell."""
    config = make_config(grid={"max_num_seqs": [4], "request_rate": [1.0]})
    tables = make_tables(records, ENGINE, cells=[make_cell()], config=config, **changes)
    return request_table(tables, config), tables.engine, build_result(tables)


def test_chunks_are_where_they_arrived_and_late_ones_are_marked() -> None:
    """The first chunk after 100 ms is in time; of the gaps 20 and 80 ms the second breaks 50 ms."""
    rows, engine, _ = table([make_request(0, at_ms=500, gaps_ms=[20, 80])])
    fig = request.request_figure(rows, engine, 0, TARGET)
    marks = {t.name: (t.x, t.y) for t in fig.data if t.mode == "markers"}
    assert marks["chunk in time"] == ((0.6, 0.62), (100.0, 20.0))
    assert marks["chunk too late"] == ((0.7,), (80.0,))
    texts = [(t.text[1], t.textposition) for t in fig.data if t.mode == "lines+text"]
    # both end at the right edge, where words to the right of it would be cut
    assert texts == [("gap target 50\u00a0ms", "top left"), ("first token due", "top left")]


def test_what_else_ran_is_what_overlapped() -> None:
    """A request that ended before, and one that came after, are not among the others."""
    rows, engine, _ = table(
        [
            make_request(0, at_ms=0, gaps_ms=[50]),
            make_request(1, at_ms=1000, gaps_ms=[500]),
            make_request(2, at_ms=1200, gaps_ms=[100]),
            make_request(3, at_ms=9000),
        ]
    )
    assert list(request.others_of(rows, 1)["request"]) == [2]
    fig = request.request_figure(rows, engine, 1, None)
    bars = [t for t in fig.data if t.type == "bar"]
    assert {d[0] for t in bars for d in t.customdata} == {2}
    assert {t.yaxis for t in bars} == {"y4"}


def test_a_request_without_a_token_has_a_figure_and_a_sentence() -> None:
    """A failure before the first token: no chunk is drawn, and the sentence says so."""
    failed = make_request(0, ttft_ms=None, outcome="error", error_kind="timeout", end_ns=3000 * MS)
    rows, engine, _ = table([failed])
    fig = request.request_figure(rows, engine, 0, TARGET)
    assert [t for t in fig.data if t.mode == "markers"] == []
    assert request.request_sentences(request.row_of(rows, 0), TARGET) == ["No first token came."]


def test_sentences_tell_promise_and_fact() -> None:
    """First token and gaps, each beside its target; without a target the fact alone."""
    rows, _, _ = table([make_request(0, gaps_ms=[20, 80])])
    row = request.row_of(rows, 0)
    assert [s.replace("\u00a0", " ") for s in request.request_sentences(row, TARGET)] == [
        "First token after 100 ms, promised within 200 ms.",
        "Longest gap 80 ms, 99 % of its gaps within 80 ms; promised within 50 ms.",
    ]
    assert "promised" not in " ".join(request.request_sentences(row, None))


def test_the_table_says_which_promise_broke() -> None:
    """Kept, late, stalled, failed, cut and warm-up, one row a request by arrival."""
    rows, _, _ = table(
        [
            make_request(1, at_ms=20, ttft_ms=900),
            make_request(0, at_ms=10),
            make_request(2, at_ms=30, ttft_ms=None, outcome="error", error_kind="server_error"),
        ]
    )
    by_number = dict(zip(rows["request"], ["missed" if r else "met" for r in rows["request"]], strict=True))
    found = requests.request_rows(rows, [by_number[r] for r in rows["request"]], {"chat": TARGET})
    assert list(found["request"]) == [0, 1, 2]
    assert list(found["kept"]) == ["kept", "missed: first token", "missed: gaps or no answer"]
    assert list(found["outcome"]) == ["ok", "ok", "server error"]
    assert [col.key for col in requests.request_columns()] == list(found.columns)


def test_a_box_narrows_the_table() -> None:
    """Both ends count; a number that does not exist lies in no box."""
    rows, _, _ = table([make_request(i, at_ms=i, ttft_ms=t) for i, t in enumerate([100, 200, 300, None])])
    found = requests.request_rows(rows, ["met"] * 4, {"chat": TARGET})
    assert list(requests.inside(found, {"ttft_ms": (100.0, 200.0)})["request"]) == [0, 1]
    assert list(requests.inside(found, {"ttft_ms": (150.0, None)})["request"]) == [1, 2]
    assert len(requests.inside(found, {})) == 4


def test_stages_add_up_to_the_whole() -> None:
    """30 ms held back, 100 ms to the first token, 60 ms of decode: the means of two such requests."""
    records = [make_request(i, at_ms=1000 * i, ttft_ms=130, gaps_ms=[60]) for i in range(2)]
    rows, _, result = table(records)
    rows["send_lag_ms"], rows["ttft_from_send_ms"] = 30.0, 100.0
    (row,) = phases.phase_rows(result, rows)
    assert (row["held_ms"], row["first_ms"], row["decode_ms"], row["n"]) == (30.0, 100.0, 60.0, 2)
    assert row["queue_ms"] is None
    fig = phases.phases_figure([row])
    assert math.isclose(sum(t.x[0] for t in fig.data), 0.19)
    sentence = phases.phase_sentence([row], 0)
    assert sentence is not None
    assert "queue + prefill (53" in sentence


def test_the_servers_queue_time_splits_the_wait() -> None:
    """Where the server tells its mean queue time, what is left until the first token is prefill; never below zero."""
    rows, _, result = table([make_request(0, ttft_ms=100, gaps_ms=[60])])
    engine = result["cells"][0]["engine"]
    engine["queue_time_mean_s"] = 0.03
    (row,) = phases.phase_rows(result, rows)
    assert (row["queue_ms"], row["prefill_ms"], row["first_ms"]) == (30.0, pytest.approx(70.0), None)
    engine["queue_time_mean_s"] = 9.0
    assert phases.phase_rows(result, rows)[0]["prefill_ms"] == 0.0
    assert phases.phase_rows(result, rows, "chat")[0]["queue_ms"] is None  # it is told over all classes
    assert phases.phase_rows(result, rows, "nobody") == []
