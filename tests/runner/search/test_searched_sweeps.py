"""Whole searches: from the command line over the database to the result object, killed and resumed, real time too."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from runner.analysis.result import build_result
from runner.config import parse_sweep
from runner.queue import enqueue, sweep_folder
from runner.simulator.virtual_server import for_virtual_time
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from storage.side_files import ask, read_lines, read_state
from tests.support.small_sweeps import quick_config, quick_raw, write_toml

RUN = {"duration_s": 6, "warmup_s": 1, "drain_s": 2}
GRID = {"max_num_seqs": [1, 4], "request_rate": [40.0, 120.0]}
Result = dict[str, Any]


def searched(data: Path, **run: object) -> tuple[Path, Result]:
    """In virtual time, from the queue to the result; on its way no more cells are done than there are."""
    config = for_virtual_time(quick_config(grid=GRID, run={**RUN, **run}))
    sweep_id = enqueue(data, config, "test", simulated=True)
    seen: list[tuple[int, int]] = []
    assert run_one(data, sweep_id, lambda line: seen.append((line["cells_done"], line["cells_total"]))) == "done"
    assert all(done <= total for done, total in seen)
    folder = sweep_folder(data, sweep_id)
    return folder, build_result(read_sweep(folder))


def bare(result: Result) -> Result:
    """Without what differs between two runs of the same."""
    return {k: v for k, v in result.items() if k not in ("sweep_id", "environment")}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_data_folder(tmp_path_factory.mktemp("searched") / "data")


@pytest.fixture(scope="module")
def rates(data: Path) -> tuple[Path, Result]:
    return searched(data, find_rate=True)


@pytest.fixture(scope="module")
def within(data: Path) -> tuple[Path, Result]:
    return searched(data, budget="90s")


def test_each_setting_gets_its_largest_rate(rates: tuple[Path, Result]) -> None:
    """One sequence takes 2 + 7 x 2.01 ms and a prefill, 16 to 18 ms, so it can't bear 62 a second for long.

    Every probe is a cell of the result with arrivals of its own, numbered in the order it was measured.
    """
    folder, result = rates
    one, four = result["max_rates"]
    assert (one["setting"], four["setting"]) == ({"max_num_seqs": 1}, {"max_num_seqs": 4})
    assert 35 < one["max_request_rate"] < 75
    assert four["max_request_rate"] > 1.5 * one["max_request_rate"]
    assert one["low"] <= one["max_request_rate"] <= one["high"]
    assert [c["cell"] for c in result["cells"]] == list(range(one["probes"] + four["probes"]))
    assert [c["repeat"] for c in result["cells"]][: one["probes"]] == list(range(one["probes"]))
    assert result["drift"] is None
    assert result["budget"] is None
    state = read_state(folder) or {}
    assert (state["status"], state["cells_total"], state["cells_done"]) == (
        "done",
        len(result["cells"]),
        len(result["cells"]),
    )
    assert [line["cell"] for line in read_lines(folder, "cells.jsonl")] == [c["cell"] for c in result["cells"]]
    json.dumps(result, allow_nan=False)


def test_a_killed_search_goes_the_way_it_would_have_gone(
    data: Path, rates: tuple[Path, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kill -9 in the middle, resume: no finished cell is run again, and the result is the same to the last digit."""
    raw = quick_raw(grid=GRID, run=RUN)
    sweep = write_toml(tmp_path / "s.toml", raw)
    own = tmp_path / "data"
    command = [sys.executable, "-m", "app.cli", "simulate", str(sweep), "--find-rate", "--data", str(own)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "/" in line and "cells" in line and not line.lstrip("[# ").startswith("] 0/"):
                break
        os.kill(process.pid, signal.SIGKILL)
        process.stderr.read()
    (folder,) = (own / "sweeps").iterdir()
    before = build_result(read_sweep(folder))["cells"]
    assert main(["resume", folder.name, "--data", str(own)]) == 0
    assert "max_num_seqs 1 keeps its targets up to" in capsys.readouterr().out
    after = build_result(read_sweep(folder))
    assert after["cells"][: len(before)] == [
        {**cell, "on_frontier": now["on_frontier"], "on_frontier_probability": now["on_frontier_probability"]}
        for cell, now in zip(before, after["cells"], strict=False)
    ]
    whole = rates[1]
    assert after["max_rates"] == whole["max_rates"]
    assert [c["load"] for c in after["cells"]] == [c["load"] for c in whole["cells"]]


def test_a_stopped_search_within_a_time_goes_on(data: Path, within: tuple[Path, Result]) -> None:
    """Stopped after three cells and resumed it ends where the uninterrupted one did."""
    config = for_virtual_time(quick_config(grid=GRID, run={**RUN, "budget": "90s"}))
    sweep_id = enqueue(data, config, "test", simulated=True)
    folder = sweep_folder(data, sweep_id)
    asked = []

    def stop(line: Any) -> None:  # noqa: ANN401
        if line["cells_done"] >= 1 and not asked:
            asked.append(line["cells_done"])
            ask(folder, "stop")

    run_one(data, sweep_id, stop)
    assert run_one(data, sweep_id, lambda _: None) == "done"
    assert bare(build_result(read_sweep(folder))) == bare(within[1])


def test_the_better_setting_is_found_and_verified(within: tuple[Path, Result]) -> None:
    """Four seats bear 120 requests a second and one does not: said with the pairs, the time used and the grid's."""
    _, result = within
    assert result["choice"]["setting"] == {"max_num_seqs": 4}
    told = result["budget"]
    assert told["budget_s"] == 90
    assert told["used_s"] <= 90
    assert told["left_s"] == pytest.approx(90 - told["used_s"])
    assert (told["settings"], told["tried"]) == (2, 2)
    assert told["verification"]["against"] == {"max_num_seqs": 1}
    assert told["verification"]["verdict"] == "overloaded"
    assert told["verification"]["share"] > told["verification"]["share_against"]
    kinds = [r["kind"] for r in told["rounds"]]
    assert kinds == sorted(kinds)
    assert "verify" in kinds
    assert "2 of 2 settings were tried" in told["reason"]
    assert result["max_rates"] is None


def test_a_search_that_was_stopped_does_not_blame_the_time(within: tuple[Path, Result]) -> None:
    """As it stood after its first two cells, with most of its time left: not held against the other one yet."""
    tables = read_sweep(within[0])
    early = {name: getattr(tables, name)[getattr(tables, name)["cell"] < 2] for name in ("cells", "requests", "engine")}
    told = build_result(replace(tables, **early))["budget"]
    assert told["verification"]["verdict"] == "unverified"
    assert told["left_s"] > 60
    assert "The winner was not held against max_num_seqs " in told["reason"]


def test_with_nothing_met_there_is_no_winner_to_verify(data: Path) -> None:
    """A first token within 1 us: said as such, not that the time was too short."""
    (chat,) = quick_raw()["classes"]
    classes = [{**chat, "slo": {"ttft_ms": 0.001, "gap_ms": 500}}]
    config = for_virtual_time(quick_config(grid=GRID, run={**RUN, "budget": "90s"}, classes=classes))
    sweep_id = enqueue(data, config, "test", simulated=True)
    assert run_one(data, sweep_id, lambda _: None) == "done"
    told = build_result(read_sweep(sweep_folder(data, sweep_id)))["budget"]
    assert told["verification"]["verdict"] == "nothing_met"
    assert told["left_s"] > 30
    assert told["reason"].endswith("No request met its targets at any setting, so there was no winner to verify.")


def test_of_two_that_keep_all_the_overloaded_one_has_lost(data: Path) -> None:
    """Targets that nobody misses: one seat falls behind at 120 requests a second, four do not; that is no tie."""
    (chat,) = quick_raw()["classes"]
    classes = [{**chat, "slo": {"ttft_ms": 100_000, "gap_ms": 10_000}}]
    run = {**RUN, "duration_s": 12, "drain_s": 60, "budget": "8m"}
    config = for_virtual_time(quick_config(grid={**GRID, "request_rate": [120.0]}, run=run, classes=classes))
    sweep_id = enqueue(data, config, "test", simulated=True)
    assert run_one(data, sweep_id, lambda _: None) == "done"
    told = build_result(read_sweep(sweep_folder(data, sweep_id)))["budget"]["verification"]
    assert told["setting"] == {"max_num_seqs": 4}
    assert (told["share"], told["share_against"], told["verdict"]) == (1.0, 1.0, "overloaded")


def test_other_targets_are_judged_from_the_same_probes(rates: tuple[Path, Result]) -> None:
    """A slider moves the target and the largest rate follows, without another cell."""
    folder, result = rates
    strict = build_result(read_sweep(folder), share_target=0.99)
    assert strict["max_rates"][0]["probes"] == result["max_rates"][0]["probes"]
    assert strict["max_rates"][0]["load"] < result["max_rates"][0]["load"]


def test_the_command_line_refuses_what_is_no_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two flags at once, a time too short and what is no time are refused."""
    sweep = write_toml(tmp_path / "s.toml", quick_raw(grid={"max_num_seqs": [1], "request_rate": [40.0]}, run=RUN))
    data = str(tmp_path / "data")
    assert main(["simulate", str(sweep), "--budget", "1s", "--data", data]) == 2
    assert "run.budget = 1s is too short" in capsys.readouterr().err
    assert main(["simulate", str(sweep), "--budget", "soon", "--data", data]) == 2
    assert "write the time the sweep may take" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["simulate", str(sweep), "--budget", "20m", "--find-rate", "--data", data])


def test_a_measured_search_runs_in_real_time_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in engine over HTTP: stopped after two probes and resumed, no probe is measured twice, and a line of
    cells.jsonl that a kill had lost is there again."""
    monkeypatch.setattr("runner.search.rate.MOST_PROBES", 4)
    data = open_data_folder(tmp_path / "data")
    run = {"duration_s": 0.8, "warmup_s": 0.1, "drain_s": 1.0, "find_rate": True, "share_target": 0.8}
    raw = quick_raw(grid={"max_num_seqs": [2], "request_rate": [60.0]}, run=run)
    raw["classes"][0]["slo"] = {"ttft_ms": 60, "gap_ms": 60}
    config = parse_sweep(raw, "test")
    sweep_id = enqueue(data, config, "test")
    folder = sweep_folder(data, sweep_id)
    totals = []

    def stop_after_two(line: Any) -> None:  # noqa: ANN401
        totals.append((line["cells_done"], line["cells_total"], line["eta_s"]))
        if line["cells_done"] == 2:
            ask(folder, "stop")

    assert run_one(data, sweep_id, stop_after_two) == "stopped"
    first = read_sweep(folder).cells
    finished = first[first["status"] == "ok"]
    assert len(finished) == 2
    assert all(eta is None or eta > 0 for _, _, eta in totals)
    (folder / "cells.jsonl").write_text((folder / "cells.jsonl").read_text().splitlines(keepends=True)[0])
    assert run_one(data, sweep_id, lambda _: None) == "done"
    cells = read_sweep(folder).cells
    assert list(cells["cell"]) == list(range(len(cells)))
    assert list(cells["started_unix_ns"])[:2] == list(finished["started_unix_ns"])
    assert sorted(line["cell"] for line in read_lines(folder, "cells.jsonl")) == list(range(len(cells)))
    (told,) = build_result(read_sweep(folder))["max_rates"]
    assert told["probes"] == len(cells) > 2
    assert told["outcome"] in ("found", "wide", "ill_defined", "above", "below")
