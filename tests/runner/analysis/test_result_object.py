"""The result object: its keys, its sums, its answers to degenerate sweeps, and what each flag is raised by."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis import prepare as prepare_module
from runner.analysis.prepare import CellFacts, prepare
from runner.analysis.result import build_result, cell_row, plain, score
from runner.config import Slo, SweepConfig
from runner.plan import plan_cells
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord
from tests.support.tables import CHAT, MS, SECOND, make_cell, make_config, make_request, make_tables

ONE = make_config(grid={"max_num_seqs": [4], "request_rate": [1.0]}, run={"duration_s": 100, "warmup_s": 30})
CELL_KEYS = {
    "cell", "setting", "request_rate", "offered_rate", "repeat", "status", "error_kind", "flags", "scheduled",
    "completed", "failed", "cancelled", "rejected", "output_tok_per_s", "prompt_tok_per_s", "request_per_s", "ttft_ms",
    "gap_ms", "tpot_ms", "e2e_ms", "goodput_per_s", "share", "share_low", "share_high", "classes", "engine",
    "on_frontier",
}  # fmt: skip
ENGINE_KEYS = {
    "running_mean", "running_max", "waiting_max", "kv_cache_usage_max", "num_preemptions", "batch_tokens_mean",
    "source",
}  # fmt: skip


def steady(n: int = 100, **changes: Any) -> list[RequestRecord]:  # noqa: ANN401
    """n good requests, one a second."""
    return [make_request(i, at_ms=i * 1000, ttft_ms=200, gaps_ms=[40] * 9, **changes) for i in range(n)]


def only_cell(requests: Sequence[RequestRecord] = (), **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """The one cell of a sweep with one cell."""
    (cell,) = build_result(make_tables(requests, **{"config": ONE, **more}))["cells"]
    return dict(cell)


def strict(value: object) -> object:
    """What comes back from strict JSON. Raises ValueError for NaN or infinity, TypeError for numpy."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_every_documented_key_is_there() -> None:
    """Keys of the interface page, in the result, its cells, classes, engine and choice; strict JSON."""
    result = build_result(make_tables(steady(), config=ONE))
    assert strict(result) == result
    assert {"sweep_id", "name", "status", "simulated", "backend", "environment", "cells", "choice"} <= set(result)
    (cell,) = result["cells"]
    assert set(cell) >= CELL_KEYS
    levels = {"p50", "p90", "p95", "p99"}
    sides = {f"{level}_{side}" for level in levels for side in ("low", "high")}
    assert set(cell["ttft_ms"]) == levels | sides | {"n", "needs"}
    assert set(cell["engine"]) >= ENGINE_KEYS
    chat = cell["classes"]["chat"]
    assert {"scheduled", "share", "ttft_ms", "output_tok_per_s", "goodput_per_s"} <= set(chat)
    assert set(chat["rules"]) == {"p99_gap", "mean_tpot", "every_gap", "deadline", "fluidity"}
    wanted = {"setting", "request_rate", "reason", "target_met", "raw_throughput_setting"}
    assert wanted <= set(result["choice"])


def test_a_hand_counted_cell() -> None:
    """100 requests of which 90 meet, 6 are late, 2 fail, 1 is rejected, 1 cut while still in time: share 90/99."""
    fine = steady(90)
    late = [make_request(90 + i, at_ms=90_000 + i, ttft_ms=1500) for i in range(6)]
    failed = [make_request(96 + i, at_ms=97_000, outcome="error", error_kind="timeout") for i in range(2)]
    rejected = [make_request(98, at_ms=98_000, ttft_ms=None, outcome="error", error_kind="overloaded", http_status=503)]
    cut = [make_request(99, at_ms=99_000, ttft_ms=200, outcome="cancelled", error_kind="cancelled")]
    cell = only_cell([*fine, *late, *failed, *rejected, *cut])
    counts = [cell[k] for k in ("scheduled", "completed", "failed", "rejected", "cancelled")]
    assert counts == [100, 96, 2, 1, 1]
    assert (cell["met"], cell["judged"]) == (90, 99)
    assert cell["share"] == pytest.approx(90 / 99)
    assert cell["goodput_per_s"] == 0.9
    assert cell["ttft_ms"]["n"] == 96
    assert cell["ttft_ms"]["p50"] == 200
    assert cell["classes"]["chat"]["share"] == cell["share"]
    assert cell["warnings"][0]["values"] == {"share": 0.03, "kinds": "2 timeout, 1 overloaded"}


def test_a_server_that_served_nobody() -> None:
    """359 of 509 answered, 150 in flight at the end: cancelled, never vanished, and no error."""
    records = [make_request(i, at_ms=i * 100, ttft_ms=50) for i in range(359)]
    records += [
        make_request(359 + i, at_ms=40_000 + i, ttft_ms=None, end_ns=40_500 * MS, outcome="cancelled")
        for i in range(150)
    ]
    cell = only_cell(records)
    assert (cell["completed"], cell["cancelled"], cell["failed"]) == (359, 150, 0)
    assert cell["completed"] + cell["cancelled"] == cell["scheduled"] == 509


@pytest.mark.parametrize("n", [0, 1])
def test_no_request_and_one_request(n: int) -> None:
    """Nothing to judge gives nulls; one request gives a share whose interval is wide."""
    result = build_result(make_tables(steady(n), config=ONE))
    (cell,) = result["cells"]
    assert strict(result) == result
    assert cell["ttft_ms"]["p50"] is None
    assert (cell["share"], cell["goodput_per_s"]) == ((None, None) if n == 0 else (1.0, 0.01))
    assert "low_n" in cell["flags"]
    assert (result["choice"]["setting"] is None) == (n == 0)


def test_all_failed() -> None:
    """Every request failed: share 0, no latency, target missed, nothing divided by zero."""
    records = [make_request(i, at_ms=i, ttft_ms=None, outcome="error", error_kind="connect") for i in range(50)]
    result = build_result(make_tables(records, config=ONE))
    (cell,) = result["cells"]
    assert strict(result) == result
    assert (cell["share"], cell["share_low"], cell["goodput_per_s"]) == (0.0, 0.0, 0.0)
    assert cell["ttft_ms"]["n"] == 0
    assert result["choice"]["target_met"] is False


def test_failed_skipped_and_pending_cells_appear_with_nulls() -> None:
    """A setting that did not start is failed with its reason, never a zero; the rest of the plan is pending."""
    config = make_config(grid={"max_num_seqs": [4, 8, 16], "request_rate": [1.0]})
    blank: dict[str, Any] = {"window_start_ns": None, "window_end_ns": None, "end_ns": None}
    cells = [
        make_cell(0, status="failed", error_kind="out_of_memory", log_tail="CUDA out of memory", **blank),
        make_cell(1, setting={"max_num_seqs": 8}, status="skipped", **blank),
    ]
    result = build_result(make_tables(cells=cells, config=config))
    assert strict(result) == result
    assert [c["status"] for c in result["cells"]] == ["failed", "skipped", "pending"]
    assert result["cells"][0]["error_kind"] == "out_of_memory"
    assert result["choice"]["setting"] is None
    assert result["choice"]["reason"] == (
        "No cell was measured to its end, so no setting could be chosen: 1 of 3 cells failed, 1 of them because the "
        "server ran out of memory."
    )
    assert result["status"] == "interrupted"
    for cell in result["cells"]:
        assert set(cell) >= CELL_KEYS
        assert {cell[k] for k in ("output_tok_per_s", "goodput_per_s", "share")} == {None}
        assert cell["classes"]["chat"]["scheduled"] == 0
        assert cell["on_frontier"] is False


def test_background_has_no_share_and_stays_out_of_goodput() -> None:
    """A class without targets counts in tokens and requests, not in share and goodput."""
    background = {"name": "background", "rate": 1.0, "prompt_tokens": 32, "output_tokens": 16}
    config = make_config(classes=[CHAT, background], grid={"max_num_seqs": [4], "request_rate": [1.0]})
    records = steady(40) + [make_request(i, at_ms=i, ttft_ms=9000, class_name="background") for i in range(40)]
    cell = only_cell(records, config=config)
    assert cell["share"] == 1.0
    assert cell["goodput_per_s"] == 0.4
    assert cell["scheduled"] == 80
    assert cell["classes"]["background"]["share"] is None
    assert set(cell["classes"]["background"]["rules"].values()) == {None}


def test_other_targets_without_another_run() -> None:
    """Scoring the same facts with other targets or another rule changes shares, not latencies."""
    prepared = prepare(make_tables([make_request(i, at_ms=i * 1000, gaps_ms=[40] * 49 + [900]) for i in range(60)]))
    strict_rule = score(prepared)["cells"][0]
    mean_rule = score(prepared, rule="mean_tpot")["cells"][0]
    loose = score(prepared, targets={"chat": Slo(ttft_ms=1000, gap_ms=1000)})["cells"][0]
    untargeted = score(prepared, targets={})["cells"][0]
    assert [c["share"] for c in (strict_rule, mean_rule, loose, untargeted)] == [0.0, 1.0, 1.0, None]
    assert strict_rule["ttft_ms"] == mean_rule["ttft_ms"] == untargeted["ttft_ms"]
    assert strict_rule["classes"]["chat"]["rules"] == mean_rule["classes"]["chat"]["rules"]
    assert score(prepared) == score(prepared)


def test_stalls_behind_a_good_mean_are_told() -> None:
    """Requests that pass on the mean but stalled are counted in a warning of the sweep."""
    records = [make_request(i, at_ms=i * 1000, gaps_ms=[40] * 49 + [900]) for i in range(60)]
    found = {w["type"]: w for w in build_result(make_tables(records, config=ONE))["warnings"]}
    assert found["stalls_hidden"]["values"] == {"count": 60}


def test_the_choice_that_changes_with_the_rule_is_told() -> None:
    """Setting 8 stalls (p99_gap picks 4), but by the mean it answers more: mean_tpot would pick it."""
    config = make_config()
    cells = [make_cell(0), make_cell(1, setting={"max_num_seqs": 8})]
    calm = [make_request(i, at_ms=i * 500, ttft_ms=2000 if i % 10 == 0 else 200, gaps_ms=[40] * 50) for i in range(200)]
    fast = [make_request(i, at_ms=i * 500, cell=1, ttft_ms=200, gaps_ms=[30] * 49 + [900]) for i in range(200)]
    result = build_result(make_tables(calm + fast, cells=cells, config=config), share_target=0.8)
    assert result["choice"]["setting"] == {"max_num_seqs": 4}
    found = {w["type"]: w for w in result["warnings"]}
    assert "mean_tpot" in found["rule_sensitive"]["values"]["rules"]


def test_cells_that_wait_cost_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plan of 3,000 cells one has ended: its row looks at no other cell, the result at one waiting cell for all.

    The line of each cell that ends would otherwise take seconds, between the cells of a long sweep.
    """
    looked: list[int] = []

    def counted(record: dict[str, Any], *more: Any) -> CellFacts:  # noqa: ANN401
        looked.append(int(record["cell"]))
        return facts_of(record, *more)

    facts_of = prepare_module._cell_facts
    monkeypatch.setattr(prepare_module, "_cell_facts", counted)
    config = make_config(grid={"max_num_seqs": list(range(1, 3001)), "request_rate": [1.0]})
    tables = make_tables(cells=[make_cell(0, setting={"max_num_seqs": 1})], config=config)
    row = cell_row(tables, 0)
    assert looked == [0]
    cells = build_result(tables)["cells"]
    assert looked == [0, 0, 1]
    assert {**cells[0], "on_frontier": None} == row
    assert [c["setting"]["max_num_seqs"] for c in cells] == list(range(1, 3001))
    alike = {"cell", "setting", "limit", "change_from_first"}
    assert all({k: c[k] for k in c if k not in alike} == {k: cells[1][k] for k in cells[1] if k not in alike}
               for c in cells[2:])  # fmt: skip


def test_cell_row_is_the_row_of_the_result() -> None:
    """What is told when a cell ends is what the result says later, but for the frontier, which needs all cells."""
    tables = make_tables(steady(), config=ONE)
    (row,) = build_result(tables)["cells"]
    assert cell_row(tables, 0) == {**row, "on_frontier": None, "on_frontier_probability": None}
    with pytest.raises(KeyError):
        cell_row(tables, 7)


def sweep() -> tuple[SweepConfig, list[CellRecord]]:
    """Settings 4 and 8 at one rate, both measured."""
    config = make_config()
    return config, [make_cell(p.cell, setting=p.setting, load=p.load) for p in plan_cells(config)]


def test_repeats_are_pooled_in_the_choice() -> None:
    """Two repeats of one setting are one point with both cells and all their requests."""
    config = make_config(grid={"max_num_seqs": [4], "request_rate": [1.0]}, run={"duration_s": 100, "repeats": 2})
    cells = [make_cell(0), make_cell(1, repeat=1)]
    result = build_result(make_tables(steady() + steady(cell=1), cells=cells, config=config))
    assert result["choice"]["cells"] == [0, 1]
    assert result["choice"]["goodput_per_s"] == 1.0
    assert result["choice"]["share_low"] > result["cells"][0]["share_low"]
    assert result["status"] == "done"


def samples(**columns: Sequence[float]) -> list[EngineSample]:
    rows = zip(*columns.values(), strict=True)
    return [
        EngineSample(0, i * SECOND, "metrics", 1.0, **dict(zip(columns, values, strict=True)))
        for i, values in enumerate(rows)
    ]


def flags_of(requests: Sequence[RequestRecord], **more: Any) -> list[str]:  # noqa: ANN401
    return list(only_cell(requests, **more)["flags"])


def test_a_clean_cell_has_no_flag() -> None:
    """A hundred good requests at a healthy client and server raise nothing."""
    client = [ClientSample(0, i * SECOND, 1.0, 0.2, 3) for i in range(100)]
    cell = only_cell(steady(), client=client, engine=samples(running=[1.0] * 100))
    assert cell["flags"] == []
    assert cell["warnings"] == []
    assert cell["on_frontier"] is True


@pytest.mark.parametrize(("share", "told"), [(0.5, True), (0.15, True), (0.1, False), (None, False)])
def test_other_programs_on_the_machine_are_told_and_make_no_point_invalid(share: float | None, told: bool) -> None:
    """From 15 % of all processors on; who always runs something else beside the server still gets an answer."""
    client = [ClientSample(0, i * SECOND, 1.0, 0.1, 3, share) for i in range(100)]
    cell = only_cell(steady(), client=client)
    assert cell["others_share"] == (pytest.approx(share) if share is not None else None)
    assert [w["type"] for w in cell["warnings"]] == (["machine_busy"] if told else [])
    assert cell["flags"] == []
    assert cell["on_frontier"] is True


def test_a_busy_or_late_client_is_told() -> None:
    """A full core, or timers over 100 ms late in over a tenth of the seconds, saturate it; one hiccup does not."""

    def client(lags: Sequence[float], cpu: float) -> list[ClientSample]:
        return [ClientSample(0, i * SECOND, lag, cpu, 3) for i, lag in enumerate(lags)]

    assert flags_of(steady(), client=client([1.0] * 50, 0.95)) == ["client_saturated"]
    assert flags_of(steady(), client=client([120.0] * 6 + [1.0] * 44, 0.1)) == ["client_saturated"]
    assert flags_of(steady(), client=client([300.0] + [1.0] * 49, 0.1)) == []


def test_one_of_several_load_processes_that_is_too_slow_is_told() -> None:
    """Four processes have a row each a second: one of them late, or with a full core, spoils its share of the streams,
    though it is only a quarter of the rows; the same hiccup in one second of one of them does not."""

    def four(lag: Callable[[int], float], cpu: float) -> list[ClientSample]:
        own = [ClientSample(0, i * SECOND + 1, lag(i), cpu, 3) for i in range(50)]
        return own + [ClientSample(0, i * SECOND + n, 1.0, 0.1, 3) for i in range(50) for n in (2, 3, 4)]

    assert flags_of(steady(), client=four(lambda _: 1.0, 0.95)) == ["client_saturated"]
    assert flags_of(steady(), client=four(lambda i: 120.0 if i < 6 else 1.0, 0.1)) == ["client_saturated"]
    assert flags_of(steady(), client=four(lambda i: 300.0 if i == 7 else 1.0, 0.1)) == []


def test_send_lag_is_judged_against_the_target() -> None:
    """P99 over max(10 ms, 1 % of T1): 11 ms is too late for 1 s, not for 3 s; one late send is a hiccup."""
    late = [make_request(i, at_ms=i * 1000, ttft_ms=200, sent_ns=(i * 1000 + 11) * MS) for i in range(100)]
    assert flags_of(late) == ["send_lag"]
    assert flags_of(late[:1] + steady()[1:]) == []
    assert flags_of(late[:2] + steady()[2:]) == ["send_lag"]
    loose = make_config(
        grid={"max_num_seqs": [4], "request_rate": [1.0]},
        classes=[{**CHAT, "slo": {"ttft_ms": 3000, "gap_ms": 150}}],
    )
    assert flags_of(late, config=loose) == []


def test_a_rate_that_was_not_sent_is_told() -> None:
    """Ten of 100 scheduled requests never left: the offered rate was not reached."""
    unsent = [make_request(90 + i, at_ms=90_000, ttft_ms=None, sent_ns=None, outcome="cancelled") for i in range(10)]
    assert "rate_not_reached" in flags_of(steady(90) + unsent)


def test_a_server_with_one_slot_is_told_unless_it_was_asked_for() -> None:
    """Four at once, two seconds each, one stream at a time: serialised; with max_num_seqs = 1 that is the setting."""
    closed = {**CHAT, "weight": None, "closed": {"concurrency": 4}}
    records = []
    for i in range(40):
        start = max(0, i - 3) * 2000  # each of four users sends when the stream before is done
        records.append(make_request(i, at_ms=start, ttft_ms=i * 2000 + 200 - start, gaps_ms=[200] * 9))
    for seqs, expected in ((4, True), (1, False)):
        config = make_config(classes=[closed], grid={"max_num_seqs": [seqs]})
        cells = [make_cell(setting={"max_num_seqs": seqs}, load={})]
        assert ("server_serialises" in flags_of(records, cells=cells, config=config)) is expected


def test_a_restart_and_a_warm_prefix_cache_are_told() -> None:
    """A counter that falls, and 92 % of the prompt tokens from the cache, each raise their flag."""
    totals = samples(generation_tokens_total=[10.0, 20.0, 5.0])
    assert flags_of(steady(), engine=totals) == ["server_restarted"]
    warm = samples(prefix_cache_queries_total=[100_000.0, 202_400.0], prefix_cache_hits_total=[5_000.0, 99_208.0])
    cached = steady(prompt_tokens=300, prompt_tokens_asked=300)
    assert flags_of(cached, engine=warm) == ["prefix_cached"]
    for shared, flags in ((270, []), (200, ["prefix_share_not_held"])):
        meant = make_config(
            grid={"max_num_seqs": [4], "request_rate": [1.0]}, classes=[{**CHAT, "shared_prefix_tokens": shared}]
        )
        assert flags_of(cached, engine=warm, config=meant) == flags


def test_an_overloaded_cell_is_told_and_cannot_be_chosen() -> None:
    """Twice what the server can do: overload, off the frontier, and the other setting is chosen."""
    config, cells = sweep()
    sinking = [make_request(i, at_ms=i * 500, ttft_ms=i * 500 + 500) for i in range(200)]
    result = build_result(make_tables(sinking + steady(cell=1), cells=cells, config=config))
    first, second = result["cells"]
    assert "overload" in first["flags"]
    assert "no_steady_state" in first["flags"]
    assert (first["on_frontier"], second["on_frontier"]) == (False, True)
    assert result["choice"]["setting"] == {"max_num_seqs": 8}


def test_request_flags_reach_the_cell_from_five_percent_on() -> None:
    """Five of 100 cold loads flag the cell, four do not."""
    for cold, expected in ((5, ["cold_load"]), (4, [])):
        assert flags_of(steady(100 - cold) + [make_request(99, load_ms=900.0, at_ms=99_000)] * cold) == expected


def test_a_step_of_the_clock_is_told_with_its_cell() -> None:
    """The clock was set or the machine slept: flagged, and still a measured point, since stamps are brought back to
    one clock."""
    cell = only_cell(steady(), cells=[make_cell(clock_steps=2, window_start_ns=30 * SECOND)])
    assert "clock_stepped" in cell["flags"]
    (told,) = (w for w in cell["warnings"] if w["type"] == "clock_stepped")
    assert (told["values"], told["invalidates"]) == ({"count": 2}, False)
    assert "clock_stepped" not in only_cell(steady())["flags"]


def test_user_clock_is_a_warning_without_a_flag() -> None:
    """Stamps taken by the program are told, except in virtual time, where they are exact."""
    records = steady(100, user_stamps=10)
    assert [w["type"] for w in only_cell(records)["warnings"]] == ["user_clock"]
    assert only_cell(records)["kernel_stamp_share"] == 0.0
    assert only_cell(records, meta={"simulated": True})["warnings"] == []


FATES = st.sampled_from([("ok", None), ("error", "timeout"), ("error", "rate_limited"), ("cancelled", "cancelled")])
REQUESTS = st.lists(
    st.tuples(
        st.floats(0, 120_000),
        st.one_of(st.none(), st.floats(0, 3000)),
        st.lists(st.floats(0, 300), max_size=8),
        FATES,
        st.sampled_from(["chat", "rag", "background"]),
        st.integers(0, 1),
    ),
    max_size=40,
)


@settings(max_examples=25)
@given(REQUESTS)
def test_what_holds_for_any_sweep(rows: list[tuple[Any, ...]]) -> None:
    """Sums add up in every cell and class, shares lie in their interval, rules are ordered, JSON is strict."""
    classes = [CHAT, {**CHAT, "name": "rag"}, {**CHAT, "name": "background", "slo": None}]
    config, cells = sweep()
    config = make_config(grid=config.grid, classes=classes)
    records = []
    for i, (at, ttft, gaps, (outcome, kind), name, cell) in enumerate(rows):
        records.append(
            make_request(
                i, at_ms=at, ttft_ms=ttft, gaps_ms=gaps if ttft is not None else [], outcome=outcome, error_kind=kind,
                class_name=name, cell=cell,
            )
        )  # fmt: skip
    result = build_result(make_tables(records, cells=cells, config=config))
    assert strict(result) == result
    for cell in result["cells"]:
        for part in (cell, *cell["classes"].values()):
            assert part["scheduled"] == sum(part[k] for k in ("completed", "failed", "rejected", "cancelled"))
            if part["share"] is not None:
                assert 0 <= part["share_low"] <= part["share"] <= part["share_high"] <= 1
        assert cell["scheduled"] == sum(c["scheduled"] for c in cell["classes"].values())
        for name in ("chat", "rag"):
            rules = cell["classes"][name]["rules"]
            if rules["p99_gap"] is not None:
                assert rules["every_gap"] <= min(rules.values())


def test_plain_leaves_only_strict_json() -> None:
    """numpy numbers become Python's, NaN and infinity null, tuples lists."""
    given_ = {"a": np.float64("nan"), "b": (np.int64(3), float("inf"), np.bool_(True)), "c": [1.5, None, "x"]}
    assert plain(given_) == {"a": None, "b": [3, None, True], "c": [1.5, None, "x"]}


def test_a_large_sweep_is_scored_at_the_pace_of_a_slider() -> None:
    """50 cells with half a million tokens: scoring again takes no longer than preparing them, and stays interactive."""
    config = make_config(grid={"max_num_seqs": [1, 2, 4, 8, 16], "request_rate": [1.0 * i for i in range(1, 11)]})
    cells = [make_cell(p.cell, setting=p.setting, load=p.load) for p in plan_cells(config)]
    gaps = [40.0] * 100
    records = [make_request(i, at_ms=i * 1000, gaps_ms=gaps, cell=c.cell) for c in cells for i in range(100)]
    tables = make_tables(records, cells=cells, config=config)
    begin = time.process_time()
    prepared = prepare(tables)
    between = time.process_time()
    score(prepared)
    assert time.process_time() - between < max(between - begin, 2.0)
