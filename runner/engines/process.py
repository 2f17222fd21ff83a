"""One engine process and all that belongs to it: start, family, end."""

import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from runner.engines.engine_log import EngineLog
from runner.errors import SettingFailed

_CLOCK_TOLERANCE_S = 1.0
_POLL_S = 0.05
_FIRST_LINE = "#!/bin/sh"


def start(
    command: Sequence[str], env: Mapping[str, str], log: EngineLog, key: str = "control.command"
) -> subprocess.Popen[bytes]:
    """Starts the engine as the leader of its own session, so that a signal reaches all of it and ours only us.

    key: where the command stands in the sweep file. Raises SettingFailed when it cannot be started.
    """
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as e:
        raise SettingFailed("bad_command", f"{command[0]} cannot be started: {_why(command[0], e, key)}") from None
    assert process.stdout is not None
    log.follow(process.stdout)
    return process


def _why(program: str, error: OSError, key: str) -> str:
    """The system speaks of the script where it means the program that its first line names."""
    if error.errno == errno.ENOEXEC:
        return f"it is neither a program of this machine nor a script; let its first line be {_FIRST_LINE}"
    if error.errno == errno.ENOENT and Path(program).is_file():
        return "the program that its first line names is not there; mend that line, also if it ends in CR LF"
    return f"{error.strerror}; check {key}"


def created_at(pid: int) -> float:
    """Seconds of the wall clock, as the system tells it (now, when it does not)."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return time.time()


def family(leader_pid: int, since: float) -> list[psutil.Process]:
    """Living processes of the leader's group, and its descendants outside of it.

    `since`: when the leader was created, seconds of the wall clock; empty when its number now belongs to someone else.
    """
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.Error):
        leader = psutil.Process(leader_pid)
        if abs(leader.create_time() - since) > _CLOCK_TOLERANCE_S:
            return []
        found = {p.pid: p for p in leader.children(recursive=True)}
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getpgid(pid) == leader_pid:
                found[pid] = psutil.Process(pid)
    return [p for p in found.values() if _lives(p)]


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def resident_bytes(members: Iterable[psutil.Process]) -> int:
    """What these processes have in RAM together; pages they share count more than once."""
    total = 0
    for member in members:
        with contextlib.suppress(psutil.Error):
            total += member.memory_info().rss
    return total


def end_family(leader_pid: int, since: float, stop_timeout_s: float) -> None:
    """TERM to everyone, wait, KILL who is left; returns when nobody of the family lives. Blocks: use a thread."""
    members = family(leader_pid, since)
    _signal(members, signal.SIGTERM)
    deadline = time.monotonic() + stop_timeout_s
    while any(_lives(p) for p in members) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    # children started meanwhile belong to it too, and so do those whose parent is gone
    deadline = time.monotonic() + 10.0
    while (left := [p for p in {*members, *family(leader_pid, since)} if _lives(p)]) and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        time.sleep(_POLL_S)


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
