"""A server that the user's hooks start and stop. Real processes, real sockets, shell scripts as hooks."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from runner.config import SweepConfig
from runner.engines.address import free_port, port_is_taken
from runner.engines.orphan import PID_FILE, end_orphan, end_orphans
from runner.engines.server import Server
from runner.errors import SettingFailed
from tests.engines_support.hooks import SCRIPTED, daemon_hooks, hooked_sweep, processes_with, script
from tests.support.patience import until
from tests.support.posting_server import server as fixed_pages

ROOT = Path(__file__).parents[3]


@contextlib.asynccontextmanager
async def hooked(config: SweepConfig, folder: Path, port_wait_s: float = 10.0) -> AsyncIterator[Server]:
    """A server that is stopped however the test ends."""
    server = Server(config, folder, port_wait_s)
    try:
        yield server
    finally:
        await server.stop()


def port_of(config: SweepConfig) -> int:
    return int(str(config.backend.url).rpartition(":")[2])


async def pids(url: str) -> list[int]:
    async with httpx.AsyncClient(trust_env=False) as http:
        return list((await http.get(f"{url}/pids")).json())


def failure_of(config: SweepConfig, folder: Path, port_wait_s: float = 10.0) -> SettingFailed:
    """What the first setting fails with."""

    async def run() -> SettingFailed:
        async with hooked(config, folder, port_wait_s) as server:
            with pytest.raises(SettingFailed) as failed:
                await server.apply({"max_num_seqs": 4})
            return failed.value

    return asyncio.run(run())


def test_each_setting_runs_its_hooks_and_nothing_is_left(tmp_path: Path) -> None:
    """Start and stop alternate, each told its setting; a new process serves each; afterwards nobody listens."""

    async def run() -> None:
        async with hooked(config, tmp_path) as server:
            first = await server.apply({"max_num_seqs": 1})
            served = await pids(first.base_url)
            again = await server.apply({"max_num_seqs": 1})
            second = await server.apply({"max_num_seqs": 8})
            assert (first.started_new, again.started_new, second.started_new) == (True, False, True)
            assert await pids(second.base_url) != served
            assert first.notes == second.notes == ()
            assert second.start_line == f"GOODPUT_MAX_NUM_SEQS=8 {tmp_path}/start.sh"
            assert await server.alive() is None

    config = hooked_sweep(free_port(), [1, 8], **daemon_hooks(tmp_path))
    asyncio.run(run())
    assert (tmp_path / "told").read_text().splitlines() == ["start 1", "stop 1", "start 8", "stop 8"]
    assert not port_is_taken("127.0.0.1", port_of(config))
    assert not (tmp_path / PID_FILE).exists()
    assert processes_with(str(tmp_path)) == []


def test_a_hook_is_told_everything_and_its_output_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables for every key and for the address, placeholders filled, control.env with its variables; no secret in
    the log."""
    monkeypatch.setenv("MY_HUB", "hub-secret-7")
    told = "echo $GOODPUT_MAX_NUM_SEQS $GOODPUT_PORT $GOODPUT_URL $GOODPUT_SWEEP_ID $GOODPUT_HOOK $HF_TOKEN $MODE $1"
    control = {"command": [*script(tmp_path, "start.sh", f"{told}; exit 3"), "n={max_num_seqs}"]}
    config = hooked_sweep(free_port(), [4], **control, env={"HF_TOKEN": "${MY_HUB}", "MODE": "m{max_num_seqs}"})
    failed = failure_of(config, tmp_path)
    port = port_of(config)
    said = f"4 {port} http://127.0.0.1:{port} {tmp_path.name} start *** m4 n=4"
    assert failed.log_tail == said
    log = (tmp_path / "engine.log").read_text()
    assert said in log
    assert "hub-secret-7" not in log


def test_a_hook_that_fails_is_a_failed_setting_with_its_last_words(tmp_path: Path) -> None:
    """Exit code and log at once, long before the ready limit of half an hour; the stop hook is run all the same."""
    stop = script(tmp_path, "stop.sh", "echo stopped >> told")
    start = script(tmp_path, "start.sh", "echo 'no such container'; exit 17")
    failed = failure_of(hooked_sweep(free_port(), [4], command=start, stop_command=stop), tmp_path)
    assert (failed.error_kind, failed.exit_code, failed.log_tail) == ("hook_failed", 17, "no such container")
    assert "control.command failed (exit code 17)" in str(failed)
    assert (tmp_path / "told").read_text() == "stopped\n"


def test_a_hook_that_says_out_of_memory_is_told_as_that(tmp_path: Path) -> None:
    """The reason that a person can mend goes before the name of the hook; so does the kernel's silent kill."""
    for text, code in (("echo 'CUDA out of memory'; exit 1", 1), ("kill -9 $$", -9)):
        start = script(tmp_path, "start.sh", text)
        failed = failure_of(hooked_sweep(free_port(), [4], command=start), tmp_path)
        assert (failed.error_kind, failed.exit_code) == ("out_of_memory", code)


@pytest.mark.parametrize("name", ["command", "ready_command", "stop_command"])
def test_a_hook_that_hangs_is_ended_with_all_its_group(tmp_path: Path, name: str) -> None:
    """Each hook at its own limit; a child that ignores TERM is killed as well; the sentence names hook and limit."""
    nap = f"6{free_port()}"  # seconds; tells these processes from everybody else's
    hang = f"echo waiting; (trap '' TERM; exec sleep {nap}) & sleep {nap}"
    control: dict[str, Any] = {**daemon_hooks(tmp_path), name: script(tmp_path, "hang.sh", hang)}
    limit = {"command": "start_timeout_s", "ready_command": "ready_timeout_s", "stop_command": "stop_timeout_s"}[name]
    config = hooked_sweep(free_port(), [4, 8], **control, **{limit: 1.5})
    port = port_of(config)

    async def run() -> SettingFailed:
        server = Server(config, tmp_path, port_wait_s=0.3)
        try:
            for seqs in (4, 8):
                await server.apply({"max_num_seqs": seqs})
        except SettingFailed as failed:
            return failed
        else:
            raise AssertionError("no hook failed")
        finally:
            await server.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runner.engines.hook.GRACE_S", 0.2)
        failed = asyncio.run(run())
    for p in processes_with(str(port)):
        p.kill()  # where the stop hook hangs, nobody else ends what start.sh left in a session of its own
    assert failed.error_kind == "hook_timeout"
    assert f"control.{name} was still running after 1.5 s" in str(failed)
    assert f"raise control.{limit}" in str(failed)
    assert "waiting" in str(failed.log_tail)
    assert processes_with(str(tmp_path / "hang.sh")) == []
    assert processes_with(nap) == []


def test_a_hook_that_is_the_server_itself_is_ended_at_the_stop(tmp_path: Path) -> None:
    """A start hook that does not return while the server answers is the server: its end is noticed, its group ended."""

    async def run() -> None:
        async with hooked(config, tmp_path) as server:
            running = await server.apply({"max_num_seqs": 4})
            assert running.notes == ()
            assert json.loads((tmp_path / PID_FILE).read_text())["hooks"][0]["pid"] == running.pid
            psutil.Process((await pids(running.base_url))[0]).terminate()
            while (dead := await server.alive()) is None:
                await asyncio.sleep(0.02)
            assert dead.error_kind == "exited"
            second = await server.apply({"max_num_seqs": 4})
            assert second.started_new

    config = hooked_sweep(free_port(), [4], command=script(tmp_path, "start.sh", f"exec {SCRIPTED}"))
    asyncio.run(run())
    assert not port_is_taken("127.0.0.1", port_of(config))
    assert processes_with(f"{port_of(config)}") == []


def test_children_that_a_returning_hook_leaves_in_its_group_are_ended(tmp_path: Path) -> None:
    """`server &` without a session of its own belongs to us: no stop hook is needed."""

    async def run() -> None:
        async with hooked(config, tmp_path) as server:
            assert (await server.apply({"max_num_seqs": 4})).notes == ()

    config = hooked_sweep(free_port(), [4], command=script(tmp_path, "start.sh", f"{SCRIPTED} &\nsleep 0.1"))
    asyncio.run(run())
    assert not port_is_taken("127.0.0.1", port_of(config))


def test_the_ready_hook_is_asked_until_it_says_yes(tmp_path: Path) -> None:
    """Two times no, then yes: the setting is ready after the third time."""
    ready = script(tmp_path, "ready.sh", 'echo x >> asked; [ "$(wc -l < asked)" -ge 3 ]')

    async def run() -> None:
        async with hooked(config, tmp_path) as server:
            await server.apply({"max_num_seqs": 4})

    config = hooked_sweep(free_port(), [4], **daemon_hooks(tmp_path), ready_command=ready)
    asyncio.run(run())
    assert (tmp_path / "asked").read_text() == "x\n" * 3


def test_an_old_server_that_answers_on_is_not_measured(tmp_path: Path) -> None:
    """The hook says that it worked, but the process that answered before still does: the setting is not in force."""

    async def run() -> SettingFailed:
        old = await asyncio.create_subprocess_exec("sh", "-c", f"exec {SCRIPTED}", env={**os.environ, **port})
        try:
            while not port_is_taken("127.0.0.1", port_of(config)):
                await asyncio.sleep(0.02)
            async with hooked(config, tmp_path, port_wait_s=0.3) as server:
                with pytest.raises(SettingFailed) as failed:
                    await server.apply({"max_num_seqs": 4})
                assert f"process {old.pid}" in str(failed.value)
                return failed.value
        finally:
            old.kill()
            await old.wait()

    config = hooked_sweep(free_port(), [4], command=script(tmp_path, "start.sh", "true"))
    port = {"GOODPUT_PORT": str(port_of(config))}
    failed = asyncio.run(run())
    assert failed.error_kind == "not_restarted"
    assert "let the command restart it, or give a stop_command" in str(failed)


def test_the_server_that_was_there_before_the_sweep_is_stopped_by_the_hook(tmp_path: Path) -> None:
    """With a stop hook the first setting begins with it when somebody answers already."""
    control = daemon_hooks(tmp_path)
    config = hooked_sweep(free_port(), [4], **control)
    env = {**os.environ, "GOODPUT_PORT": str(port_of(config))}
    subprocess.run(control["command"], env=env, check=True, timeout=60)
    until(lambda: port_is_taken("127.0.0.1", port_of(config)))

    async def run() -> None:
        async with hooked(config, tmp_path) as server:
            assert (await server.apply({"max_num_seqs": 4})).notes == ()

    asyncio.run(run())
    assert (tmp_path / "told").read_text().splitlines()[1:] == ["stop 4", "start 4", "stop 4"]
    assert not port_is_taken("127.0.0.1", port_of(config))


def test_what_cannot_be_proved_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answered before, of which neither the system nor the server tells since when: measured, noted."""
    monkeypatch.setattr("runner.engines.proof.listener_of", lambda port: None)

    async def run() -> None:
        with fixed_pages({"/health": {}}, lambda path, body: (404, "")) as (url, _):
            config = hooked_sweep(int(url.rpartition(":")[2]), [4], command=script(tmp_path, "start.sh", "true"))
            async with hooked(config, tmp_path) as server:
                notes = (await server.apply({"max_num_seqs": 4})).notes
                assert "not proved that control.command started the server anew" in notes[0]
                assert "no stop_command" in notes[1]

    asyncio.run(run())


def test_a_cancelled_start_ends_the_hook_and_runs_the_stop_hook(tmp_path: Path) -> None:
    """Stop while the hook pulls an image: nothing of it stays."""

    async def run() -> None:
        server = Server(config, tmp_path)
        starting = asyncio.create_task(server.apply({"max_num_seqs": 4}))
        while "start" not in (told.read_text() if told.exists() else ""):
            await asyncio.sleep(0.02)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    told = tmp_path / "told"
    slow = script(tmp_path, "slow.sh", "echo start >> told; sleep 612")
    stop = script(tmp_path, "stop.sh", "echo stop >> told")
    config = hooked_sweep(free_port(), [4], command=slow, stop_command=stop)
    asyncio.run(run())
    assert told.read_text().split() == ["start", "stop"]
    assert processes_with(str(tmp_path / "slow.sh")) == []
    assert not (tmp_path / PID_FILE).exists()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from runner.engines.server import Server
from runner.queue import read_config

async def main():
    folder = Path(sys.argv[1])
    await Server(read_config(folder), folder).apply({"max_num_seqs": 4})
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def killed_runner(folder: Path, config: SweepConfig) -> None:
    """A runner that dies by kill -9 with its server up."""
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps({"config": config.model_dump(mode="json")}))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=env, check=False, timeout=60)
    assert done.returncode == -9


def test_the_servers_of_killed_runners_are_stopped_whichever_sweep_they_served(tmp_path: Path) -> None:
    """One left running by its hooks, one that is a foreground hook: the stop hook is run, the group ended, once."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    daemon = hooked_sweep(free_port(), [4], **daemon_hooks(hooks))
    front = hooked_sweep(free_port(), [4], command=script(hooks, "front.sh", f"exec {SCRIPTED} >/dev/null 2>&1"))
    killed_runner(tmp_path / "sweeps" / "one", daemon)
    killed_runner(tmp_path / "sweeps" / "two", front)
    assert port_is_taken("127.0.0.1", port_of(daemon))
    assert port_is_taken("127.0.0.1", port_of(front))
    assert end_orphans(tmp_path) == 2
    until(lambda: not port_is_taken("127.0.0.1", port_of(daemon)))
    assert not port_is_taken("127.0.0.1", port_of(front))
    assert (hooks / "told").read_text().splitlines() == ["start 4", "stop 4"]
    assert end_orphans(tmp_path) == 0


def test_a_sweep_folder_from_elsewhere_does_not_run_its_commands(tmp_path: Path) -> None:
    """A copied folder may carry an engine.pid: without this machine's marks nothing of it is run."""
    stop = script(tmp_path, "stop.sh", "echo stop >> told")
    config = hooked_sweep(free_port(), [4], command=["true"], stop_command=stop)
    (tmp_path / "sweep.json").write_text(json.dumps({"config": config.model_dump(mode="json")}))
    facts = {"setting": {}, "hooks": [], "ready": True, "port": 1, "pid_space": "elsewhere 1"}
    for boot_time in (psutil.boot_time(), 1.0):
        (tmp_path / PID_FILE).write_text(json.dumps({**facts, "boot_time": boot_time}))
        assert not end_orphan(tmp_path)
    assert not (tmp_path / "told").exists()
