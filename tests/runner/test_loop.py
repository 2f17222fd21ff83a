"""Sweeps that survive: servers that do not start, die, hang; an hour to stop by; pauses; the drift check."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from app.cli import main
from runner.analysis.result import build_result
from runner.config import SweepConfig
from runner.engines.address import free_port, port_is_taken
from runner.plan import plan_cells
from runner.queue import enqueue, sweep_folder
from runner.sweep import run_sweep
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.errors import GoodputError
from storage.queries import read_sweep
from storage.side_files import ask, read_lines, read_state
from tests.support.patience import until
from tests.support.small_sweeps import quick_config, quick_raw, write_toml

ENGINE = Path(__file__).parents[1] / "support" / "unruly_engine.py"
RUN = {"duration_s": 0.5, "warmup_s": 0.1, "drain_s": 4.6, "request_timeout_s": 4.0}
Line = Mapping[str, Any]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return open_data_folder(tmp_path / "data")


def unruly(folder: Path, behaviours: list[str], rates: list[float], **run: object) -> dict[str, Any]:
    port = free_port()
    command = [sys.executable, str(ENGINE), "--port", "{port}", "--behaviour", "{behaviour}"]
    return quick_raw(
        backend={"kind": "openai", "url": f"http://127.0.0.1:{port}", "api": "openai_chat"},
        control={"mode": "process", "command": [*command, "--memory", str(folder / "starts")], "ready_timeout_s": 60},
        grid={"behaviour": behaviours, "request_rate": rates},
        run={**RUN, **run},
    )


def config_of(raw: dict[str, Any]) -> SweepConfig:
    return SweepConfig.model_validate(raw)


def run_on(data: Path, sweep_id: str, now: Callable[[], datetime], see: Callable[[Line], None]) -> str:
    return asyncio.run(run_sweep(data, sweep_id, stop=asyncio.Event(), on_progress=see, now=now))


def state_of(folder: Path) -> dict[str, Any]:
    state = read_state(folder)
    assert state is not None
    return state


@pytest.fixture(scope="module")
def survived(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The cells of one sweep over all that can go wrong, each setting at three loads."""
    folder = tmp_path_factory.mktemp("unruly")
    data = open_data_folder(folder / "data")
    behaviours = ["oom", "flag", "killed", "crash_at_once", "crash", "crash_once", "hang_once"]
    sweep_id = enqueue(data, config_of(unruly(folder, behaviours, [40.0, 41.0, 42.0])), "test")
    assert run_one(data, sweep_id, lambda _: None) == "done"
    cells = read_sweep(sweep_folder(data, sweep_id)).cells
    assert len(cells) == 21
    told = read_lines(sweep_folder(data, sweep_id), "cells.jsonl")
    assert [line["cell"] for line in told] == list(range(21))
    for line in told:
        assert line["scheduled"] == line["completed"] + line["failed"] + line["rejected"] + line["cancelled"]
    return cells.assign(behaviour=[s["behaviour"] for s in cells["setting"]])


@pytest.mark.parametrize(
    ("behaviour", "kind", "exit_code", "words"),
    [
        ("oom", "out_of_memory", 1, "Insufficient Memory"),
        ("flag", "bad_command", 2, "invalid argument: --behaviour"),
        ("killed", "out_of_memory", 137, "loading the model"),
        ("crash_at_once", "exited", 7, "GGML_ASSERT"),  # started, but died of the first test request
    ],
)
def test_a_setting_that_does_not_start_fails_its_cells_at_one_start(
    survived: pd.DataFrame, behaviour: str, kind: str, exit_code: int, words: str
) -> None:
    """Reason, exit code and last log lines in each; the second and third say that they were not tried."""
    mine = survived[survived["behaviour"] == behaviour]
    assert list(mine["status"]) == ["failed"] * 3
    assert list(mine["error_kind"]) == [kind] * 3
    assert list(mine["exit_code"]) == [exit_code] * 3
    assert all(words in tail for tail in mine["log_tail"])
    assert [d.startswith("not tried again") for d in mine["error_detail"]] == [False, True, True]


def test_a_server_that_died_is_started_once_more(survived: pd.DataFrame) -> None:
    """The cell it died in has failed with the assertion in its reason; the next two are measured."""
    mine = survived[survived["behaviour"] == "crash_once"]
    assert list(mine["status"]) == ["failed", "ok", "ok"]
    assert (mine.iloc[0]["error_kind"], mine.iloc[0]["exit_code"]) == ("exited", 7)
    assert "GGML_ASSERT" in mine.iloc[0]["error_detail"]
    assert pd.isna(mine.iloc[1]["error_kind"])


def test_a_server_that_died_in_two_cells_running_is_given_up(survived: pd.DataFrame) -> None:
    """The third cell of the setting carries the same reason, untried."""
    mine = survived[survived["behaviour"] == "crash"]
    assert list(mine["error_kind"]) == ["exited"] * 3
    assert [d.startswith("not tried again") for d in mine["error_detail"]] == [False, False, True]


def test_a_server_that_hangs_is_told_from_a_slow_one_and_started_anew(survived: pd.DataFrame) -> None:
    """No token to anybody for the request timeout: its cell has failed, the next ones are measured."""
    mine = survived[survived["behaviour"] == "hang_once"]
    assert list(mine["status"]) == ["failed", "ok", "ok"]
    assert mine.iloc[0]["error_kind"] == "server_hung"
    assert "no token came to any of them" in mine.iloc[0]["error_detail"]


def test_failures_in_a_row_end_the_sweep_when_asked_to(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two failed cells, one sentence that says why, exit code 1; resume goes on with the third."""
    raw = unruly(tmp_path, ["oom", "killed", "good"], [40.0], stop_after_failures=2)
    sweep = write_toml(tmp_path / "sweep.toml", raw)
    assert main(["run", str(sweep), "--data", str(data)]) == 1
    (folder,) = (data / "sweeps").iterdir()
    state = state_of(folder)
    assert (state["status"], state["stopped_by"], state["cells_done"]) == ("stopped", "failures", 2)
    assert state["message"] in capsys.readouterr().err
    assert state["message"].startswith("stopped after 2 failed cells in a row as asked (the server was killed")
    assert f"goodput resume {folder.name} goes on" in state["message"]
    reason = build_result(read_sweep(folder))["choice"]["reason"]
    assert reason.endswith("2 of 3 cells failed, 2 of them because the server ran out of memory.")
    assert main(["resume", folder.name, "--data", str(data)]) == 0
    assert list(read_sweep(folder).cells["status"]) == ["failed", "failed", "ok"]


def test_a_cell_whose_server_does_not_get_ready_can_be_skipped(tmp_path: Path, data: Path) -> None:
    """At once, not after ready_timeout_s; the next setting is measured."""
    sweep_id = enqueue(data, config_of(unruly(tmp_path, ["never_ready", "good"], [40.0])), "test")
    folder = sweep_folder(data, sweep_id)

    def skip(line: Line) -> None:
        if line["cell"] == 0 and line["phase"] == "starting":
            ask(folder, "skip")

    assert run_one(data, sweep_id, skip) == "done"
    cells = read_sweep(folder).cells
    assert list(cells["status"]) == ["skipped", "ok"]
    assert cells.iloc[0]["error_detail"] == "skipped by the user"


def test_a_sweep_stops_by_the_hour_and_goes_on_another_night(data: Path) -> None:
    """No cell is begun that could end later; the middle load came first; resume measures the rest."""
    grid = {"max_num_seqs": [4], "request_rate": [40.0, 30.0, 20.0]}
    run = {"duration_s": 0.4, "warmup_s": 0.1, "drain_s": 1, "stop_by": "07:00"}
    config = quick_config(grid=grid, run=run)
    sweep_id = enqueue(data, config, "test")
    folder = sweep_folder(data, sweep_id)
    hour = [datetime(2026, 1, 10, 23, 0).astimezone()]

    def nearly_seven_after_two(line: Line) -> None:
        if line["cells_done"] == 1:
            hour[0] = datetime(2026, 1, 11, 6, 59, 58).astimezone()  # a cell may take 0.1 + 0.4 + 1 + 1 s

    assert run_on(data, sweep_id, lambda: hour[0], nearly_seven_after_two) == "stopped"
    state = state_of(folder)
    assert state["stopped_by"] == "stop_by"
    assert state["message"] == (f"stopped by 07:00 as asked: 1 of 3 cells are done; goodput resume {sweep_id} goes on")
    seen = read_sweep(folder).cells
    assert [load["request_rate"] for load in seen["load"]] == [30.0]
    assert [c["status"] for c in build_result(read_sweep(folder))["cells"]] == ["ok", "pending", "pending"]
    hour[0] = datetime(2026, 1, 11, 23, 0).astimezone()
    assert run_on(data, sweep_id, lambda: hour[0], lambda _: None) == "done"
    cells = read_sweep(folder).cells
    assert list(cells["status"]) == ["ok"] * 3
    assert list(cells["load"]) == [p.load for p in plan_cells(config)]


def test_an_hour_that_was_asked_for_is_no_failure(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with 0 and says how to go on; a date holds for the run that it was given for."""
    late = datetime(2026, 1, 11, 7, 0, 1).astimezone()
    hour = [datetime(2026, 1, 11, 6, 0).astimezone()]

    def jump(line: Line) -> None:
        hour[0] = late if line["cells_done"] == 1 else hour[0]

    async def with_our_clock(*args: Any, on_progress: Callable[[Line], None], **more: Any) -> str:  # noqa: ANN401
        def both(line: Line) -> None:
            on_progress(line)
            jump(line)

        return await run_sweep(*args, on_progress=both, now=lambda: hour[0], **more)

    monkeypatch.setattr("runner.work.run_sweep", with_our_clock)
    run = {"duration_s": 0.4, "warmup_s": 0.1, "drain_s": 1, "stop_by": "2026-01-11T07:00"}
    raw = quick_raw(run=run, grid={"max_num_seqs": [4], "request_rate": [20.0, 30.0]})
    sweep = write_toml(tmp_path / "sweep.toml", raw)
    assert main(["run", str(sweep), "--data", str(data)]) == 0
    assert "stopped by 2026-01-11T07:00 as asked: 1 of 2 cells are done" in capsys.readouterr().err
    (folder,) = (data / "sweeps").iterdir()
    assert main(["resume", folder.name, "--data", str(data)]) == 0
    assert state_of(folder)["status"] == "done"
    assert main(["run", str(sweep), "--data", str(data)]) == 2
    assert "stop_by is 2026-01-11T07:00, which is past" in capsys.readouterr().err


def test_a_pause_between_cells_is_shown_and_the_first_cell_comes_again_at_the_end(data: Path) -> None:
    """Phase cooldown without a cell; the repeated cell has the arrivals of the first and is no choice."""
    run = {"duration_s": 0.5, "warmup_s": 0.1, "drain_s": 1, "cool_down_s": 1.3, "drift_check": True}
    sweep_id = enqueue(data, quick_config(grid={"max_num_seqs": [4], "request_rate": [30.0]}, run=run), "test")
    folder = sweep_folder(data, sweep_id)
    seen: list[tuple[str, int | None]] = []
    assert run_one(data, sweep_id, lambda line: seen.append((line["phase"], line["cell"]))) == "done"
    assert ("cooldown", None) in seen
    tables = read_sweep(folder)
    first, again = (tables.requests[tables.requests["cell"] == n].reset_index(drop=True) for n in (0, 1))
    asked = ["request", "scheduled_ns", "prompt_tokens_asked", "output_tokens_asked"]
    assert first[asked].equals(again[asked])
    result = build_result(tables)
    assert [c["cell"] for c in result["cells"]] == [0]
    assert (result["drift"]["cell"], result["drift"]["row"]["status"]) == (1, "ok")
    assert set(result["drift"]["metrics"]) >= {"share", "output_tok_per_s"}
    assert [line.get("drift") for line in read_lines(folder, "cells.jsonl")] == [None, True]


def test_a_sweep_numbered_by_another_version_is_not_mixed(data: Path) -> None:
    """Resume refuses in one sentence instead of measuring some cells twice and others never."""
    grid = {"max_num_seqs": [4], "request_rate": [20.0, 30.0]}
    config = quick_config(grid=grid, run={"duration_s": 0.4, "warmup_s": 0.1, "drain_s": 1})
    sweep_id = enqueue(data, config, "test")
    folder = sweep_folder(data, sweep_id)

    def stop_after_one(line: Line) -> None:
        if line["cells_done"] == 1:
            ask(folder, "stop")

    assert run_one(data, sweep_id, stop_after_one) == "stopped"
    assert state_of(folder)["stopped_by"] == "user"
    sweep = json.loads((folder / "sweep.json").read_text())
    sweep["config"]["grid"]["request_rate"].reverse()
    (folder / "sweep.json").write_text(json.dumps(sweep))
    with pytest.raises(GoodputError, match="measured in another order"):
        run_one(data, sweep_id, lambda _: None)


def test_a_server_of_somebody_else_that_goes_away_is_not_waited_for_at_every_load(tmp_path: Path, data: Path) -> None:
    """The cell it left in and the next one have failed; those behind carry the reason, untried."""
    port = free_port()
    flags = ["--port", str(port), "--behaviour", "leave", "--memory", str(tmp_path / "m")]
    backend = {"kind": "openai", "url": f"http://127.0.0.1:{port}", "api": "openai_chat"}
    run = {**RUN, "duration_s": 2.0}
    config = quick_config(backend=backend, grid={"request_rate": [40.0, 41.0, 42.0, 43.0]}, run=run)
    sweep_id = enqueue(data, config, "test")
    with subprocess.Popen([sys.executable, str(ENGINE), *flags]) as server:
        until(lambda: port_is_taken("127.0.0.1", port))
        try:
            assert run_one(data, sweep_id, lambda _: None) == "done"
        finally:
            server.kill()
    cells = read_sweep(sweep_folder(data, sweep_id)).cells
    assert list(cells["status"]) == ["failed"] * 4
    assert list(cells["error_kind"]) == ["unreachable", "connect", "connect", "connect"]
    assert [d.startswith("not tried again") for d in cells["error_detail"]] == [False, False, True, True]
