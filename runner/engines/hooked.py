"""A server that the user's own hooks start and stop: docker compose, ssh, systemctl, a script."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from runner.config import Scalar, SweepConfig
from runner.engines import failure, memory, process
from runner.engines.address import host_and_port, port_is_taken, server_root
from runner.engines.catalogue import KINDS
from runner.engines.engine_log import EngineLog
from runner.engines.hook import HookName, end_hook, hook_of, hook_timeout, run_hook
from runner.engines.orphan import note_hooks, remove_pid_file
from runner.engines.proof import Identity, compare, who_answers
from runner.engines.readiness import wait_until_ready
from runner.engines.running import LOG_FILE, Running, api_key, metrics_url_of
from runner.engines.start_line import secrets_of, shown_line, with_variables
from runner.engines.told import contradiction
from runner.errors import SettingFailed

_LOOK_S = 0.1
_ASK_AGAIN_S = 0.5  # between two runs of ready_command
_NOT_PROVED = (
    "it is not proved that control.command started the server anew: it answered before as well, and neither this "
    "machine nor the server tells since when it runs"
)
_LEFT_RUNNING = "control has no stop_command, so the server is left running after the sweep"


class HookedServer:
    """The server of one sweep. A start hook may return, or be the server itself and run on.

    port_wait_s: how long the server from before may still answer after a hook has returned.
    """

    def __init__(self, config: SweepConfig, folder: Path, port_wait_s: float) -> None:
        self._config = config
        self._control = config.control
        self._folder = folder
        self._port_wait_s = port_wait_s
        self._host, self._port = host_and_port(str(config.backend.url))
        self._setting: dict[str, Scalar] | None = None  # whose start hook has begun, so that a stop is owed
        self._start: subprocess.Popen[bytes] | None = None
        self._since = 0.0  # when the start hook was created, seconds of the wall clock
        self._began = 0.0  # the same, monotonic
        self._log: EngineLog | None = None
        self._running: Running | None = None
        self._answers = Identity(False)  # who answered when the server was found ready
        self._ending: asyncio.Future[SettingFailed | None] | None = None
        self._memory: memory.Memory | None = None  # before the start
        self._kept_back: str | None = None  # what the server before did not give back

    async def apply(self, setting: Mapping[str, Scalar]) -> Running:
        """Runs the hooks of this setting unless its server runs already. Raises SettingFailed, with the hooks ended
        and the stop hook run."""
        if self._running and self._setting == setting and await self.alive() is None:
            return replace(self._running, started_new=False)
        await self._make_room(setting)
        try:
            self._running = await self._begin(setting)
        except BaseException:
            await self.stop()
            raise
        return self._running

    async def alive(self) -> SettingFailed | None:
        """Why the server ended, as far as this machine can see it; null while nothing speaks against its life."""
        if self._running is None or self._log is None:
            return None
        code = self._start.poll() if self._start else None
        hook_ended = code is not None and self._running.pid == (self._start.pid if self._start else None)
        if not (hook_ended or self._listener_gone()) or await asyncio.to_thread(port_is_taken, self._host, self._port):
            return None
        await asyncio.to_thread(self._log.finish, 1.0)
        return failure.died(code if hook_ended else None, self._log.text(), "while serving")

    async def stop(self) -> None:
        """The stop hook, then what is left of the start hook's group; waits for the port to be free."""
        if trouble := await self._end():
            print(f"{self._folder.name}: {trouble}", file=sys.stderr, flush=True)

    async def _end(self) -> SettingFailed | None:
        """What went wrong with the stop hook. Goes on when we are cancelled; a second call waits for the first."""
        if self._ending is None:
            if self._setting is None:
                return None
            self._ending = asyncio.ensure_future(self._end_all(self._setting))
        trouble = await asyncio.shield(self._ending)
        self._ending = None
        return trouble

    async def _end_all(self, setting: Mapping[str, Scalar]) -> SettingFailed | None:
        half_started, self._running = self._running is None, None
        if half_started:
            await self._end_start_hook()  # or it would go on starting what the stop hook stops
        trouble = await self._stop_hook(setting)
        ours = await self._end_start_hook()
        if self._log is not None:
            await asyncio.to_thread(self._log.finish, 1.0)
        if ours or self._control.stop_command:
            await self._port_becomes_free(None if trouble else self._control.stop_timeout_s)
            if self._memory:  # of GPUs: how much RAM the server had is not known here
                self._kept_back = await asyncio.to_thread(memory.wait_until_given_back, self._memory, 0)
        self._setting = self._start = None
        remove_pid_file(self._folder)
        return trouble

    async def _end_start_hook(self) -> bool:
        """Whether something of its group was still there."""
        if self._start is None:
            return False
        found = bool(await asyncio.to_thread(process.family, self._start.pid, self._since))
        await end_hook(self._start, self._since, self._control.stop_timeout_s)
        return found

    async def _make_room(self, setting: Mapping[str, Scalar]) -> None:
        """Stops the server of the setting before, or the one that was there before the sweep.

        Raises SettingFailed when the stop hook failed and somebody still answers.
        """
        trouble = await self._end()
        if trouble is None and self._running is None and self._control.stop_command and await self._is_taken():
            trouble = await self._stop_hook(setting)
            await self._port_becomes_free(None if trouble else self._control.stop_timeout_s)
        if trouble is not None and await self._is_taken():
            raise trouble

    async def _stop_hook(self, setting: Mapping[str, Scalar]) -> SettingFailed | None:
        if not self._control.stop_command:
            return None
        log = self._log = self._log or self._new_log(setting)
        try:
            code = await self._run("stop_command", setting, log, self._control.stop_timeout_s)
        except SettingFailed as e:
            return e
        if code == 0:
            return None
        await asyncio.to_thread(log.finish, 1.0)
        if code is None:
            return hook_timeout("stop_command", self._control.stop_timeout_s, failure.log_tail(log.text()))
        return failure.hook_failed("stop_command", code, log.text())

    async def _begin(self, setting: Mapping[str, Scalar]) -> Running:
        self._log = self._new_log(setting)
        before = await who_answers(self._config)
        self._memory = await asyncio.to_thread(memory.look)
        hook = hook_of(self._config, "command", setting, self._folder.name)
        assert hook is not None
        self._setting = dict(setting)
        self._note()
        self._start = process.start(hook.command, with_variables(hook.env, os.environ), self._log)
        self._since, self._began = process.created_at(self._start.pid), time.monotonic()
        self._note()
        if self._control.ready_command:
            await self._ready_hook(setting, self._log)
        notes = [*([self._kept_back] if self._kept_back else []), *await self._answers_anew(before, self._log)]
        self._note(ready=True)
        if wrong := await contradiction(self._config, setting):
            notes.append(wrong)
        url = str(self._config.backend.url)
        foreground = self._start.poll() is None
        if not foreground and not self._control.stop_command and not process.family(self._start.pid, self._since):
            notes.append(_LEFT_RUNNING)
        listener = self._answers.listener
        pid = self._start.pid if foreground else listener and listener[0]
        return Running(url, metrics_url_of(self._config, url), self._line(setting), pid, True, tuple(notes))

    async def _ready_hook(self, setting: Mapping[str, Scalar], log: EngineLog) -> None:
        """Asks the ready hook again and again until it says yes (exit code 0)."""
        limit_s, code = self._control.ready_timeout_s, None
        while (left_s := self._began + limit_s - time.monotonic()) > 0:
            code = await self._run("ready_command", setting, log, left_s, watch=True)
            if code == 0:
                return
            await asyncio.sleep(_ASK_AGAIN_S)
            await self._must_go_well()
        tail = failure.log_tail(log.text())
        if code is None:
            raise hook_timeout("ready_command", limit_s, tail)
        detail = f"control.ready_command still said no after {limit_s:g} s (exit code {code}); raise ready_timeout_s"
        raise SettingFailed("not_ready", detail, exit_code=code, log_tail=tail)

    async def _answers_anew(self, before: Identity, log: EngineLog) -> list[str]:
        """Returns when a server answers that is not the one from before; what could not be proved, as notes.

        Raises SettingFailed: a hook failed, nobody answers in time, or the old server answers on.
        """
        backend, old_until = self._config.backend, None
        root, kind = server_root(str(backend.url)), KINDS[backend.kind]
        while True:
            left_s = round(max(0.0, self._began + self._control.ready_timeout_s - time.monotonic()), 1)
            await wait_until_ready(root, kind, api_key(self._config), left_s, self._trouble, log)
            self._answers = await who_answers(self._config)
            verdict = compare(before, self._answers)
            returned = self._start is None or self._start.poll() is not None
            if verdict == "new" or (verdict == "unknown" and returned):
                await self._must_go_well()
                return [] if verdict == "new" else [_NOT_PROVED]
            await self._must_go_well()
            if returned:
                old_until = old_until or time.monotonic() + self._port_wait_s
                if time.monotonic() >= old_until:
                    raise self._not_restarted()
            await asyncio.sleep(_LOOK_S)

    def _not_restarted(self) -> SettingFailed:
        listener = self._answers.listener
        who = f" (process {listener[0]})" if listener else ""
        detail = (
            f"the server that answered port {self._port} before control.command ran still does{who}, so this setting "
            "is not in force; let the command restart it, or give a stop_command"
        )
        return SettingFailed("not_restarted", detail)

    async def _trouble(self) -> SettingFailed | None:
        """What is wrong with the start hook: it failed, or it is over its limit (and is ended)."""
        if self._start is None or self._log is None:
            return None
        code = self._start.poll()
        limit_s = self._control.start_timeout_s or self._control.ready_timeout_s
        if code is None and time.monotonic() - self._began > limit_s:
            await end_hook(self._start, self._since)
            await asyncio.to_thread(self._log.finish, 1.0)
            return hook_timeout("command", limit_s, failure.log_tail(self._log.text()))
        if code:
            await asyncio.to_thread(self._log.finish, 1.0)
            return failure.hook_failed("command", code, self._log.text())
        return None

    async def _must_go_well(self) -> None:
        if trouble := await self._trouble():
            raise trouble

    async def _run(
        self, name: HookName, setting: Mapping[str, Scalar], log: EngineLog, limit_s: float, watch: bool = False
    ) -> int | None:
        hook = hook_of(self._config, name, setting, self._folder.name)
        assert hook is not None
        watcher = self._must_go_well if watch else None
        env = with_variables(hook.env, os.environ)
        try:
            return await run_hook(hook, env, log, limit_s, lambda *us: self._note(us), watcher)
        finally:
            self._note()

    def _note(self, *more: tuple[int, float], ready: bool | None = None) -> None:
        """Keeps on disk what must be ended and stopped should we be killed."""
        mine = [(self._start.pid, self._since)] if self._start else []
        if self._setting is not None or more:
            is_ready = self._running is not None if ready is None else ready
            note_hooks(self._folder, self._port, self._setting or {}, [*mine, *more], is_ready)

    def _new_log(self, setting: Mapping[str, Scalar]) -> EngineLog:
        control = self._control
        command = [*(control.command or ()), *(control.ready_command or ()), *(control.stop_command or ())]
        secrets = secrets_of(command, with_variables(control.env, os.environ), api_key(self._config))
        header = time.strftime("%Y-%m-%d %H:%M:%S ") + self._line(setting)
        return EngineLog(self._folder / LOG_FILE, header, secrets)

    def _line(self, setting: Mapping[str, Scalar]) -> str:
        """The start hook with the variables that a setting gives it, ready to paste."""
        hook = hook_of(self._config, "command", setting, self._folder.name)
        assert hook is not None
        names = {f"GOODPUT_{k.upper()}" for k in setting} | set(self._control.env)
        env = {k: v for k, v in hook.env.items() if k in names}
        secrets = secrets_of(hook.command, with_variables(env, os.environ), api_key(self._config))
        return shown_line(hook.command, env, secrets)

    def _listener_gone(self) -> bool:
        if self._answers.listener is None:
            return False
        pid, created = self._answers.listener
        with contextlib.suppress(psutil.Error):
            listener = psutil.Process(pid)
            return listener.create_time() != created or listener.status() == psutil.STATUS_ZOMBIE
        return True

    async def _is_taken(self) -> bool:
        return await asyncio.to_thread(port_is_taken, self._host, self._port)

    async def _port_becomes_free(self, limit_s: float | None) -> None:
        """A stop hook that went well may have told a server to end that still has to do so (`limit_s`)."""
        deadline = time.monotonic() + max(self._port_wait_s, limit_s or 0.0)
        while await self._is_taken() and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_S)
