"""Sentences about a running sweep, from the lines that its runner writes."""

import pytest

from app import status
from app.views.frontier import frontier_figure
from app.words import ENGLISH
from tests.app.views.made_up import made_up_result
from tests.support.tables import make_config


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "some time"), (0.2, "1 s"), (89, "89 s"), (600, "10 min"), (7500, "2 h 5 min")]
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    """Seconds up to a minute and a half, then minutes, then hours."""
    assert status.duration(seconds, ENGLISH) == text


def test_time_left_counts_down_between_two_estimates() -> None:
    """The estimate is renewed with each cell, counts down in between, and never says that nothing is left."""
    lines = [{"at_s": at, "cell": 1, "eta_s": 60.0} for at in (10.0, 11.0, 25.0)]
    assert status.seconds_left(lines) == 45.0
    assert status.seconds_left([*lines, {"at_s": 99.0, "cell": 1, "eta_s": 60.0}]) == 1.0
    assert status.seconds_left([*lines, {"at_s": 26.0, "cell": 2, "eta_s": 40.0}]) == 40.0
    assert status.seconds_left([]) is None


def test_progress_goes_by_time_and_never_past_the_end() -> None:
    """25 s spent and 45 s left are 36 %; without an estimate the cells count."""
    lines = [{"at_s": at, "cell": 1, "eta_s": 60.0} for at in (10.0, 25.0)]
    assert status.share_done(lines, 1, 8) == pytest.approx(25 / 70)
    assert status.share_done([], 2, 8) == 0.25
    assert status.share_done([], 9, 8) == 1.0


def test_the_running_cell_is_named() -> None:
    """Number, setting, load and phase; a line between cells names the phase alone."""
    config = make_config()
    line = {"cell": 1, "phase": "measure"}
    assert status.cell_sentence(line, config, ENGLISH) == "Cell 2 of 2, max_num_seqs 8 at 1 req/s: measuring."
    assert status.cell_sentence({"cell": None, "phase": "idle"}, config, ENGLISH).startswith("Waiting until")


@pytest.mark.parametrize(("lag", "cpu", "well"), [(2.0, 0.2, True), (80.0, 0.2, False), (2.0, 0.97, False)])
def test_a_slow_load_generator_is_owned_up_to(lag: float, cpu: float, well: bool) -> None:
    """Late timers or a full core: the numbers may be our own fault."""
    assert status.client_sentence({"loop_lag_ms": lag, "cpu_share": cpu}, ENGLISH)[0] is well


def test_the_frontier_so_far_has_no_pick() -> None:
    """Ended cells only, the last line of a cell counts, and neither pick nor throughput winner is marked."""
    rows = [r for r in made_up_result()["cells"] if r["status"] == "ok"][:3]
    result = status.growing_result([{**rows[0], "goodput_per_s": 0.0}, *rows])
    assert [x["cell"] for x in result["cells"]] == [r["cell"] for r in rows]
    assert any(x["on_frontier"] for x in result["cells"])
    roles = {(t.meta or {}).get("role") for t in status.unmarked(frontier_figure(result)).data}
    assert "points" in roles
    assert not roles & {"pick", "raw"}


def test_errors_are_grouped_most_frequent_first() -> None:
    """One row a kind, however many requests failed."""
    found = status.error_rows({"errors": {"timeout": 2, "server_error": 40}}, ENGLISH)
    assert found == [{"kind": "server error", "count": 40}, {"kind": "timeout", "count": 2}]


def test_the_running_cell_of_a_search_is_the_next_one() -> None:
    """A search has no plan: the cell after those that ended is known from them, a later one is not yet."""
    config = make_config(run={"duration_s": 100, "warmup_s": 0, "find_rate": True})
    first = status.cell_sentence({"cell": 0, "phase": "measure", "cells_total": 9}, config, ENGLISH)
    assert first.startswith("Cell 1 of 9, max_num_seqs 4 at ")
    assert status.cell_sentence({"cell": 5, "phase": "measure"}, config, ENGLISH) == "Measuring."
    row = {"cell": 5, "setting": {"max_num_seqs": 8}, "load": {"request_rate": 3.0}, "repeat": 0}
    told = status.cell_sentence({"cell": 5, "phase": "drain", "cells_total": 2}, config, ENGLISH, [row])
    assert told.startswith("Cell 6 of 6, max_num_seqs 8 at 3 req/s:")


def test_ended_cells_are_listed_newest_first() -> None:
    """Each once, by its last line; a failed one with its reason; the check for drift is none of them."""
    rows = made_up_result()["cells"]
    failed = next(r for r in rows if r["status"] == "failed")
    shown = status.ended_rows([rows[0], failed, {**rows[1], "drift": True}], ENGLISH)
    assert [r["cell"] for r in shown] == [failed["cell"] + 1, 1]
    assert shown[0]["goodput"] == "failed: out of memory"
    assert set(shown[0]) == set(status.ended_titles(ENGLISH))
    assert status.ended_rows([], ENGLISH) == []


def test_preemptions_are_those_of_the_cell() -> None:
    """The server counts over its life: the first line of the cell is where counting begins."""
    lines = [{"cell": 0, "num_preemptions": 7}, {"cell": 1, "num_preemptions": 9}, {"cell": 1, "num_preemptions": 12}]
    assert status.preemptions(lines) == 3.0
    assert status.preemptions([{"cell": 1}]) is None
    assert status.preemptions([]) is None
