"""Sweeps in virtual time, from the sweep file to the result object, the list and the shared page."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.data import write_report
from runner.analysis.result import build_result, score
from runner.config import parse_sweep
from runner.errors import ConfigError
from runner.plan import plan_cells
from runner.queue import enqueue
from runner.simulated_sweep import VirtualSweep, check_virtual, profile_from_json
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.virtual_server import for_virtual_time
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from storage.side_files import list_sweeps, read_lines, read_state, write_state
from tests.support.small_sweeps import QUICK_COST, quick_config, quick_raw, write_toml

LLAMA = {"kind": "llama_cpp", "url": "http://127.0.0.1:8080", "model": "some"}


def simulate(sweep: Path, data: Path, *more: str | Path, seed: str = "0") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "app.cli", "simulate", str(sweep), "--data", str(data), *map(str, more)]
    env = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(command, capture_output=True, text=True, timeout=110, env=env, stdin=subprocess.DEVNULL)


def varied() -> dict[str, Any]:
    """Open and closed loops, a trace, a cap, two schedulers; seconds of load."""
    lengths = {"prompt_tokens": {"p50": 60, "p90": 200, "max": 500}, "output_tokens": {"uniform": [1, 60]}}
    return quick_raw(
        backend={"kind": "simulated", "cost": QUICK_COST, "kv_tokens": 4096},
        grid={"scheduler": ["vllm_v1", "sarathi"], "max_num_seqs": [4], "request_rate": [15.0]},
        run={"duration_s": 9, "warmup_s": 3, "repeats": 2},
        classes=[
            {"name": "chat", "weight": 1, **lengths, "slo": {"ttft_ms": 100, "gap_ms": 20}},
            {"name": "users", "closed": {"concurrency": 2, "think_s": 0.5}, **lengths},
            {"name": "jobs", "dump": {"count": 20, "at_s": 5}, "max_in_flight": 2, **lengths},
        ],
    )


def test_two_processes_give_the_same_numbers_to_the_last_bit(tmp_path: Path) -> None:
    """Only the id and what it ran with may differ; the hash seed of the process makes no difference."""
    sweep = write_toml(tmp_path / "v.toml", varied())
    results = []
    for seed in ("1", "2"):
        done = simulate(sweep, tmp_path / seed, "--json", seed=seed)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["simulated"] is True
        assert result["status"] == "done"
        assert len(result["cells"]) == 4
        assert {c["status"] for c in result["cells"]} == {"ok"}
        results.append({k: v for k, v in result.items() if k not in ("sweep_id", "environment")})
    assert results[0] == results[1]


def ran(tmp_path: Path, raw: dict[str, Any], profile: EngineProfile | None = None) -> tuple[Path, dict[str, Any]]:
    data = open_data_folder(tmp_path / "data")
    config = for_virtual_time(parse_sweep(raw, "test"))
    given = asdict(profile) if profile else None
    sweep_id = enqueue(data, config, "test", simulated=True, profile=given)
    assert run_one(data, sweep_id, lambda line: None) == "done"
    folder = data / "sweeps" / sweep_id
    return folder, build_result(read_sweep(folder))


def test_it_is_a_sweep_like_any_other_marked_as_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In lists, in the database, on the shared page; a line for each cell; no claim of a kernel's time."""
    folder, result = ran(tmp_path, quick_raw())
    assert [s.simulated for s in list_sweeps(folder.parent.parent)] == [True]
    assert [line["cell"] for line in read_lines(folder, "cells.jsonl")] == [0, 1]
    assert result["simulated"] is True
    assert result["environment"]["time"] == "virtual"
    assert result["environment"]["cost_models"] == ["cost given by hand"]
    tables = read_sweep(folder)
    assert set(tables.requests["clock"]) == {"user"}
    assert (tables.requests["user_stamps"] == tables.requests["token_events"]).all()
    assert [w["type"] for c in result["cells"] for w in c["warnings"] if w["type"] == "user_clock"] == []
    write_report(folder, tmp_path / "page.html", include_private=False)
    assert "Simulated: nothing was measured" in (tmp_path / "page.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["list", "--data", str(tmp_path / "data")]) == 0
    assert "(simulated)" in capsys.readouterr().out
    assert main(["show", folder.name, "--data", str(tmp_path / "data")]) == 0
    assert capsys.readouterr().out.startswith("Simulated: nothing was measured")


def test_the_command_judges_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints is the result that the verdict was taken from, and what `show` finds in the database later."""
    judged: list[dict[str, Any]] = []
    monkeypatch.setattr("runner.analysis.result.score", lambda *a, **k: judged.append(score(*a, **k)) or judged[-1])
    sweep = write_toml(tmp_path / "v.toml", quick_raw())
    assert main(["simulate", str(sweep), "--data", str(tmp_path / "data"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(judged) == 1
    assert main(["show", printed["sweep_id"], "--data", str(tmp_path / "data"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == printed
    state = read_state(tmp_path / "data" / "sweeps" / printed["sweep_id"]) or {}
    assert state["verdict"] == printed["choice"]["reason"]


def test_a_stopped_one_goes_on_in_virtual_time(tmp_path: Path) -> None:
    """What resume finds in the folder says that nothing is to be measured."""
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, for_virtual_time(quick_config()), "test", simulated=True)
    write_state(data / "sweeps" / sweep_id, {"status": "stopped", "cells_total": 2, "cells_done": 0})
    assert run_one(data, sweep_id, lambda line: None) == "done"
    assert build_result(read_sweep(data / "sweeps" / sweep_id))["simulated"] is True


def test_failures_in_a_row_end_it_when_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As when measured: two settings that hold no prompt, one sentence, exit code 1; resume goes on with the third."""
    backend = {"kind": "simulated", "cost": QUICK_COST, "kv_tokens": 16}
    slo = {"ttft_ms": 1000, "gap_ms": 500}
    grid = {"kv_tokens": [16, 32, 4096], "request_rate": [30.0]}
    classes = [{"name": "chat", "weight": 1, "prompt_tokens": 60, "output_tokens": 8, "slo": slo}]
    run = {"duration_s": 1.0, "warmup_s": 0.2, "drain_s": 2.0, "stop_after_failures": 2}
    sweep = write_toml(tmp_path / "v.toml", quick_raw(backend=backend, grid=grid, run=run, classes=classes))
    assert main(["simulate", str(sweep), "--data", str(tmp_path / "data")]) == 1
    (folder,) = (tmp_path / "data" / "sweeps").iterdir()
    state = read_state(folder) or {}
    assert (state["status"], state["stopped_by"], state["cells_done"]) == ("stopped", "failures", 2)
    assert state["message"].startswith("stopped after 2 failed cells in a row as asked (a prompt does not fit")
    assert state["message"] in capsys.readouterr().err
    assert main(["resume", folder.name, "--data", str(tmp_path / "data")]) == 0
    assert list(read_sweep(folder).cells["status"]) == ["failed", "failed", "ok"]


def test_a_large_grid_is_asked_about_as_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """10,000 cells of an hour: hours of load, which nobody waits for; 90,000 are refused before any is looked at."""
    run = {"duration_s": 3500, "warmup_s": 100}
    for side, more, says in ((100, [], "10,000 cells and calculates 10,000 hours of load"), (300, ["--yes"], "50,000")):
        grid = {k: list(range(1, side + 1)) for k in ("max_num_seqs", "max_num_batched_tokens")}
        sweep = write_toml(tmp_path / "v.toml", quick_raw(grid={**grid, "request_rate": [1.0]}, run=run))
        assert main(["simulate", str(sweep), "--data", str(tmp_path / "data"), *more]) == 2
        assert says in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_ctrl_c_ends_a_sweep_of_cells_too_short_to_ask(tmp_path: Path) -> None:
    """Exit code 130, what is finished is kept, and the rest is still to do."""
    raw = quick_raw(grid={"max_num_seqs": list(range(1, 801)), "request_rate": [5.0]}, run={"duration_s": 1})
    sweep = write_toml(tmp_path / "v.toml", raw)
    command = [sys.executable, "-m", "app.cli", "simulate", str(sweep), "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        while " 0/800 " in (line := process.stderr.readline()) or "/800" not in line:
            assert line
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(60) == 130
    (summary,) = list_sweeps(tmp_path / "data")
    assert summary.status == "stopped"
    assert 0 < summary.cells_done < 800


def test_a_cell_that_is_given_up_leaves_nothing() -> None:
    """Ctrl-C in the middle: the cell is run anew by resume."""
    long = {"duration_s": 60, "warmup_s": 1}
    sweep = VirtualSweep(quick_config(run=long), None, {})
    assert sweep.run(plan_cells(sweep.config)[0], lambda: False) is None


def test_a_server_that_is_not_ours_needs_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence and exit 2; with a cost model it runs, with the nearest scheduler, and says how to set it."""
    raw = quick_raw(backend=LLAMA, grid={"request_rate": [20.0]})
    sweep = write_toml(tmp_path / "llama.toml", raw)
    assert main(["simulate", str(sweep), "--data", str(tmp_path / "d")]) == 2
    (told,) = capsys.readouterr().err.strip().splitlines()
    assert "llama.toml" in told
    assert "--profile" in told
    assert not (tmp_path / "d").exists()
    profile = EngineProfile(CostModel(2.0, 0.01, knots=((1, 2.0), (8, 2.5))), 32_768, False, "profile x.toml")
    control = {"mode": "process", "command": ["llama-server", "-np", "{max_num_seqs}"]}
    raw = quick_raw(backend=LLAMA, control=control, grid={"max_num_seqs": [2, 4], "request_rate": [20.0]})
    folder, result = ran(tmp_path, raw, profile)
    assert result["backend"]["scheduler"] == "llama_cpp"
    assert result["environment"]["cost_models"] == ["profile x.toml"]
    facts = json.loads(read_sweep(folder).cells["server"][0])
    assert (facts["scheduler"], facts["kv_tokens"]) == ("llama_cpp", 32_768)
    assert "-np 4" in result["cells"][1]["start_line"]


@pytest.mark.parametrize(
    ("changes", "profile", "says"),
    [
        ({"grid": {"context_tokens": [4096], "request_rate": [1.0]}}, False, "--context-tokens"),
        ({"grid": {"preset": ["rtx3090/llama-3.1-8b/q4_k_m"], "request_rate": [1.0]}}, True, "--profile"),
        ({"grid": {"model": ["a", "b"], "request_rate": [1.0]}}, False, "grid.model"),
        ({"backend": {"kind": "simulated", "cost": {"a": 0, "b": 0.1}}}, False, "takes no time"),
        # an iteration below a nanosecond: a closed loop would never come to the next moment
        ({"backend": {"kind": "simulated", "cost": {"a": 1e-9, "b": 0}}}, False, "takes no time"),
        ({"backend": {"kind": "simulated", "cost": {"a": 1, "b": 0, "a_prefill": 0}}}, False, "takes no time"),
        ({"backend": {"kind": "simulated", "preset": "abacus/llama/q4"}}, False, "abacus"),
    ],
)
def test_what_virtual_time_cannot_take_is_said_in_one_sentence(
    changes: dict[str, Any], profile: bool, says: str
) -> None:
    """Before anything runs: settings it does not know, two speeds, or none."""
    given = EngineProfile(CostModel(1.0, 0.1), 4096, False, "x") if profile else None
    with pytest.raises(ConfigError, match=says):
        check_virtual(for_virtual_time(quick_config(**changes)), given)


def test_what_a_sweep_ran_with_is_told_for_settings_that_only_work_together() -> None:
    """A small pool is enough for the slots of the grid, though not for as many as the engine has by default."""
    backend = {"kind": "simulated", "scheduler": "llama_cpp", "cost": QUICK_COST, "kv_tokens": 2048}
    sweep = VirtualSweep(quick_config(backend=backend), None, {})
    assert sweep.environment()["cost_models"] == ["cost given by hand"]


def test_only_what_a_real_machine_needs_is_left_out() -> None:
    """No drift check, no cooling down, no hour to end by; the rest of the config is as written."""
    config = quick_config(run={"duration_s": 1, "drift_check": True, "cool_down_s": 5, "stop_by": "07:00"})
    plain = for_virtual_time(config)
    assert (plain.run.drift_check, plain.run.cool_down_s, plain.run.stop_by) == (False, 0, None)
    assert plain.backend == config.backend
    assert plain.classes == config.classes


def test_a_prompt_that_fits_no_context_fails_the_cell() -> None:
    """As when measured: the cell says so, its other requests count as cancelled."""
    backend = {"kind": "simulated", "cost": QUICK_COST, "kv_tokens": 64}
    chat = {"name": "chat", "weight": 1, "prompt_tokens": 60, "output_tokens": 8}
    sweep = VirtualSweep(quick_config(backend=backend, classes=[chat]), None, {})
    rows = sweep.run(plan_cells(sweep.config)[0], lambda: True)
    assert rows is not None
    assert (rows.record.status, rows.record.error_kind) == ("failed", "context_overflow")
    assert [r.error_kind for r in rows.requests][:2] == ["context_overflow", "cancelled"]


def test_samples_add_up_to_what_the_requests_got() -> None:
    """The last sample after everything has ended knows every token; the pool is empty again."""
    raw = quick_raw(run={"duration_s": 5, "warmup_s": 1, "drain_s": 5, "scrape_interval_s": 0.1})
    sweep = VirtualSweep(parse_sweep({**raw, "grid": {"request_rate": [10.0]}}, "test"), None, {})
    rows = sweep.run(plan_cells(sweep.config)[0], lambda: True)
    assert rows is not None
    last = rows.engine[-1]
    before = [r for r in rows.requests if r.end_ns is not None and r.end_ns <= last.at_ns]
    running = [r for r in rows.requests if r not in before and (r.sent_ns or 0) <= last.at_ns]
    assert last.running == len(running)
    ended = sum(r.token_events for r in before)
    assert ended <= (last.generation_tokens_total or 0) <= ended + 8 * len(running)
    assert [s.at_ns for s in rows.engine[:3]] == [0, 100_000_000, 200_000_000]


def test_a_recorded_trace_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrivals and lengths of the file beside the sweep, at their own speed."""
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0.5,30,3\n0.75,40,5\n", encoding="utf-8")
    raw = quick_raw(
        grid={"load_scale": [1.0]}, classes=[{"name": "old", "trace": "t.csv", "prompt_tokens": 8, "output_tokens": 8}]
    )
    sweep = write_toml(tmp_path / "v.toml", raw)
    assert main(["simulate", str(sweep), "--data", str(tmp_path / "d"), "--json"]) == 0
    sweep_id = json.loads(capsys.readouterr().out)["sweep_id"]
    rows = read_sweep(tmp_path / "d" / "sweeps" / sweep_id).requests
    assert rows["scheduled_ns"].tolist() == [500_000_000, 750_000_000]
    assert rows["output_tokens"].tolist() == [3, 5]


def test_a_profile_survives_its_way_through_json() -> None:
    """Knots and all: a resumed sweep has the speed it began with."""
    profile = EngineProfile(CostModel(1.5, 0.1, knots=((1, 2.0), (8, 2.5))), 4096, True, "profile y.toml", 57_344)
    assert profile_from_json(json.loads(json.dumps(asdict(profile)))) == profile
