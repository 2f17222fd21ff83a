"""The engine of a sweep: started anew for each setting, proved to be the one that answers, ended with all its kin."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from runner.config import Scalar, SweepConfig
from runner.engines import failure, memory, process
from runner.engines.address import free_port, host_and_port, listener_name, listener_of, port_is_taken, server_root
from runner.engines.catalogue import KINDS
from runner.engines.engine_log import EngineLog
from runner.engines.hooked import HookedServer
from runner.engines.orphan import remove_pid_file, write_pid_file
from runner.engines.readiness import wait_until_ready
from runner.engines.running import LOG_FILE, Running, User, api_key, metrics_url_of
from runner.engines.set_by_hand import HandSetServer
from runner.engines.start_line import fill_command, secrets_of, shown_line, simulator_args, with_variables
from runner.errors import SettingFailed

_PORT_LINGERS_S = 60.0  # how long a port may stay taken after its engine has gone


@dataclass(frozen=True)
class _Plan:
    """One setting's start: what is run and where it will answer."""

    command: list[str]
    env: dict[str, str]
    secrets: list[str]
    base_url: str
    start_line: str


class Server:
    """The engine of one sweep, however its settings are applied. `folder` keeps engine.log and engine.pid.

    port_wait_s: how long a port taken by someone else is waited for before a start is given up.
    user: who is asked where settings are changed by hand.
    """

    def __init__(self, config: SweepConfig, folder: Path, port_wait_s: float = 10.0, user: User | None = None) -> None:
        self._config = config
        self._folder = folder
        self._port_wait_s = port_wait_s
        self._kind = KINDS[config.backend.kind]
        self._owned = config.backend.kind == "simulated" or config.control.mode == "process"
        self._process: subprocess.Popen[bytes] | None = None
        self._since = 0.0  # when our process was created, seconds of the wall clock
        self._log: EngineLog | None = None
        self._running: Running | None = None
        self._setting: dict[str, Scalar] = {}
        self._port: tuple[str, int] | None = None
        self._ending: asyncio.Future[None] | None = None
        self._memory: memory.Memory | None = None  # before the start
        self._note: str | None = None  # what the end of the engine before left behind
        self._other = _other_way(config, folder, port_wait_s, user)

    async def apply(self, setting: Mapping[str, Scalar]) -> Running:
        """Makes the server run with this setting; returns when it is ready. Restarts only when the setting differs
        or the process has died. Raises SettingFailed, with the engine ended; SettingSkipped when the user leaves the
        cell out instead of changing the server by hand."""
        if self._other:
            return await self._other.apply(setting)
        if self._running and self._setting == setting and (not self._owned or self._exit_code() is None):
            return replace(self._running, started_new=False)
        if not self._owned:
            self._running = await self._find()
        else:
            await self.stop()
            try:
                self._running = await self._start(self._plan(setting))
            except BaseException:
                await self.stop()
                raise
        self._setting = dict(setting)
        return self._running

    async def alive(self) -> SettingFailed | None:
        """Null while our process lives (or the server is not ours); else why it died, with its last log lines."""
        if isinstance(self._other, HookedServer):
            return await self._other.alive()
        if self._process is None or self._log is None or self._exit_code() is None:
            return None
        await asyncio.to_thread(self._log.finish, 2.0)
        return failure.died(
            self._exit_code(), self._log.text(), "while starting" if not self._running else "while serving"
        )

    def pids(self) -> list[int] | None:
        """Processes of the engine that we started; null where the server's can't be told from other programs."""
        if not self._owned or self._process is None:
            return None
        return [self._process.pid, *(p.pid for p in process.family(self._process.pid, self._since))]

    async def stop(self) -> None:
        """Ends the whole process group (TERM, then KILL after stop_timeout_s) and waits for its port and its memory.

        Goes on when we are cancelled; a second call waits for the first.
        """
        if isinstance(self._other, HookedServer):
            await self._other.stop()
        if self._process is not None:
            child, self._process, self._running = self._process, None, None
            self._ending = asyncio.ensure_future(self._end(child))
        if self._ending is not None:
            await asyncio.shield(self._ending)
            self._ending = None

    async def _end(self, child: subprocess.Popen[bytes]) -> None:
        members = await asyncio.to_thread(process.family, child.pid, self._since)
        taken_bytes = process.resident_bytes(members)
        await asyncio.to_thread(process.end_family, child.pid, self._since, self._config.control.stop_timeout_s)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process stuck in a driver does not stop the sweep
            await asyncio.to_thread(child.wait, 10.0)
        if self._log is not None:
            await asyncio.to_thread(self._log.finish, 2.0)
        if self._port is not None:
            await self._port_becomes_free(*self._port, _PORT_LINGERS_S)
        remove_pid_file(self._folder)
        if self._memory is not None:
            self._note = await asyncio.to_thread(memory.wait_until_given_back, self._memory, taken_bytes)

    def _exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    async def _find(self) -> Running:
        """A server that we neither start nor stop must answer."""
        url = str(self._config.backend.url)
        await wait_until_ready(
            server_root(url), self._kind, api_key(self._config), self._config.control.ready_timeout_s
        )
        return Running(url, metrics_url_of(self._config, url), None, None, started_new=False)

    def _plan(self, setting: Mapping[str, Scalar]) -> _Plan:
        backend, control = self._config.backend, self._config.control
        if backend.kind == "simulated":
            port, args = free_port(), simulator_args(backend, setting)
            command = [sys.executable, "-m", "runner.simulator", "--port", str(port), *args]
            line = shown_line(["goodput", "engine", *args], {}, [])
            return _Plan(command, dict(control.env), [], f"http://127.0.0.1:{port}", line)
        extra: dict[str, Scalar] = {"port": host_and_port(str(backend.url))[1]}
        command = fill_command(control.command or (), setting, extra)
        env = dict(zip(control.env, fill_command(tuple(control.env.values()), setting, extra), strict=True))
        real_env = with_variables(env, os.environ)
        secrets = secrets_of(command, real_env, api_key(self._config))
        return _Plan(command, real_env, secrets, str(backend.url), shown_line(command, env, secrets))

    async def _start(self, plan: _Plan) -> Running:
        host, port = self._port = host_and_port(plan.base_url)
        if not await self._port_becomes_free(host, port, self._port_wait_s):
            who = await asyncio.to_thread(listener_name, port)
            raise SettingFailed("port_in_use", f"port {port} is taken by {who}; end it or give the server another port")
        header = time.strftime("%Y-%m-%d %H:%M:%S ") + plan.start_line
        self._log = EngineLog(self._folder / LOG_FILE, header, plan.secrets)
        notes = (self._note,) if self._note else ()
        self._memory = await asyncio.to_thread(memory.look)
        self._process = process.start(plan.command, plan.env, self._log)
        self._since = process.created_at(self._process.pid)
        write_pid_file(self._folder, self._process.pid, self._since, port)
        timeout_s = self._config.control.ready_timeout_s
        await wait_until_ready(
            server_root(plan.base_url), self._kind, api_key(self._config), timeout_s, self.alive, self._log
        )
        await self._must_be_ours(port)
        metrics_url = metrics_url_of(self._config, plan.base_url)
        return Running(plan.base_url, metrics_url, plan.start_line, self._process.pid, True, notes)

    async def _must_be_ours(self, port: int) -> None:
        """Refuses an answer from a server that was there before ours. A listener outside our family is trusted when it
        is younger than our start: a container's port is held by the container service."""
        if dead := await self.alive():
            raise dead
        owner = await asyncio.to_thread(listener_of, port)
        if owner is None or self._process is None:
            return
        try:
            older = owner.create_time() < self._since - 1.0
            kin = {p.pid for p in process.family(self._process.pid, self._since)} | {self._process.pid}
        except psutil.Error:
            return
        if owner.pid not in kin and older:
            who = await asyncio.to_thread(listener_name, port)
            raise SettingFailed(
                "port_in_use", f"port {port} is answered by {who}, not by the server just started; end it"
            )

    async def _port_becomes_free(self, host: str, port: int, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while await asyncio.to_thread(port_is_taken, host, port):
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(0.1)
        return True


def _other_way(
    config: SweepConfig, folder: Path, port_wait_s: float, user: User | None
) -> HookedServer | HandSetServer | None:
    """Null when the engine is our own process, or a server that is only looked for."""
    if config.control.mode == "command":
        return HookedServer(config, folder, port_wait_s)
    if config.control.mode == "manual" and config.server_grid:
        if user is None:
            raise ValueError("settings that are changed by hand need a user")
        return HandSetServer(config, user)
    return None
