"""A cell that cannot pass any more is cut while it runs, and what it gave is kept as data."""

from pathlib import Path

from runner.analysis.result import build_result
from runner.config import Run
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.small_sweeps import quick_config


def test_a_hopeless_cell_ends_early_with_its_reason(tmp_path: Path) -> None:
    """Targets that nothing meets: at 40 requests/s the 15th miss of 300 or so comes long before the end of 8 s. The
    cell is ok, its window ends where it was cut, its numbers are those of that window, and a warning says so."""
    impossible = {"ttft_ms": 0.001, "gap_ms": 500}
    chat = {"name": "chat", "weight": 1, "prompt_tokens": 16, "output_tokens": 8, "slo": impossible}
    run = {"duration_s": 8.0, "warmup_s": 0.2, "drain_s": 2.0, "stop_hopeless": True}
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, quick_config(grid={"request_rate": [40.0]}, classes=[chat], run=run), "test")
    run_one(data, sweep_id, lambda _: None)
    tables = read_sweep(sweep_folder(data, sweep_id))
    result = build_result(tables)
    (cell,) = result["cells"]
    assert (cell["status"], cell["error_kind"], cell["share"]) == ("ok", "hopeless", 0.0)
    assert "had missed their targets already" in cell["error_detail"]
    assert 10 < cell["scheduled"] < 250
    window_s = float(tables.cells["window_end_ns"].iloc[0] - tables.cells["window_start_ns"].iloc[0]) / 1e9
    assert 0.0 < window_s < 7.0
    assert cell["scheduled"] == cell["completed"] + cell["failed"] + cell["rejected"] + cell["cancelled"]
    assert "cut_short" in {w["type"] for w in cell["warnings"]}
    assert result["choice"]["target_met"] is False


def test_cells_are_cut_where_time_is_short_and_when_asked() -> None:
    """Left to itself: with a budget, a search for the rate or an hour to end by; else every cell is measured whole."""
    assert [
        Run(**keys).stops_hopeless
        for keys in ({}, {"budget": "20m"}, {"find_rate": True}, {"stop_by": "07:00"}, {"stop_hopeless": True})
    ] == [False, True, True, True, True]
    assert not Run(budget="20m", stop_hopeless=False).stops_hopeless
