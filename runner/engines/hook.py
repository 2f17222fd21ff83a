"""The user's own commands that apply a setting: what each is run with, and its run within a limit."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from runner.config import Scalar, SweepConfig
from runner.engines import process
from runner.engines.address import host_and_port
from runner.engines.engine_log import EngineLog
from runner.engines.start_line import fill_command
from runner.errors import SettingFailed

HookName = Literal["command", "ready_command", "stop_command"]
HOOKS: tuple[HookName, ...] = ("command", "ready_command", "stop_command")
OUR_NAMES = ("host", "hook", "port", "sweep_id", "url")  # GOODPUT_PORT and the like; no grid key may be called so
GRACE_S = 5.0  # from TERM to KILL of a hook that is over its limit
_LOOK_S = 0.05
_SHORT = {"command": "start", "ready_command": "ready", "stop_command": "stop"}


@dataclass(frozen=True)
class Hook:
    """One command as it is run: arguments filled, and what its environment has beside ours."""

    name: HookName
    command: list[str]
    env: dict[str, str]


def hook_of(config: SweepConfig, name: HookName, setting: Mapping[str, Scalar], sweep_id: str) -> Hook | None:
    """The hook of that name for one setting; null when the config has none.

    The environment still has `${NAME}` in the values of control.env; `with_variables` puts them in.
    """
    template = getattr(config.control, name)
    if not template:
        return None
    host, port = host_and_port(str(config.backend.url))
    known: dict[str, Scalar] = {"port": port, "host": host, "url": str(config.backend.url), "sweep_id": sweep_id}
    told = {**known, "hook": _SHORT[name], **setting}
    own = {f"GOODPUT_{k.upper()}": fill_command([f"{{{k}}}"], told)[0] for k in told}
    chosen = config.control.env
    given = dict(zip(chosen, fill_command(tuple(chosen.values()), setting, known), strict=True))
    return Hook(name, fill_command(template, setting, known), {**own, **given})


async def run_hook(
    hook: Hook,
    env: Mapping[str, str],
    log: EngineLog,
    limit_s: float,
    started: Callable[[int, float], None],
    watch: Callable[[], Awaitable[None]] | None = None,
) -> int | None:
    """Runs the hook to its end; its exit code, or null when the limit came first. Whatever of its group is left then
    is ended, also when we are cancelled or `watch`, which is asked all along, raises.

    `started` is told pid and time of creation. Raises SettingFailed when it cannot be started.
    """
    child = process.start(hook.command, env, log, f"control.{hook.name}")
    since = process.created_at(child.pid)
    started(child.pid, since)
    deadline = time.monotonic() + limit_s
    try:
        while child.poll() is None:
            if time.monotonic() >= deadline:
                return None
            if watch:
                await watch()
            await asyncio.sleep(_LOOK_S)
        return child.returncode
    finally:
        await end_hook(child, since)


async def end_hook(child: "subprocess.Popen[bytes]", since: float, grace_s: float | None = None) -> None:
    """TERM, then KILL, to all of the hook's group. In a thread, so that it goes on when the task is cancelled."""
    grace_s = GRACE_S if grace_s is None else grace_s
    await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(_end, child, since, grace_s)))


def _end(child: "subprocess.Popen[bytes]", since: float, grace_s: float) -> None:
    process.end_family(child.pid, since, grace_s)
    try:
        child.wait(10.0)
    except subprocess.TimeoutExpired:  # stuck in a driver: nothing more can be done
        return


def hook_timeout(name: HookName, limit_s: float, log_tail: str | None) -> SettingFailed:
    key = {"command": "start_timeout_s", "ready_command": "ready_timeout_s", "stop_command": "stop_timeout_s"}[name]
    detail = f"control.{name} was still running after {limit_s:g} s and was ended; mend it, or raise control.{key}"
    return SettingFailed("hook_timeout", detail, log_tail=log_tail)
