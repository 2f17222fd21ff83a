"""The engine of a sweep is started, proved, restarted and ended as a whole. Real processes, real sockets."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from runner.config import SweepConfig
from runner.engines import server as server_module
from runner.engines.address import free_port, port_is_taken
from runner.engines.server import Server
from runner.errors import SettingFailed
from tests.engines_support.sweeps import scripted_command, scripted_sweep, sweep


@contextlib.asynccontextmanager
async def engine(config: SweepConfig, folder: Path, port_wait_s: float = 10.0) -> AsyncIterator[Server]:
    """A server that is ended however the test ends."""
    server = Server(config, folder, port_wait_s)
    try:
        yield server
    finally:
        await server.stop()


async def ask(url: str) -> Any:  # noqa: ANN401
    async with httpx.AsyncClient(trust_env=False) as http:
        return (await http.get(url)).json()


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_d01_ready_means_that_health_says_so(tmp_path: Path) -> None:
    """The model list answers all along, /health four times 503: the start ends with its first 200, not before."""

    async def run() -> None:
        config = scripted_sweep(free_port(), "--unready-asks", "4")
        async with engine(config, tmp_path) as server:
            running = await server.apply({})
            assert await ask(f"{running.base_url}/asked") == 5
            assert running.started_new

    asyncio.run(run())


def test_a_server_that_never_gets_ready_is_given_up_at_the_limit(tmp_path: Path) -> None:
    """The limit is the setting's; the sentence says what /health said last; the process is gone afterwards."""

    async def run() -> None:
        port = free_port()
        config = scripted_sweep(port, "--unready-asks", "100000", ready_timeout_s=1.0)
        async with engine(config, tmp_path) as server:
            with pytest.raises(SettingFailed, match=r"not ready after 1 s \(/health says 503\)") as failed:
                await server.apply({})
            assert failed.value.error_kind == "not_ready"
            assert not port_is_taken("127.0.0.1", port)

    asyncio.run(run())


def test_a_server_that_listens_nowhere_is_looked_for_before_more_time_is_asked_for(tmp_path: Path) -> None:
    """It lives, but nobody answered at its address up to the limit: more time is not the likely remedy."""

    async def run() -> None:
        config = scripted_sweep(free_port(), "--no-port", ready_timeout_s=0.5)
        async with engine(config, tmp_path) as server:
            with pytest.raises(SettingFailed, match=r"see whether .* listens at http://127\.0\.0\.1:\d+; if") as failed:
                await server.apply({})
            assert failed.value.error_kind == "not_ready"

    asyncio.run(run())


def test_a_dead_process_ends_the_wait_at_once_with_its_reason(tmp_path: Path) -> None:
    """Exit code and last log lines are told, long before the ready limit of half an hour."""

    async def run() -> None:
        config = scripted_sweep(free_port(), "--say", "error: unknown quantization q9", "--exit", "3")
        async with engine(config, tmp_path) as server:
            with pytest.raises(SettingFailed, match=r"ended while starting \(exit code 3\)") as failed:
                await server.apply({})
            assert failed.value.error_kind == "exited"
            assert failed.value.exit_code == 3
            assert failed.value.log_tail == "error: unknown quantization q9"

    asyncio.run(run())


def test_d05_out_of_memory_is_one_failed_setting_and_the_next_one_runs(tmp_path: Path) -> None:
    """The setting that does not fit is told as out_of_memory with its log; a setting that fits starts after it."""

    async def run() -> None:
        fits, too_big = ["--say", "ok"], ["--say", "torch.OutOfMemoryError: CUDA out of memory", "--exit", "1"]
        config = scripted_sweep(free_port(), grid={"ctx": [8192, 65536]})
        port = int(str(config.backend.url).rpartition(":")[2])
        async with engine(config, tmp_path) as server:
            for flags, kind in ((fits, None), (too_big, "out_of_memory"), (fits, None)):
                server._config = scripted_sweep(port, *flags, grid={"ctx": [8192, 65536]})
                setting = {"ctx": 65536 if kind else 8192}
                if kind is None:
                    assert (await server.apply(setting)).started_new
                    continue
                with pytest.raises(SettingFailed, match="ran out of memory while starting") as failed:
                    await server.apply(setting)
                assert failed.value.error_kind == kind
                assert failed.value.exit_code == 1
                assert "CUDA out of memory" in str(failed.value.log_tail)

    asyncio.run(run())


def test_a_setting_that_stays_keeps_the_process(tmp_path: Path) -> None:
    """Cells of one setting share one start; another setting is another process with its own values."""

    async def run() -> None:
        config = scripted_sweep(free_port(), "--say", "seqs={max_num_seqs}", grid={"max_num_seqs": [1, 4]})
        async with engine(config, tmp_path) as server:
            first = await server.apply({"max_num_seqs": 1})
            again = await server.apply({"max_num_seqs": 1})
            other = await server.apply({"max_num_seqs": 4})
        assert (first.pid, first.started_new, again.started_new) == (again.pid, True, False)
        assert other.pid != first.pid
        assert other.started_new
        log = (tmp_path / "engine.log").read_text()
        assert [line for line in log.splitlines() if line.startswith("seqs=")] == ["seqs=1", "seqs=4"]
        assert len([line for line in log.splitlines() if line.startswith("=== ")]) == 2

    asyncio.run(run())


def test_d03_a_server_and_child_that_ignore_term_are_killed_and_the_port_is_free(tmp_path: Path) -> None:
    """The next setting never meets the old server: the whole group is killed and the port free before it starts."""

    async def run() -> None:
        config = scripted_sweep(free_port(), "--ignore-term", "--child", stop_timeout_s=0.3)
        async with engine(config, tmp_path) as server:
            first = await server.apply({"n": 1})
            pids = await ask(f"{first.base_url}/pids")
            assert len(pids) == 2
            second = await server.apply({"n": 2})
            assert second.pid not in pids
            assert not any(lives(pid) for pid in pids)
            assert await ask(f"{second.base_url}/pids") != pids
            last = await ask(f"{second.base_url}/pids")
        assert not any(lives(pid) for pid in last)
        assert not (tmp_path / "engine.pid").exists()

    asyncio.run(run())


def test_a_server_that_dies_while_serving_is_noticed_and_its_child_ended(tmp_path: Path) -> None:
    """alive() tells exit code and last words; the next apply of the same setting starts anew and leaves no child."""

    async def run() -> None:
        config = scripted_sweep(free_port(), "--die-after-asks", "1", "--child", stop_timeout_s=0.3)
        async with engine(config, tmp_path) as server:
            first = await server.apply({})
            assert await server.alive() is None
            pids = await ask(f"{first.base_url}/pids")
            with contextlib.suppress(httpx.HTTPError):
                await ask(f"{first.base_url}/health")
            while (dead := await server.alive()) is None:
                await asyncio.sleep(0.02)
            assert (dead.error_kind, dead.exit_code, dead.log_tail) == ("exited", 7, "fatal: lost the GPU")
            assert "while serving" in str(dead)
            second = await server.apply({})
            assert second.started_new
            assert not any(lives(pid) for pid in pids)

    asyncio.run(run())


def test_a_port_held_by_another_program_fails_the_setting_and_names_it(tmp_path: Path) -> None:
    """Nothing is started on a taken port; the sentence says who has it where the system tells."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as foreign:
            port = foreign.getsockname()[1]
            async with engine(scripted_sweep(port), tmp_path, port_wait_s=0.3) as server:
                with pytest.raises(SettingFailed, match=rf"port {port} is taken by .*(process \d+|another)") as failed:
                    await server.apply({})
        assert failed.value.error_kind == "port_in_use"
        assert not (tmp_path / "engine.log").exists()

    asyncio.run(run())


def test_an_answer_from_a_server_that_was_there_before_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a foreign server slip in, its health page must not pass for the engine just started."""

    async def run() -> None:
        old = await asyncio.create_subprocess_exec(*scripted_old(port))
        while not port_is_taken("127.0.0.1", port):
            await asyncio.sleep(0.05)
        # the engine must be younger than the foreign server by more than the tolerance of the process clock
        while time.time() - psutil.Process(old.pid).create_time() < 1.5:
            await asyncio.sleep(0.1)
        monkeypatch.setattr(server_module, "port_is_taken", lambda *_: False)
        try:
            async with engine(scripted_sweep(port, "--no-port"), tmp_path) as server:
                with pytest.raises(SettingFailed, match="not by the server just started") as failed:
                    await server.apply({})
            assert failed.value.error_kind == "port_in_use"
        finally:
            old.kill()
            await old.wait()

    def scripted_old(port: int) -> list[str]:
        return [part.replace("{port}", str(port)) for part in scripted_command()]

    port = free_port()
    asyncio.run(run())


def test_a_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    """Stopping a sweep while its engine loads ends the engine."""

    async def run() -> None:
        port = free_port()
        server = Server(scripted_sweep(port, "--unready-asks", "100000"), tmp_path)
        starting = asyncio.create_task(server.apply({}))
        while not (tmp_path / "engine.pid").exists():
            await asyncio.sleep(0.02)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not (tmp_path / "engine.pid").exists()
        assert not port_is_taken("127.0.0.1", port)

    asyncio.run(run())


def test_the_key_is_in_no_log_and_no_start_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even an engine that prints its own key does not get it onto the disk."""
    monkeypatch.setenv("TEST_ENGINE_KEY", "swordfish-42")

    async def run() -> None:
        port = free_port()
        command = scripted_command("--say", "args: key swordfish-42, hub {hub}")
        monkeypatch.setenv("MY_HUB", "hub-secret-7")
        control = {"command": command, "env": {"HF_TOKEN": "${MY_HUB}"}}
        config = sweep(
            {"kind": "openai", "url": f"http://127.0.0.1:{port}", "api_key_env": "TEST_ENGINE_KEY"},
            {"hub": ["hub-secret-7"]},
            mode="process",
            **control,
        )
        async with engine(config, tmp_path) as server:
            running = await server.apply({"hub": "hub-secret-7"})
        log = (tmp_path / "engine.log").read_text()
        assert "args: key ***, hub ***" in log
        for secret in ("swordfish-42", "hub-secret-7"):
            assert secret not in log
            assert secret not in str(running)

    asyncio.run(run())


def test_a_program_that_is_not_there_is_a_failed_setting(tmp_path: Path) -> None:
    """A command that disappears after the check fails its setting with a plain sentence."""

    async def run() -> None:
        config = scripted_sweep(free_port(), command=["/nonexistent/engine"])
        async with engine(config, tmp_path) as server:
            with pytest.raises(SettingFailed, match="cannot be started: No such file or directory") as failed:
                await server.apply({})
            assert failed.value.error_kind == "bad_command"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/no/such/shell\n", "the program that its first line names is not there"),
        ("#!/bin/sh\r\nexit 0\r\n", "also if it ends in CR LF"),
        ("echo no first line\n", "let its first line be #!/bin/sh"),
    ],
)
def test_a_script_that_cannot_be_started_is_told_why(tmp_path: Path, text: str, words: str) -> None:
    """The file is there and may be executed, so "no such file" would send its owner looking for the wrong thing."""
    script = tmp_path / "start.sh"
    script.write_bytes(text.encode())
    script.chmod(0o755)

    async def run() -> None:
        async with engine(scripted_sweep(free_port(), command=[str(script)]), tmp_path) as server:
            with pytest.raises(SettingFailed, match=words) as failed:
                await server.apply({})
            assert failed.value.error_kind == "bad_command"
            assert "No such file" not in str(failed.value)

    asyncio.run(run())


def test_a_server_that_is_not_ours_is_only_looked_for(tmp_path: Path) -> None:
    """With mode none the server must answer; it is neither started nor ended."""

    async def run() -> None:
        port = free_port()
        async with engine(scripted_sweep(port), tmp_path) as owner:
            pid = (await owner.apply({})).pid
            foreign = Server(sweep({"kind": "openai", "url": f"http://127.0.0.1:{port}/v1/"}), tmp_path / "none")
            running = await foreign.apply({})
            await foreign.stop()
            assert (running.pid, running.start_line, running.started_new) == (None, None, False)
            assert await foreign.alive() is None
            assert pid is not None
            assert lives(pid)

    asyncio.run(run())


def test_a_missing_server_is_unreachable_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a process of ours that may still be loading, a refused connection is not waited for half an hour."""
    monkeypatch.setattr("runner.engines.readiness._FOREIGN_PATIENCE_S", 0.2)
    config = sweep({"kind": "llama_cpp", "url": f"http://127.0.0.1:{free_port()}"})
    with pytest.raises(SettingFailed, match="does not answer") as failed:
        asyncio.run(Server(config, tmp_path).apply({}))
    assert failed.value.error_kind == "unreachable"


def test_a_public_address_is_not_contacted(tmp_path: Path) -> None:
    """Only this machine and private networks are asked, unless the owner allows more."""
    config = sweep({"kind": "openai", "url": "http://192.0.2.7:8000"})
    with pytest.raises(SettingFailed, match="GOODPUT_ALLOW_HOSTS"):
        asyncio.run(Server(config, tmp_path).apply({}))


def test_waiting_for_readiness_does_not_hold_up_other_tasks(tmp_path: Path) -> None:
    """Ending an engine that ignores TERM waits in a thread: the event loop keeps turning."""

    async def run() -> None:
        async with engine(scripted_sweep(free_port(), "--ignore-term", stop_timeout_s=1.0), tmp_path) as server:
            await server.apply({})
            turns = 0
            stopping = asyncio.create_task(server.stop())
            while not stopping.done():
                turns += 1
                await asyncio.sleep(0.01)
            assert turns > 10  # of about 100

    asyncio.run(run())


def test_the_built_in_engine_runs_under_its_own_settings(tmp_path: Path) -> None:
    """kind = simulated is a process of ours on a free port; its start line is the public command."""

    async def run() -> None:
        async with engine(sweep({"kind": "simulated"}, {"max_num_seqs": [1, 4]}), tmp_path) as server:
            first = await server.apply({"max_num_seqs": 1})
            second = await server.apply({"max_num_seqs": 4})
            assert first.pid != second.pid
            assert second.start_line is not None
            assert second.start_line.startswith("goodput engine ")
            assert second.start_line.endswith("--max-num-seqs 4")
            assert (await ask(f"{second.base_url}/v1/models"))["data"]
        assert threading.active_count() < 50

    asyncio.run(run())
