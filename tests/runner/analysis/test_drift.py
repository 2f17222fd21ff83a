"""The first cell, measured again at the end, is compared with itself and never chosen from."""

from typing import Any

import numpy as np
import pytest

from runner.analysis.drift import Side, compare
from runner.analysis.result import build_result, cell_row
from storage.records import RequestRecord
from tests.support.tables import make_cell, make_config, make_request, make_tables

SECONDS = 100


def one_a_second(cell: int, ttft_ms: float, late_of_five: int = 0) -> list[RequestRecord]:
    """100 requests in the window of 100 s; of any five, so many miss their target of 1 s."""
    return [
        make_request(
            n, cell=cell, at_ms=1000 * n, ttft_ms=ttft_ms if n % 5 >= late_of_five else 1500.0, gaps_ms=(10.0,) * 9
        )
        for n in range(SECONDS)
    ]


def result(again: list[RequestRecord], **drift_cell: object) -> dict[str, Any]:
    """Two settings and the first one again; its numbers at first: TTFT 100 ms, all within the targets, 10 tok/s."""
    config = make_config(run={"duration_s": 100, "warmup_s": 0, "drift_check": True})
    cells = [
        make_cell(0),
        make_cell(1, setting={"max_num_seqs": 8}),
        make_cell(2, repeat=1, **drift_cell),
    ]
    return build_result(
        make_tables([*one_a_second(0, 100.0), *one_a_second(1, 90.0), *again], cells=cells, config=config)
    )


def test_the_same_again_is_no_drift() -> None:
    """Every metric is told with both values; no warning."""
    found = result(one_a_second(2, 100.0))
    assert found["drift"]["drifted"] is False
    assert found["drift"]["metrics"] == {
        "share": {"first": 1.0, "again": 1.0, "differs": False},
        "output_tok_per_s": {"first": 10.0, "again": 10.0, "differs": False},
        "ttft_p50_ms": {"first": 100.0, "again": 100.0, "differs": False},
    }
    assert "drift" not in {w["type"] for w in found["warnings"]}


def test_a_machine_that_got_slower_is_told_with_its_numbers() -> None:
    """TTFT 100 -> 130 ms and two of five missed: two metrics in one warning of the sweep."""
    found = result(one_a_second(2, 130.0, late_of_five=2))
    metrics = found["drift"]["metrics"]
    assert metrics["share"] == {"first": 1.0, "again": 0.6, "differs": True}
    assert metrics["ttft_p50_ms"] == {"first": 100.0, "again": 130.0, "differs": True}
    assert metrics["output_tok_per_s"]["differs"] is False
    (warning,) = [w for w in found["warnings"] if w["type"] == "drift"]
    assert "60 % instead of 100 % within the targets, TTFT P50 130 ms instead of 100 ms" in warning["text"]
    assert (warning["cell"], warning["invalidates"]) == (None, False)


def test_the_repeated_cell_enters_neither_the_cells_nor_the_choice() -> None:
    """However bad it is, the first setting's numbers stay; its own row is beside the others, and adds up."""
    good, bad = result(one_a_second(2, 100.0)), result(one_a_second(2, 130.0, late_of_five=5))
    for found in (good, bad):
        assert [c["cell"] for c in found["cells"]] == [0, 1]
        assert found["status"] == "done"
    assert good["choice"] == bad["choice"]
    assert good["cells"] == bad["cells"]
    row = bad["drift"]["row"]
    assert (row["cell"], row["drift"], row["share"], row["scheduled"]) == (2, True, 0.0, 100)
    assert row["scheduled"] == row["completed"] + row["failed"] + row["rejected"] + row["cancelled"]


def test_the_line_of_an_ended_cell_says_that_it_is_the_repeated_one() -> None:
    """cells.jsonl has it as any other, with a mark that keeps it off the growing frontier."""
    config = make_config(run={"duration_s": 100, "warmup_s": 0, "drift_check": True})
    tables = make_tables(one_a_second(2, 100.0), cells=[make_cell(2, repeat=1)], config=config)
    assert cell_row(tables, 2)["drift"] is True
    ordinary = make_tables(one_a_second(0, 100.0), cells=[make_cell(0)], config=config)
    assert "drift" not in cell_row(ordinary, 0)


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_a_repeated_cell_without_numbers_is_kept_as_that(status: str) -> None:
    """Nothing is compared, nothing is claimed."""
    found = result([], status=status)
    assert (found["drift"]["drifted"], found["drift"]["metrics"]) == (False, {})
    assert found["drift"]["row"]["status"] == status


def test_a_sweep_that_was_cut_before_its_repeated_cell_has_no_drift() -> None:
    """Null until it is measured."""
    assert result([], status="running", window_end_ns=None)["drift"] is None


def test_a_cell_cut_by_the_end_of_its_runner_is_still_to_be_measured() -> None:
    """Neither running nor measured with nothing: pending, as those that never started, and its rows count nowhere."""
    cells = [
        make_cell(0),
        make_cell(1, setting={"max_num_seqs": 8}, status="running", window_start_ns=None, window_end_ns=None),
    ]
    found = build_result(make_tables([*one_a_second(0, 100.0), *one_a_second(1, 90.0)], cells=cells))
    assert [(c["status"], c["scheduled"]) for c in found["cells"]] == [("ok", 100), ("pending", 0)]
    assert found["status"] == "interrupted"
    assert found["choice"]["setting"] == {"max_num_seqs": 4}


def test_throughput_is_compared_tenth_by_tenth() -> None:
    """10 % less in every tenth is a difference; the same loss in one tenth alone is not; below 5 % is not worth it."""
    level = np.full(10, 100.0)

    def differs(again: "np.ndarray[Any, np.dtype[np.float64]]") -> bool:
        (change,) = compare(Side({}, level, np.array([])), Side({}, again, np.array([])))
        return change.differs

    assert differs(level - 10)
    assert not differs(level - np.array([100.0] + [0.0] * 9))
    assert not differs(level - 4)


def test_a_median_is_only_another_one_beyond_both_intervals() -> None:
    """Overlapping intervals are noise, however far apart the medians are."""
    noisy, other = np.linspace(50, 150, 20), np.linspace(70, 170, 20)
    (change,) = [c for c in compare(Side({}, np.zeros(10), noisy), Side({}, np.zeros(10), other))]
    assert (change.metric, change.differs) == ("ttft_p50_ms", False)


def test_one_bunch_of_misses_is_no_drift() -> None:
    """Twenty of a hundred missed in a row may be a single crowd; spread over the window they are the machine."""
    kept = {(n, "chat"): True for n in range(SECONDS)}
    bunch = kept | {(n, "chat"): False for n in range(20)}
    spread = kept | {(n, "chat"): False for n in range(0, SECONDS, 5)}

    def differs(met: dict[tuple[int, str], bool], deff: float = 1.0) -> bool:
        nothing = np.zeros(10), np.array([])
        (change,) = compare(Side(kept, *nothing), Side(met, *nothing, deff))
        assert (change.first, change.again) == (1.0, 0.8)
        return change.differs

    assert not differs(bunch)
    assert differs(spread)
    assert not differs(spread, deff=20.0)  # five effective requests, as crowds lasted so long


def test_a_median_whose_side_is_open_is_no_drift() -> None:
    """Three fifths of the window slow in one go: too few effective values to say that the median is another one."""
    first = 100.0 + np.arange(SECONDS) * 0.6180339887498949 % 1.0

    def differs(again: "np.ndarray[Any, np.dtype[np.float64]]") -> bool:
        (change,) = compare(Side({}, np.zeros(10), first), Side({}, np.zeros(10), again))
        assert change.again > 400.0
        return change.differs

    assert differs(first + 300.0)
    assert not differs(first + np.where(np.arange(SECONDS) < 40, 0.0, 300.0))
