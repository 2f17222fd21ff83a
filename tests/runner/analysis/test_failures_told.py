"""What went wrong in a sweep is told with its result: metrics that ended, cells that all failed."""

from typing import Any

import pytest

from runner.analysis.result import build_result
from storage.records import EngineSample
from tests.support.tables import SECOND, make_cell, make_config, make_request, make_tables


@pytest.mark.parametrize(("last_s", "told"), [(99, False), (80, False), (75, True), (30, True)])
def test_metrics_that_end_before_the_window_are_told_and_fail_nothing(last_s: int, told: bool) -> None:
    """From a quarter of the window on; the cell stays ok and can be chosen."""
    requests = [make_request(n, at_ms=1000 * n, gaps_ms=(10.0,) * 9) for n in range(100)]
    samples = [EngineSample(0, s * SECOND, "metrics", 1.0, running=1.0) for s in range(last_s + 1)]
    found = build_result(
        make_tables(requests, samples, config=make_config(grid={"max_num_seqs": [4], "request_rate": [1.0]}))
    )
    (cell,) = found["cells"]
    assert cell["status"] == "ok"
    assert ("metrics_lost" in {w["type"] for w in cell["warnings"]}) is told
    assert "metrics_lost" not in cell["flags"]
    assert found["choice"]["target_met"] is True


def test_every_cell_failed_says_why() -> None:
    """The most frequent kind in words, the first of equals; a kind without words by its name."""
    blank: dict[str, Any] = {"window_start_ns": None, "window_end_ns": None}
    kinds = ["bad_command", "out_of_memory", "out_of_memory"]
    cells = [
        make_cell(n, setting={"max_num_seqs": 2**n}, status="failed", error_kind=kind, **blank)
        for n, kind in enumerate(kinds)
    ]
    config = make_config(grid={"max_num_seqs": [1, 2, 4], "request_rate": [1.0]})
    assert build_result(make_tables(cells=cells, config=config))["choice"]["reason"] == (
        "No cell was measured to its end, so no setting could be chosen: 3 of 3 cells failed, 2 of them because the "
        "server ran out of memory."
    )
    odd = [make_cell(0, status="failed", error_kind="server_error", **blank)]
    reason = build_result(
        make_tables(cells=odd, config=make_config(grid={"max_num_seqs": [4], "request_rate": [1.0]}))
    )["choice"]["reason"]
    assert reason.endswith("1 of 1 cells failed, 1 of them because their requests ended as server_error.")
