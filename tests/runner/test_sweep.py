"""A whole sweep on the built-in engine over real HTTP: measured, failed, stopped, killed, resumed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.analysis.result import build_result
from runner.config import SweepConfig
from runner.engines.address import free_port
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.errors import GoodputError
from storage.queries import read_sweep
from storage.side_files import ask, read_lines, read_state, status_of, withdraw
from tests.support.patience import until
from tests.support.small_sweeps import quick_config


def measure(data: Path, config: SweepConfig) -> tuple[Path, dict[str, Any]]:
    sweep_id = enqueue(data, config, "test")
    run_one(data, sweep_id, lambda _: None)
    folder = sweep_folder(data, sweep_id)
    return folder, build_result(read_sweep(folder))


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Folder and result of one sweep over two settings."""
    return measure(open_data_folder(tmp_path_factory.mktemp("quick") / "data"), quick_config())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return open_data_folder(tmp_path / "data")


def engines_of(folder: Path) -> list[psutil.Process]:
    found = []
    for p in psutil.process_iter():
        try:
            if "runner.simulator" in p.cmdline() and p.cwd() and str(folder) in p.environ().get("GOODPUT_TEST", ""):
                found.append(p)
        except (psutil.Error, OSError):
            continue
    return found


def test_a_sweep_on_the_built_in_engine_comes_out_whole(quick: tuple[Path, dict[str, Any]]) -> None:
    """Each cell is ok, nothing is lost or counted twice, and the observed batch stays within the limit."""
    folder, result = quick
    assert [c["status"] for c in result["cells"]] == ["ok", "ok"]
    for cell in result["cells"]:
        assert cell["scheduled"] == cell["completed"] + cell["failed"] + cell["rejected"] + cell["cancelled"]
        assert cell["completed"] > 0
        assert cell["engine"]["source"] == "metrics"
        assert cell["engine"]["running_max"] <= cell["setting"]["max_num_seqs"]
    assert status_of(folder) == "done"
    state = read_state(folder)
    assert state is not None
    assert state["verdict"] == result["choice"]["reason"]
    assert [line["cell"] for line in read_lines(folder, "cells.jsonl")] == [0, 1]
    assert read_lines(folder, "live.jsonl")
    assert not (folder / "sweep.duckdb.wal").exists()


def test_beside_an_engine_of_ours_the_samples_tell_what_other_programs_took(quick: tuple[Path, dict[str, Any]]) -> None:
    """A share of all processors; the engine and the load are not counted, or it would be most of them."""
    shares = read_sweep(quick[0]).client["others_share"].dropna()
    assert len(shares)
    assert shares.between(0, 1).all()


def test_all_settings_get_the_same_arrivals_and_lengths(quick: tuple[Path, dict[str, Any]]) -> None:
    """Paired comparison: scheduled times, prompt and output lengths agree request by request between settings."""
    requests = read_sweep(quick[0]).requests
    asked = ["request", "scheduled_ns", "prompt_tokens_asked", "output_tokens_asked"]
    first, second = (requests[requests["cell"] == c][asked].reset_index(drop=True) for c in (0, 1))
    assert first.equals(second)
    assert len(first) > 20


def test_lengths_are_held_and_counted_by_the_server(quick: tuple[Path, dict[str, Any]]) -> None:
    """What was asked for is what the server says it read and wrote; tokens come one a chunk with kernel stamps."""
    ok = read_sweep(quick[0]).requests.query("outcome == 'ok'")
    assert (ok["prompt_tokens"] == 16).all()
    assert (ok["output_tokens"] == 8).all()
    assert (ok["output_tokens_source"] == "usage").all()
    assert (ok["token_events"] == 8).all()
    if sys.platform == "linux":
        assert (ok["clock"] == "kernel").all()
    assert (ok["sent_ns"] >= ok["scheduled_ns"]).all()
    assert (ok["first_chunk_ns"] > ok["sent_ns"]).all()


def test_a_setting_that_does_not_start_is_a_failed_cell_and_the_sweep_goes_on(data: Path) -> None:
    """Its cells carry the reason and the engine's last words; the other setting is measured."""
    script = (
        "import sys, runpy; n = sys.argv[sys.argv.index('--max-num-seqs') + 1]\n"
        "if n == '2': print('CUDA out of memory', file=sys.stderr); sys.exit(3)\n"
        "sys.argv[0] = 'engine'; runpy.run_module('runner.simulator', run_name='__main__')"
    )
    port = free_port()
    command = [sys.executable, "-c", script, "--port", "{port}", "--cost", "a=2,b=0.01", "--kv-tokens", "4096"]
    config = quick_config(
        backend={"kind": "vllm", "url": f"http://127.0.0.1:{port}"},
        control={"mode": "process", "command": [*command, "--max-num-seqs", "{max_num_seqs}"]},
        grid={"max_num_seqs": [2, 8], "request_rate": [20.0, 30.0]},
    )
    _, result = measure(data, config)
    assert [c["status"] for c in result["cells"]] == ["failed", "failed", "ok", "ok"]
    failed = result["cells"][0]
    assert failed["error_kind"] == "out_of_memory"
    assert "CUDA out of memory" in failed["log_tail"]
    assert failed["output_tok_per_s"] is None
    assert result["choice"]["setting"] == {"max_num_seqs": 8}


def test_a_recorded_trace_is_replayed_and_kept_with_the_sweep(data: Path, tmp_path: Path) -> None:
    """Arrivals and lengths are those of the file, found from where the sweep file lies; the file may go afterwards."""
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0.3,5,3\n0.5,7,4\n0.9,9,2\n")
    config = quick_config(
        grid={"max_num_seqs": [4]},
        classes=[{"name": "mine", "trace": "trace.csv", "prompt_tokens": 1, "output_tokens": 1}],
    )
    sweep_id = enqueue(data, config, "test", tmp_path)
    trace.unlink()
    run_one(data, sweep_id, lambda _: None)
    rows = read_sweep(sweep_folder(data, sweep_id)).requests
    assert list(rows["scheduled_ns"] / 1e9) == [0.3, 0.5, 0.9]
    assert list(rows["prompt_tokens"]) == [5, 7, 9]
    assert list(rows["output_tokens"]) == [3, 4, 2]


def test_a_server_that_nobody_runs_stops_the_sweep_before_anything_is_measured(data: Path) -> None:
    """One sentence with the address; the state says failed; no database is made."""
    config = quick_config(
        backend={"kind": "openai", "url": f"http://127.0.0.1:{free_port()}"}, grid={"request_rate": [5.0]}
    )
    sweep_id = enqueue(data, config, "test")
    with pytest.raises(GoodputError, match=r"127\.0\.0\.1"):
        run_one(data, sweep_id, lambda _: None)
    folder = sweep_folder(data, sweep_id)
    assert status_of(folder) == "failed"
    assert not (folder / "sweep.duckdb").exists()


def test_stop_keeps_what_is_finished_and_resume_measures_the_rest(data: Path) -> None:
    """The page's stop file ends the running cell; resuming runs that cell and those after it, and none before."""
    sweep_id = enqueue(data, quick_config(grid={"max_num_seqs": [2, 4, 8], "request_rate": [20.0]}), "test")
    folder = sweep_folder(data, sweep_id)

    def stop_in_second_cell(line: Any) -> None:  # noqa: ANN401 - a line of live.jsonl
        if (line["cell"] == 1 and line["sent"]) or line["cells_done"] == 2:
            ask(folder, "stop")

    assert run_one(data, sweep_id, stop_in_second_cell) == "stopped"
    assert status_of(folder) == "stopped"
    before = read_sweep(folder).cells.set_index("cell")
    assert before.loc[0, "status"] == "ok"
    assert run_one(data, sweep_id, lambda _: None) == "done"
    after = read_sweep(folder).cells.set_index("cell")
    assert list(after["status"]) == ["ok", "ok", "ok"]
    assert after.loc[0, "started_unix_ns"] == before.loc[0, "started_unix_ns"]
    assert [line["cell"] for line in read_lines(folder, "cells.jsonl")] == [0, 1, 2]


def test_skip_leaves_one_cell_out(data: Path) -> None:
    """A skipped cell is a row that says so; the next one is measured, and resume does not come back to it."""
    sweep_id = enqueue(data, quick_config(run={"duration_s": 3, "warmup_s": 0.2, "drain_s": 1}), "test")
    folder = sweep_folder(data, sweep_id)

    def skip_first(line: Any) -> None:  # noqa: ANN401 - a line of live.jsonl
        if line["cell"] == 0 and line["sent"] and line["cells_done"] == 0:
            ask(folder, "skip")

    assert run_one(data, sweep_id, skip_first) == "done"
    assert list(read_sweep(folder).cells.sort_values("cell")["status"]) == ["skipped", "ok"]


def test_pause_holds_the_next_cell_until_it_is_taken_back(data: Path) -> None:
    """While paused the state says so and no cell begins."""
    sweep_id = enqueue(data, quick_config(), "test")
    folder = sweep_folder(data, sweep_id)
    seen: list[str] = []

    def pause(line: Any) -> None:  # noqa: ANN401 - a line of live.jsonl
        if line["cells_done"] == 1 and not seen:
            ask(folder, "pause")
        if line["phase"] == "idle":
            seen.append(str((read_state(folder) or {}).get("status")))
            withdraw(folder, "pause")

    assert run_one(data, sweep_id, pause) == "done"
    assert "paused" in seen
    assert list(read_sweep(folder).cells["status"]) == ["ok", "ok"]


RUNNER = [sys.executable, "-m", "runner", "--exit-when-idle", "--data"]


# of the last line of the live page; a line comes once a second, and a moment that none of them met is made up for in
# the third cell
MOMENTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "as the first cell ends": lambda line: line["cells_done"] >= 1,
    "as the second server starts": lambda line: line["cell"] == 1 or line["cells_done"] >= 2,
    "in the second cell": lambda line: (line["cell"] == 1 and line["sent"] > 0) or line["cells_done"] >= 2,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_runner_loses_no_finished_cell_and_leaves_no_engine(data: Path, moment: str) -> None:
    """After kill -9 the sweep reads as interrupted; resume ends the orphaned engine, measures what is missing and
    nothing twice."""
    sweep_id = enqueue(data, quick_config(grid={"max_num_seqs": [2, 4, 8], "request_rate": [20.0]}), "test")
    folder = sweep_folder(data, sweep_id)
    worker = subprocess.Popen([*RUNNER, str(data)], env={**os.environ, "GOODPUT_TEST": str(folder)})
    try:
        until(lambda: len(read_lines(folder, "cells.jsonl")) >= 1)
        until(lambda: any(map(MOMENTS[moment], lines(folder))))
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    orphans = engines_of(folder)
    assert status_of(folder) == "interrupted"
    first = read_lines(folder, "cells.jsonl")[0]
    assert run_one(data, sweep_id, lambda _: None) == "done"
    assert not [p for p in orphans if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    cells = read_sweep(folder).cells
    assert list(cells["status"]) == ["ok", "ok", "ok"]
    told = read_lines(folder, "cells.jsonl")
    assert sorted(line["cell"] for line in told) == [0, 1, 2]
    assert json.dumps(told[0]) == json.dumps(first)
    requests = read_sweep(folder).requests
    assert not requests.duplicated(["cell", "request"]).any()


def lines(folder: Path) -> list[dict[str, Any]]:
    return read_lines(folder, "live.jsonl", last=5)


def test_term_of_the_runner_stops_in_order(data: Path) -> None:
    """SIGTERM ends the sweep as stopped, with its engine gone and a complete database."""
    sweep_id = enqueue(data, quick_config(run={"duration_s": 30, "warmup_s": 0.2, "drain_s": 1}), "test")
    folder = sweep_folder(data, sweep_id)
    worker = subprocess.Popen([*RUNNER, str(data)], env={**os.environ, "GOODPUT_TEST": str(folder)})
    until(lambda: any(line["sent"] for line in lines(folder)))
    started = engines_of(folder)
    assert started
    worker.terminate()
    assert worker.wait(30) == 0
    assert status_of(folder) == "stopped"
    assert not [p for p in started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not (folder / "sweep.duckdb.wal").exists()
    assert len(read_sweep(folder).requests) > 0


def test_a_cell_whose_answers_are_all_cut_by_its_end_was_measured(data: Path) -> None:
    """Tokens came, so the server answered: the cut requests are censored, and the cell is no failure."""
    run = {"duration_s": 1.0, "warmup_s": 0, "drain_s": 0}
    long = [{"name": "chat", "weight": 1, "prompt_tokens": 16, "output_tokens": 3000}]
    _, result = measure(data, quick_config(grid={"request_rate": [10.0]}, run=run, classes=long))
    (cell,) = result["cells"]
    assert (cell["status"], cell["error_kind"]) == ("ok", None)
    assert cell["cancelled"] == cell["scheduled"] > 0
    assert cell["output_tok_per_s"] > 0


def test_an_engine_that_dies_in_mid_cell_fails_that_cell_only(data: Path) -> None:
    """The cell says why; the next setting starts a new engine."""
    sweep_id = enqueue(data, quick_config(run={"duration_s": 4, "warmup_s": 0.2, "drain_s": 1}), "test")
    folder = sweep_folder(data, sweep_id)
    os.environ["GOODPUT_TEST"] = str(folder)
    killed: list[int] = []

    def kill_first(line: Any) -> None:  # noqa: ANN401 - a line of live.jsonl
        if line["cell"] == 0 and line["sent"] and not killed:
            for p in engines_of(folder):
                p.kill()
                killed.append(p.pid)

    try:
        assert run_one(data, sweep_id, kill_first) == "done"
    finally:
        del os.environ["GOODPUT_TEST"]
    cells = read_sweep(folder).cells.sort_values("cell")
    assert list(cells["status"]) == ["failed", "ok"]
    assert cells.iloc[0]["error_kind"] == "out_of_memory"  # what a kill that nobody here asked for is taken for
    assert cells.iloc[0]["exit_code"] == -signal.SIGKILL
