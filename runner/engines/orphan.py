"""engine.pid in a sweep's folder: finds what a killed runner left behind, and ends it."""

import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from runner.config import Scalar, parse_sweep
from runner.engines.engine_log import EngineLog
from runner.engines.hook import hook_of, run_hook
from runner.engines.process import end_family, family
from runner.engines.running import LOG_FILE, api_key
from runner.engines.start_line import secrets_of, with_variables
from runner.errors import ConfigError, SettingFailed
from storage.json_files import read_json
from storage.side_files import SWEEP, pid_space

PID_FILE = "engine.pid"
_BOOT_TOLERANCE_S = 60.0  # the clock may have been set since


def write_pid_file(folder: Path, pid: int, created: float, port: int) -> None:
    """Of an engine that is our own process."""
    _write(folder, {"pid": pid, "pgid": pid, "create_time": created, "port": port})


def note_hooks(
    folder: Path, port: int, setting: Mapping[str, Scalar], processes: Sequence[tuple[int, float]], ready: bool
) -> None:
    """Of a server that hooks start and stop: the hooks that run (pid, time of creation), and the setting whose stop
    hook is owed. `ready`: its start is over."""
    listed = [{"pid": pid, "create_time": created} for pid, created in processes]
    _write(folder, {"setting": dict(setting), "hooks": listed, "ready": ready, "port": port, "pid_space": pid_space()})


def _write(folder: Path, facts: Mapping[str, Any]) -> None:
    half = folder / f"{PID_FILE}.new"
    half.write_text(json.dumps({**facts, "boot_time": psutil.boot_time()}))
    half.replace(folder / PID_FILE)


def remove_pid_file(folder: Path) -> None:
    (folder / PID_FILE).unlink(missing_ok=True)


def end_orphans(data_dir: Path) -> int:
    """Ends what the killed runners of this data folder left behind, whichever sweep it served; how many had something.

    The caller holds the folder's lock, so that no sweep of it is alive. Blocks: use a thread.
    """
    return sum(end_orphan(note.parent) for note in sorted((data_dir / "sweeps").glob(f"*/{PID_FILE}")))


def end_orphan(folder: Path, stop_timeout_s: float = 10.0) -> bool:
    """Ends the engine that a killed runner left behind, by the sweep folder's engine.pid. True if one was found.

    A process is ended only if it was created when the file says (or lives on in that leader's group) and the machine
    has not been started anew since. A server that was started by hooks gets its stop hook. Blocks: use a thread.
    """
    try:
        facts = json.loads((folder / PID_FILE).read_text())
        same_boot = abs(float(facts["boot_time"]) - psutil.boot_time()) < _BOOT_TOLERANCE_S
        if "hooks" in facts:
            hooks = [(int(h["pid"]), float(h["create_time"])) for h in facts["hooks"]]
            found = same_boot and _end_hooked(folder, facts, hooks, stop_timeout_s)
        else:
            found = same_boot and _end_process(int(facts["pgid"]), float(facts["create_time"]), stop_timeout_s)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    remove_pid_file(folder)
    return found


def _end_process(pid: int, since: float, stop_timeout_s: float) -> bool:
    found = bool(family(pid, since))
    if found:
        end_family(pid, since, stop_timeout_s)
    return found


def _end_hooked(folder: Path, facts: Mapping[str, Any], hooks: Sequence[tuple[int, float]], limit_s: float) -> bool:
    """The order of an ordinary end. A folder that came from elsewhere must not make us run its commands."""
    if facts.get("pid_space") != pid_space():
        return False
    found = False
    if not facts.get("ready"):
        found = any([_end_process(pid, since, limit_s) for pid, since in hooks])
    stopped = _run_stop_hook(folder, dict(facts["setting"]))
    left = any([_end_process(pid, since, limit_s) for pid, since in hooks])
    return found or stopped or left


def _run_stop_hook(folder: Path, setting: Mapping[str, Scalar]) -> bool:
    try:
        config = parse_sweep((read_json(folder / SWEEP) or {}).get("config"), SWEEP)
        hook = hook_of(config, "stop_command", setting, folder.name)
    except ConfigError:
        return False
    if hook is None or config.control.mode != "command":
        return False
    env = with_variables(hook.env, os.environ)
    header = time.strftime("%Y-%m-%d %H:%M:%S ") + "stop_command, for a runner that was killed"
    log = EngineLog(folder / LOG_FILE, header, secrets_of(hook.command, env, api_key(config)))
    try:
        asyncio.run(run_hook(hook, env, log, config.control.stop_timeout_s, lambda *_: None))
    except SettingFailed:  # it cannot be started
        return False
    finally:
        log.finish(1.0)
    return True
