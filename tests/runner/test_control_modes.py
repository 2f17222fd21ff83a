"""Whole sweeps whose settings are applied by hooks or by hand: a user's scripts, a played user, kills and Ctrl-C."""

import contextlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from app.cli import main
from runner.analysis.result import build_result
from runner.config import SweepConfig, parse_sweep
from runner.engines.address import free_port, port_is_taken
from runner.engines.orphan import PID_FILE
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from storage.side_files import ask, read_lines, read_state, status_of
from tests.engines_support.hooks import SCRIPTED, daemon_hooks, processes_with
from tests.engines_support.llama import llama_command, llama_installed
from tests.support.patience import until
from tests.support.small_sweeps import write_toml

GOODPUT = [sys.executable, "-m", "app.cli"]
RUNNER = [sys.executable, "-m", "runner", "--exit-when-idle", "--data"]
ALL = ("start 1", "stop 1", "start 4", "stop 4")
LLAMA = shlex.join(llama_command("--metrics", "-c", "2048")) + " -np $GOODPUT_MAX_NUM_SEQS --port $GOODPUT_PORT"
needs_llama = pytest.mark.skipif(
    not llama_installed() and not os.environ.get("CI"), reason="xllamacpp is not installed (make test installs it)"
)


def raw_sweep(port: int, seqs: list[int], control: dict[str, Any], kind: str = "openai", **run: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "name": "modes",
        "backend": {"kind": kind, "url": f"http://127.0.0.1:{port}"},
        "control": control,
        "grid": {"max_num_seqs": seqs, "request_rate": [10.0]},
        "run": {"duration_s": 0.8, "warmup_s": 0.1, "drain_s": 2.0, "drift_check": False, **run},
        "classes": [{"name": "chat", "weight": 1, "prompt_tokens": 8, "output_tokens": 3}],
    }


def config_of(*args: Any, **more: Any) -> SweepConfig:  # noqa: ANN401
    return parse_sweep(raw_sweep(*args, **more), "test")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return open_data_folder(tmp_path / "data")


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[Path]:
    """A folder for hooks; whatever still runs of it at the end is ended, so that a failure leaves nothing."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    yield folder
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def waits_for(folder: Path) -> dict[str, Any] | None:
    """What the sweep asks the person for at this moment."""
    found = (read_state(folder) or {}).get("waiting_for")
    return found if isinstance(found, dict) else None


@contextlib.contextmanager
def acting(person: Callable[[], None], folder: Path) -> Iterator[None]:
    """Plays the person beside the block; a slip of the person's ends the sweep, not the patience of all tests."""
    slips: list[BaseException] = []

    def play() -> None:
        try:
            person()
        except BaseException as e:
            slips.append(e)
            ask(folder, "stop")

    thread = Thread(target=play, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
        assert slips == []


def continue_sweep(data: Path, sweep_id: str) -> int:
    return main(["continue", sweep_id, "--data", str(data)])


def cells_of(folder: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = build_result(read_sweep(folder))["cells"]
    return cells


def notes_of(folder: Path) -> list[list[str]]:
    """The notes about the server, cell by cell."""
    return [json.loads(text)["notes"] for text in read_sweep(folder).cells.sort_values("cell")["server"]]


@pytest.mark.llama
@needs_llama
def test_a_real_engine_is_set_by_the_users_own_scripts(data: Path, hooks: Path) -> None:
    """llama.cpp started by start.sh and stopped by stop.sh: each setting has its slots, and no process stays."""
    port = free_port()
    config = config_of(port, [1, 4], daemon_hooks(hooks, LLAMA), "llama_cpp")
    folder = sweep_folder(data, sweep_id := enqueue(data, config, "test"))
    assert run_one(data, sweep_id, lambda _: None) == "done"
    assert (hooks / "told").read_text().splitlines() == [*ALL]
    cells = cells_of(folder)
    assert [c["status"] for c in cells] == ["ok", "ok"], [c["error_detail"] for c in cells]
    assert all("instead of" not in note for notes in notes_of(folder) for note in notes)  # /props agrees
    assert "GOODPUT_MAX_NUM_SEQS=4" in cells[1]["start_line"]
    assert not port_is_taken("127.0.0.1", port)
    assert processes_with(str(port)) == []
    assert not (folder / PID_FILE).exists()


@pytest.mark.llama
@needs_llama
def test_a_real_engine_is_set_by_hand(data: Path, hooks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person restarts llama.cpp as asked and says so with `goodput continue`; a wrong restart is noticed."""
    port = free_port()
    control = daemon_hooks(hooks, LLAMA)  # here it is the person who runs them
    sweep_id = enqueue(data, config_of(port, [1, 4], {"mode": "manual"}, "llama_cpp"), "test")
    folder = sweep_folder(data, sweep_id)
    asked: list[str] = []

    def restart(seqs: int) -> None:
        env = {**os.environ, "GOODPUT_PORT": str(port), "GOODPUT_MAX_NUM_SEQS": str(seqs), "GOODPUT_HOOK": "by hand"}
        subprocess.run(control["stop_command"], env=env, check=True, timeout=60)
        until(lambda: not port_is_taken("127.0.0.1", port))
        subprocess.run(control["command"], env=env, check=True, timeout=60)
        until(lambda: port_is_taken("127.0.0.1", port))

    def person() -> None:
        for seqs in (1, 2, 4):  # two slots are a slip, noticed by the page /props
            until(lambda: (waits_for(folder) or {}).get("text") not in (None, *asked))
            asked.append(str((waits_for(folder) or {})["text"]))
            assert status_of(folder) == "paused"
            restart(seqs)
            assert continue_sweep(data, sweep_id) == 0

    with acting(person, folder):
        assert run_one(data, sweep_id, lambda _: None) == "done"
    assert "Set max_num_seqs to 1 on the server at" in asked[0]
    assert asked[2].startswith("Not yet: the server says that it runs with max_num_seqs 2 instead of 4. ")
    assert [c["status"] for c in cells_of(folder)] == ["ok", "ok"]
    assert all("went on" not in note for notes in notes_of(folder) for note in notes)
    assert waits_for(folder) is None
    assert port_is_taken("127.0.0.1", port)  # it is the person's server
    capsys.readouterr()
    assert continue_sweep(data, sweep_id) == 2
    late = capsys.readouterr()
    assert late.out == ""
    assert "is not waiting for a change by hand" in late.err
    subprocess.run(control["stop_command"], check=True, timeout=60)


def test_a_person_may_skip_and_stop_while_asked(data: Path) -> None:
    """Skip leaves that cell out and asks for the next; stop ends the sweep at once."""
    sweep_id = enqueue(data, config_of(free_port(), [1, 4], {"mode": "manual"}), "test")
    folder = sweep_folder(data, sweep_id)

    def person() -> None:
        until(lambda: "max_num_seqs to 1" in (waits_for(folder) or {}).get("text", ""))
        ask(folder, "skip")
        until(lambda: "max_num_seqs to 4" in (waits_for(folder) or {}).get("text", ""))
        ask(folder, "stop")

    with acting(person, folder):
        assert run_one(data, sweep_id, lambda _: None) == "stopped"
    (cell,) = read_lines(folder, "cells.jsonl")
    assert (cell["status"], cell["error_detail"]) == ("skipped", "skipped by the user")
    assert waits_for(folder) is None


def test_enter_in_the_terminal_goes_on(tmp_path: Path, hooks: Path) -> None:
    """`goodput run` in a terminal says what to change, and Enter is an answer."""
    port = free_port()
    sweep = write_toml(tmp_path / "sweep.toml", raw_sweep(port, [4], {"mode": "manual"}))
    serving = subprocess.Popen(["sh", "-c", f"exec {SCRIPTED}"], env={**os.environ, "GOODPUT_PORT": str(port)})
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(GOODPUT[0], [*GOODPUT, "run", str(sweep), "--data", str(tmp_path / "data")])
    said = b""
    try:
        with contextlib.suppress(OSError):  # the other side of a terminal ends with EIO
            while part := os.read(terminal, 4096):
                said += part
                if b"press Enter here" in said and b"\n" not in said.partition(b"press Enter here")[2]:
                    continue
                if b"press Enter here" in said:
                    os.write(terminal, b"\n")
        _, status = os.waitpid(pid, 0)
    finally:
        serving.kill()
        serving.wait()
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, said.decode()
    assert b"Set max_num_seqs to 4 on the server at http://127.0.0.1" in said
    assert b"goodput continue " in said


def interrupted(data: Path, config: SweepConfig, how: signal.Signals, when: Callable[[Path], object]) -> Path:
    """A worker that gets the signal when the condition holds; the sweep's folder."""
    folder = sweep_folder(data, enqueue(data, config, "test"))
    worker = subprocess.Popen([*RUNNER, str(data)])
    try:
        until(lambda: when(folder))
    finally:
        worker.send_signal(how)
        worker.wait(60)
    return folder


def measuring(folder: Path) -> bool:
    return any(line["sent"] for line in read_lines(folder, "live.jsonl", last=5))


def test_a_killed_runner_leaves_its_server_to_the_next_one(data: Path, hooks: Path) -> None:
    """kill -9 in a cell: the server of the hooks lives on; resume runs the stop hook first and ends all of it."""
    port = free_port()
    config = config_of(port, [1], daemon_hooks(hooks), duration_s=3.0)
    folder = interrupted(data, config, signal.SIGKILL, measuring)
    assert port_is_taken("127.0.0.1", port)
    assert (hooks / "told").read_text().splitlines() == ["start 1"]
    assert run_one(data, folder.name, lambda _: None) == "done"
    assert (hooks / "told").read_text().splitlines() == ["start 1", "stop 1"] * 2
    assert [c["status"] for c in cells_of(folder)] == ["ok"]
    assert processes_with(str(port)) == []


def test_ctrl_c_leaves_nothing(data: Path, hooks: Path) -> None:
    """The stop hook is run, the port is free, and nothing is noted for a later runner."""
    port = free_port()
    folder = interrupted(data, config_of(port, [1], daemon_hooks(hooks), duration_s=30.0), signal.SIGINT, measuring)
    assert status_of(folder) == "stopped"
    assert (hooks / "told").read_text().splitlines() == ["start 1", "stop 1"]
    assert not port_is_taken("127.0.0.1", port)
    assert processes_with(str(port)) == []
    assert not (folder / PID_FILE).exists()


def test_a_terminal_that_goes_away_leaves_nothing(tmp_path: Path, data: Path) -> None:
    """A lost ssh connection hangs up on `goodput run`: it ends as after Ctrl-C, without an error of writing."""
    port = free_port()
    process = {"mode": "process", "command": ["sh", "-c", SCRIPTED], "env": {"GOODPUT_PORT": str(port), "S": "{s}"}}
    raw = raw_sweep(port, [1], process, duration_s=30.0)
    sweep = write_toml(tmp_path / "sweep.toml", {**raw, "grid": {"s": [1], "request_rate": [10.0]}})
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may have been started with nohup
        os.execv(GOODPUT[0], [*GOODPUT, "run", str(sweep), "--data", str(data)])
    reader = Thread(target=drain, args=(terminal,), daemon=True)
    reader.start()
    until(lambda: any(measuring(folder) for folder in (data / "sweeps").glob("*")))
    (folder,) = (data / "sweeps").glob("*")
    os.kill(pid, signal.SIGHUP)  # what the kernel sends; here before the other side is closed, so that it is the reason
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert (status_of(folder), (read_state(folder) or {})["stopped_by"]) == ("stopped", "user")
    assert not port_is_taken("127.0.0.1", port)
    assert processes_with(str(port)) == []
    assert not (folder / PID_FILE).exists()


def drain(terminal: int) -> None:
    """Reads what is shown, so that the writer never waits, until either side is gone."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


def test_another_sweep_ends_the_engine_of_a_killed_runner(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The port that an orphan holds is free again for a new sweep of the same data folder."""
    port = free_port()
    serve = SCRIPTED.replace("$GOODPUT_PORT", "{port}")
    process = {"mode": "process", "command": ["sh", "-c", serve], "env": {"SEQS": "{max_num_seqs}"}}
    first = interrupted(data, config_of(port, [1], process, duration_s=30.0), signal.SIGKILL, measuring)
    assert port_is_taken("127.0.0.1", port)
    sweep = write_toml(tmp_path / "sweep.toml", raw_sweep(port, [4], process))
    capsys.readouterr()
    assert main(["run", str(sweep), "--data", str(data), "--json"]) == 0
    assert [c["status"] for c in json.loads(capsys.readouterr().out)["cells"]] == ["ok"]
    assert not (first / PID_FILE).exists()
    assert processes_with(str(port)) == []


def test_nohup_is_heeded() -> None:
    """A run that nohup shields from hang-ups goes on after one: the signal stays ignored."""
    code = "import asyncio, signal, runner.work as w\nasync def main(): w._stop_on_signals(asyncio.Event())\n"
    ask_python = f"{code}asyncio.run(main()); print(signal.getsignal(signal.SIGHUP).name)"
    done = subprocess.run(
        ["nohup", sys.executable, "-c", ask_python], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "SIG_IGN"
