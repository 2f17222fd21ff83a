"""Figures drawn from the made-up sweep: what is in them, not how they look."""

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app.views import cells as c
from app.views import live
from app.views.batch import batch_figure, batch_rows, limit_sentence
from app.views.ecdf import ecdf_figure, ecdf_points
from app.views.frontier import frontier_figure, hover_data, limit_of
from app.views.heatmap import heat_figure, heat_grid
from app.views.percentiles import missing_text, percentiles_figure, value_text
from app.views.request import request_figure
from app.views.share import share_figure
from app.views.theme import GREY
from app.views.timeline import MAX_REQUESTS, MAX_TICKS, timeline_figure
from tests.app.views.made_up import HOSTILE, made_up_requests, made_up_result, made_up_tables


def by_role(fig: go.Figure, role: str) -> list[go.Scatter]:
    return [t for t in fig.data if t.meta and t.meta["role"] == role]


def test_frontier_has_one_point_a_measured_cell() -> None:
    """Every measured cell is there once, with its id for opening it on click; failed cells have no point."""
    points = by_role(frontier_figure(made_up_result()), "points")
    ids = sorted(int(d[0]) for t in points for d in t.customdata)
    assert ids == [x["cell"] for x in c.measured(made_up_result())]


@pytest.mark.parametrize("dark", [False, True])
def test_figures_of_plain_data_hold_what_plotly_knows(dark: bool) -> None:
    """Plotly itself does not look at them when they are made: here it takes every property of each."""
    rows, engine = made_up_requests(), made_up_tables().engine
    rows, engine = rows[rows["cell"] == 3], engine[engine["cell"] == 3]
    late, number = {"ttft_ms": 1.0, "gap_ms": 20.0}, int(rows["request"].iloc[5])
    for fig in (
        frontier_figure(made_up_result(), dark=dark),
        percentiles_figure(made_up_result(), dark=dark),
        timeline_figure(rows, engine, marked=number, dark=dark),
        request_figure(rows, engine, number, late, dark=dark),
        ecdf_figure({"chat": [1.0, 2.0, 90.0]}, "first token (ms)", targets_ms=[5.0], dark=dark),
    ):
        assert go.Figure(fig.to_plotly_json()).to_plotly_json() == fig.to_plotly_json()
        assert fig.data


def test_frontier_line_steps_down_to_the_right() -> None:
    """The line runs over the non-dominated points: more output, less goodput."""
    (line,) = by_role(frontier_figure(made_up_result()), "frontier")
    on = [x for x in c.measured(made_up_result()) if x["on_frontier"]]
    assert len(line.x) == len(on) > 1
    assert list(line.x) == sorted(line.x)
    assert list(line.y) == sorted(line.y, reverse=True)
    assert line.line.shape == "vh"


def test_dominated_grey_invalid_hollow() -> None:
    """Colour only for the frontier; hollow marks and a reason on hover for points that can't be chosen."""
    cells = {x["cell"]: x for x in made_up_result()["cells"]}
    for trace in by_role(frontier_figure(made_up_result()), "points"):
        for data, colour, symbol in zip(trace.customdata, trace.marker.color, trace.marker.symbol, strict=True):
            cell = cells[data[0]]
            assert symbol.endswith("-open") == (c.why_invalid(cell) is not None)
            assert ("can't be chosen" in data[3]) == (c.why_invalid(cell) is not None)
            if not cell["on_frontier"] and c.why_invalid(cell) is None:
                assert colour == GREY


def test_pick_and_throughput_winner_are_named() -> None:
    """The raw winner is said to be not the pick; if both are one point, one mark says so."""
    result = made_up_result()
    fig = frontier_figure(result)
    assert by_role(fig, "raw")[0].text == ("most raw tokens – not the pick",)
    assert by_role(fig, "pick")[0].x == (c.chosen_cell(result)["output_tok_per_s"],)  # type: ignore[index]
    one = {**result, "cells": [x for x in result["cells"] if x["cell"] == result["choice"]["cells"][0]]}
    assert by_role(frontier_figure(one), "pick")[0].text == ("the pick, also most raw tokens",)
    assert by_role(frontier_figure(one), "raw")[0].x == ()


def test_more_than_eight_settings_share_one_style() -> None:
    """The ninth setting and all after it are one legend entry."""
    cell = c.measured(made_up_result())[0]
    cells = [{**cell, "cell": i, "setting": {"max_num_seqs": i + 1}} for i in range(12)]
    fig = frontier_figure({"cells": cells, "choice": None})
    names = [t.name for t in fig.data if t.showlegend is not False and t.legendgroup]
    assert names == [str(i + 1) for i in range(8)] + ["other settings"]


@pytest.mark.parametrize("cells", [[], [{"cell": 0, "setting": {}, "status": "failed", "error_kind": "out_of_memory"}]])
def test_nothing_measured_is_an_empty_picture(cells: list[dict[str, object]]) -> None:
    """No cell, or only failed ones: every figure is drawn without an error."""
    result = {"cells": cells, "choice": None, "targets": {"chat": {"ttft_ms": 1, "gap_ms": 1}}}
    for fig in (
        frontier_figure(result),
        percentiles_figure(result),
        batch_figure(result),
        share_figure(result, "chat"),
    ):
        assert isinstance(fig, go.Figure)
    assert heat_figure(heat_grid(result)).layout.xaxis.title.text


def test_hostile_names_are_text_in_every_figure() -> None:
    """No figure holds a name's markup unescaped."""
    result = made_up_result()
    cells = [{**x, "setting": {"model": HOSTILE + str(x["setting"]["max_num_seqs"])}} for x in result["cells"]]
    hostile = {**result, "cells": cells, "choice": None, "targets": {HOSTILE: {"ttft_ms": 1000, "gap_ms": 150}}}
    for fig in (
        frontier_figure(hostile),
        percentiles_figure(hostile),
        batch_figure(hostile),
        share_figure(hostile, "chat"),
        heat_figure(heat_grid(hostile)),
        ecdf_figure({HOSTILE: [1.0, 2.0]}, "x"),
    ):
        # `meta` and legend groups are data that plotly never draws
        data = [{**t.to_plotly_json(), "meta": None, "legendgroup": None} for t in fig.data]
        assert "<img" not in str(data) + str(fig.layout.to_plotly_json())


def test_missing_percentile_is_a_gap_that_says_why() -> None:
    """p99 needs 368 requests: below that no number, but a mark that tells n."""
    fig = percentiles_figure(made_up_result(), shown="p99")
    shown = [t for t in by_role(fig, "percentile") if t.meta["percentile"] == "p99" and t.yaxis == "y"]
    small = next(t for t in shown if t.name == "n too small")
    assert "n too small" in small.text[0]
    assert "needs 368" in small.text[0]
    assert any(v is None for t in shown for v in t.y)
    assert missing_text({"ttft_ms": {"p99": None, "n": 62}}, "ttft_ms", "p99") == "p99: n too small (62, needs 368)"


def test_only_the_shown_percentile_is_visible() -> None:
    """All percentiles are in the figure, one is on."""
    traces = by_role(percentiles_figure(made_up_result(), shown="p90"), "percentile")
    assert {t.meta["percentile"] for t in traces if t.visible} == {"p90"}
    assert {t.meta["percentile"] for t in traces} == {"p50", "p90", "p95", "p99"}


def test_targets_are_data_lines() -> None:
    """Target lines are traces (layout labels vanish on log axes); classes with one value share one label."""
    lines = by_role(percentiles_figure(made_up_result()), "target")
    texts = [t.text[1] for t in lines]
    assert texts == ["chat target 1.00\u00a0s", "rag target 3.00\u00a0s", "chat, rag target 150\u00a0ms", ""]


def test_heat_grid_shows_failure_as_failure() -> None:
    """A square whose cells all failed says so and has no value."""
    grid = heat_grid(made_up_result())
    assert (grid.row_key, grid.column_key) == ("max_num_seqs", "max_num_batched_tokens")
    assert (grid.rows, grid.columns) == (["2", "8", "32", "256"], ["256", "2048"])
    dead = grid.squares[3][1]
    assert (dead.state, dead.text, dead.value) == ("failed", "failed: out of memory", None)


def test_heat_grid_of_a_stopped_sweep_calls_nothing_failed() -> None:
    """Cells that wait for a resume leave their square empty; beside one that ended, that one speaks."""
    waiting = [{"cell": i, "setting": {"a": i, "b": 1}, "status": "pending", "error_kind": None} for i in (1, 2)]
    dead = {"cell": 3, "setting": {"a": 2, "b": 1}, "status": "failed", "error_kind": "out_of_memory"}
    squares = [row[0] for row in heat_grid({"cells": [*waiting, dead]}, "a", "b").squares]
    assert [(s.state, s.text, s.cell) for s in squares] == [("empty", "", None), ("failed", "failed: out of memory", 3)]


def test_heat_grid_takes_the_best_valid_cell() -> None:
    """An invalid cell with more goodput does not stand for its square; alone, it is marked."""
    cell = c.measured(made_up_result())[0]

    def one(i: int, goodput: float, flags: list[str]) -> dict[str, object]:
        return {
            **cell,
            "cell": i,
            "setting": {"a": 1},
            "load": {"request_rate": float(i)},
            "goodput_per_s": goodput,
            "flags": flags,
        }

    both = heat_grid({"cells": [one(1, 1.0, []), one(2, 9.0, ["send_lag"])]}, "a", "a")
    assert (both.squares[0][0].value, both.squares[0][0].state) == (1.0, "ok")
    alone = heat_grid({"cells": [one(2, 9.0, ["send_lag"])]}, "a", "a").squares[0][0]
    assert (alone.state, alone.text) == ("invalid", "9.00 *")


def test_heat_grid_at_one_load() -> None:
    """With a load picked, only cells at that load count."""
    grid = heat_grid(made_up_result(), load=1.0)
    at_one = {x["cell"] for x in made_up_result()["cells"] if x["request_rate"] == 1.0}
    assert {s.cell for row in grid.squares for s in row} <= at_one


def test_heat_grid_with_one_setting_key_uses_the_load() -> None:
    """One varying setting: the other axis is the load."""
    cells = [x for x in made_up_result()["cells"] if x["setting"]["max_num_batched_tokens"] == 256]
    grid = heat_grid({"cells": cells})
    assert (grid.row_key, grid.column_key) == ("max_num_seqs", "request_rate")
    assert grid.columns == ["1", "2", "3", "5"]


def test_heat_figure_writes_every_number() -> None:
    """Each square has its text."""
    grid = heat_grid(made_up_result())
    fig = heat_figure(grid)
    assert [a.text for a in fig.layout.annotations] == [s.text for row in grid.squares for s in row]


@pytest.mark.parametrize(
    ("engine", "limit", "sentence"),
    [
        (
            {"running_max": 37, "waiting_max": 0, "kv_cache_usage_max": 0.97, "num_preemptions": 12},
            {"max_num_seqs": 256, "max_num_batched_tokens": 512},
            "Limit 256, never above 37 at once; KV cache up to 97 %; 12 preemptions.",
        ),
        (
            {"running_max": 8, "waiting_max": 5, "num_preemptions": 0},
            8,
            "Limit 8, reached; up to 5 waiting; no preemptions.",
        ),
        ({"running_max": 8, "num_preemptions": 1}, None, "At most 8 at once; 1 preemption."),
        # requests so short that none ran whenever the server was asked
        ({"running_max": 0, "streams_max": 1}, 8, "Limit 8, never above 1 at once."),
        ({}, 8, "The server does not tell how many requests it runs at once."),
    ],
)
def test_limit_sentence(engine: dict[str, float], limit: object, sentence: str) -> None:
    """Limit and reality in one sentence; nothing is claimed that the server did not tell."""
    assert limit_sentence({"engine": engine, "limit": limit, "setting": {}}).replace("\u00a0", " ") == sentence


def test_limit_comes_from_the_setting_when_the_cell_has_none() -> None:
    """max_num_seqs of the setting is the limit."""
    assert limit_of({"setting": {"max_num_seqs": 16}}) == 16
    assert limit_of({"setting": {"model": "x"}}) is None


def test_batch_rows_are_one_a_setting() -> None:
    """Each measured setting once, at its busiest load."""
    rows = batch_rows(made_up_result())
    assert [r["short"] for r in rows] == [
        "2 · 256",
        "2 · 2048",
        "8 · 256",
        "8 · 2048",
        "32 · 256",
        "32 · 2048",
        "256 · 256",
    ]
    assert rows[0]["running_max"] == rows[0]["limit"] == 2


def test_share_has_intervals_and_the_wanted_line() -> None:
    """Error bars reach the interval's ends, in percent; the wanted share is a line."""
    result = made_up_result()
    fig = share_figure(result, "chat")
    row = result["cells"][0]["classes"]["chat"]
    assert fig.data[0].y[0] == pytest.approx(100 * row["share"])
    assert fig.data[0].y[0] + fig.data[0].error_y.array[0] == pytest.approx(100 * row["share_high"])
    assert fig.data[0].y[0] - fig.data[0].error_y.arrayminus[0] == pytest.approx(100 * row["share_low"])
    assert fig.data[-1].y == (90.0, 90.0)


def test_share_by_caps_alone_names_each_way() -> None:
    """Without a load axis of numbers the points stand at the names of their caps, not nowhere."""
    made = made_up_result()
    first = [x for x in c.measured(made) if x["setting"] == c.measured(made)[0]["setting"]][:2]
    cells = [
        {**x, "load": {"background_max_in_flight": cap}, "request_rate": None}
        for x, cap in zip(first, (0, 4), strict=True)
    ]
    fig = share_figure({**made, "cells": cells}, "chat")
    assert list(fig.data[0].x) == ["0", "4"]
    assert list(fig.layout.xaxis.categoryarray) == list(fig.data[0].x)
    assert fig.layout.xaxis.title.text == "background_max_in_flight"
    assert fig.data[-1].x == ("0", "4")


def test_the_wanted_share_is_a_line_at_a_single_load_too() -> None:
    """From edge to edge where there is no second load to draw it to."""
    made = made_up_result()
    fig = share_figure({**made, "cells": made["cells"][:1]}, "chat")
    assert [s.y0 for s in fig.layout.shapes] == [90.0]


def test_times_beside_work_without_targets_are_those_of_the_promised() -> None:
    """A pile of documents that nobody waits for does not stand for the first words of a chat."""
    slow, quick = {"p50": 90_000.0, "p95": 290_000.0, "n": 9}, {"p50": 200.0, "p95": 400.0, "n": 5}
    chat = {"share": 1.0, "ttft_ms": quick, "gap_ms": quick}
    cell = {"cell": 0, "ttft_ms": slow, "gap_ms": slow, "classes": {"chat": chat, "jobs": {"share": None}}}
    assert c.percentile(c.promised(cell), "ttft_ms", "p95") == 400.0
    voice = {**chat, "ttft_ms": {**quick, "p95": 500.0}}
    both = {**cell, "classes": {**cell["classes"], "voice": voice}}
    assert c.percentile(c.promised(both), "ttft_ms", "p95") == 500.0
    everyone = {**cell, "classes": {"chat": chat}}
    assert c.promised(everyone) is everyone


def test_a_long_label_is_written_towards_the_middle() -> None:
    """The pick that also has the most raw tokens stands at the right edge, where a label above it would be cut."""
    made = made_up_result()
    best = max(c.measured(made), key=lambda x: x["output_tok_per_s"])
    chosen = {**made["choice"], "setting": best["setting"], "cells": [best["cell"]]}
    (pick,) = by_role(frontier_figure({**made, "choice": chosen}), "pick")
    assert pick.text[0] == "the pick, also most raw tokens"
    assert pick.textposition.endswith(" left")


def test_ecdf_steps_are_exact() -> None:
    """The share at a value counts values at or below it; NaN are left out; long series are thinned to exact steps."""
    x, share = ecdf_points([3.0, 1.0, math.nan, 1.0, 2.0])
    assert x.tolist() == [1, 1, 2, 3]
    assert share.tolist() == [0.5, 0.5, 0.75, 1.0]
    x, share = ecdf_points(np.arange(1, 100_001))
    assert len(x) == 200
    assert np.array_equal(share, x / 100_000)


def test_timeline_shows_requests_chunks_and_engine() -> None:
    """Bars for each stage that happened, bounded ticks, engine curves in the plots below, all on one time axis."""
    rows = made_up_requests()
    tables = made_up_tables()
    fig = timeline_figure(rows[rows["cell"] == 3], tables.engine[tables.engine["cell"] == 3])
    names = [t.name for t in fig.data]
    assert names[:2] == ["queue + prefill", "decode"]
    assert {"running", "waiting", "KV cache"} <= set(names)
    ticks = next(t for t in fig.data if t.type == "scatter" and t.mode == "markers")
    assert len(ticks.x) <= MAX_TICKS
    assert {t.xaxis for t in fig.data} == {None}  # one axis: the line at the pointer runs through all plots
    assert fig.layout.xaxis.spikemode == "across"
    bar = fig.data[0]
    assert bar.customdata[0][1] in ("chat", "rag")
    assert "running" in bar.hovertext[-1]


def test_timeline_stages_are_where_they_happened() -> None:
    """Queue and prefill end at the first chunk, decode at the end."""
    rows = made_up_requests()
    one = rows[(rows["cell"] == 0) & rows["completed"]].head(1)
    fig = timeline_figure(one, pd.DataFrame())
    first, end = float(one["first_chunk_ns"].iloc[0]) / 1e9, float(one["end_ns"].iloc[0]) / 1e9
    sent = float(one["sent_ns"].iloc[0]) / 1e9
    waiting, decoding = fig.data[:2]
    assert (waiting.base[0], waiting.x[0]) == pytest.approx((sent, first - sent), abs=1e-4)
    assert (decoding.base[0], decoding.x[0]) == pytest.approx((first, end - first), abs=1e-4)
    assert timeline_figure(one.head(0), pd.DataFrame()).data == ()


def test_a_long_cell_is_drawn_from_a_moment_on() -> None:
    """More requests than a phone can draw: those that arrive from the moment asked for on, at most 300."""
    rows = made_up_requests()
    cell = rows[rows["cell"] == 3]
    assert len(cell) > MAX_REQUESTS
    fig = timeline_figure(cell, pd.DataFrame(), from_s=20.0, marked=int(cell["request"].iloc[-1]))
    drawn = {d[0] for t in fig.data if t.type == "bar" for d in t.customdata}
    arrival = cell.set_index("request")["scheduled_ns"] / 1e9
    assert len(drawn) <= MAX_REQUESTS
    assert min(arrival[list(drawn)]) >= 20.0
    assert fig.layout.xaxis.range[0] == 20.0


def test_ticks_that_would_paint_over_their_bar_wait_for_a_click() -> None:
    """Two short answers a minute apart: their ticks would be one white block, and the bar below it gone."""
    rows = made_up_requests()
    near = rows[(rows["cell"] == 0) & rows["completed"]].head(2).copy()
    far = near.copy()
    for column in ("scheduled_ns", "sent_ns", "first_chunk_ns", "end_ns"):
        far[column] = far[column] + np.array([0, 60_000_000_000])
    near["chunk_deltas_us"] = far["chunk_deltas_us"] = [[20_000] * 10, [20_000] * 10]
    assert timeline_figure(far, pd.DataFrame()).data[-1].visible == "legendonly"
    assert timeline_figure(near.head(1), pd.DataFrame()).data[-1].visible is True


def test_live_charts_are_short() -> None:
    """At most 120 points a line, the newest always among them; missing values are gaps."""
    lines = [
        {"at_s": i, "ttft_p50_ms": 1.0, "ttft_p95_ms": None, "running": 1, "kv_cache_usage": 0.5} for i in range(1000)
    ]
    kept = live.thin(lines)
    assert len(kept) <= live.MAX_POINTS
    assert kept[-1]["at_s"] == 999
    assert live.latency_figure(lines).data[1].y[0] is None
    assert live.kv_figure(lines).data[0].y[0] == 50
    for draw in (live.gap_figure, live.batch_figure, live.client_figure):
        assert isinstance(draw([]), go.Figure)


def test_intervals_are_told_where_they_are_known() -> None:
    """On hover and as bars: both ends, an open end said as such, nothing where the sample is too small."""
    told = {"p95": 820.0, "p95_low": 610.0, "p95_high": 1200.0, "n": 98}
    texts = [
        value_text({"ttft_ms": {**told, **changes}}, "ttft_ms", "p95").replace("\u00a0", " ")
        for changes in ({}, {"p95_high": None}, {"p95_low": None, "p95_high": None})
    ]
    assert texts == [
        "p95 820 ms (610 ms to 1.20 s, n = 98)",
        "p95 820 ms (upper end not known yet, n = 98)",
        "p95 820 ms (n = 98)",
    ]
    cell = {**c.measured(made_up_result())[0], "goodput_per_s_low": 0.8, "goodput_per_s_high": 1.0}
    sure = {**cell, "output_tok_per_s_low": 50.0, "output_tok_per_s_high": 60.0, "on_frontier_probability": 0.62}
    lines = hover_data(sure, "x")[3].split("<br>")
    assert "95 %: goodput 0.80 to 1.00, raw 50.0 to 60.0" in lines
    assert "on the frontier with a probability of 62\u00a0%" in lines
