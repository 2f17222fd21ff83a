"""The small files beside a sweep's database: written by the runner, read by the pages while the sweep runs.

    sweep.json   what was asked for; written once        state.json   status and heartbeat, replaced every second
    live.jsonl   a line a second                         cells.jsonl  a line when a cell ends
    stop, pause, skip, continue   empty files by which a page asks the runner for something

Readers never raise on a torn, missing or strange file: it reads as nothing.
"""

import json
import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import psutil

from storage.json_files import read_json, strict_json, write_json
from storage.plain_errors import write_error

Wish = Literal["stop", "pause", "skip", "continue"]
STATE = "state.json"
SWEEP = "sweep.json"
LIVE = ("starting", "running", "paused")
FINAL = ("done", "failed", "stopped")
STALE_S = 10.0  # the runner renews its heartbeat every second
_TAIL_BYTES = 64 * 1024
_CALENDAR_ENDS_NS = 253_000_000_000 * 1_000_000_000  # in the year 9987


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """One line of the sweep list."""

    sweep_id: str
    name: str
    status: str  # queued | starting | running | paused | done | failed | stopped | interrupted | damaged
    created_unix_ns: int  # 0 if unknown
    cells_total: int
    cells_done: int
    verdict: str | None
    simulated: bool
    folder: Path
    brief: dict[str, Any] | None = None  # the result in brief, as the runner left it; of older sweeps null
    source: str = ""  # what asked for it: a file's name, "dashboard", "quick check", the id of an earlier sweep


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Replaces state.json. Beside a pid it notes which machine or container the pid belongs to. Raises StorageError."""
    where = {"pid_space": pid_space()} if state.get("pid") is not None else {}
    write_json(folder / STATE, {**state, **where})


def read_state(folder: Path) -> dict[str, Any] | None:
    """What the runner last wrote; None if nothing readable."""
    return read_json(folder / STATE)


def append_line(folder: Path, name: str, value: dict[str, Any]) -> None:
    """Adds one line of JSON to the file; begins a new line if the last one was torn off. Raises StorageError."""
    path = folder / name
    line = strict_json(value).encode() + b"\n"
    try:
        with path.open("a+b") as f:
            if f.seek(0, os.SEEK_END) > 0:
                f.seek(-1, os.SEEK_END)
                if f.read(1) != b"\n":
                    line = b"\n" + line
            f.write(line)
    except OSError as e:
        raise write_error(path, e) from None


def read_lines(folder: Path, name: str, last: int | None = None) -> list[dict[str, Any]]:
    """The objects in the file, oldest first, torn lines left out; with `last` only so many from its end."""
    try:
        with (folder / name).open("rb") as f:
            if last is None:
                return _objects(f.read().split(b"\n"))
            size = f.seek(0, os.SEEK_END)
            tail = _TAIL_BYTES
            while True:
                start = max(0, size - tail)
                f.seek(start)
                lines = f.read(size - start).split(b"\n")
                rows = _objects(lines if start == 0 else lines[1:])
                if start == 0 or len(rows) >= last:
                    return rows[-last:] if last > 0 else []
                tail *= 4
    except OSError:
        return []


def ask(folder: Path, what: Wish) -> None:
    """Asks the runner to stop the sweep, pause it, skip the cell, or go on after a change. Raises StorageError."""
    try:
        (folder / what).touch()
    except OSError as e:
        raise write_error(folder / what, e) from None


def withdraw(folder: Path, what: Wish) -> None:
    """Takes the wish back (a page), or notes that it was fulfilled (the runner). Raises StorageError."""
    try:
        (folder / what).unlink(missing_ok=True)
    except OSError as e:
        raise write_error(folder / what, e) from None


def asked(folder: Path, what: Wish) -> bool:
    """True while the wish stands."""
    try:
        return (folder / what).exists()
    except OSError:  # this user may not look into the folder
        return False


def pid_space() -> str:
    """Names the set of processes our pids belong to: a pid of another container says nothing here."""
    try:
        return f"{os.uname().nodename} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return os.uname().nodename


def status_of(folder: Path) -> str:
    """The status now: what says it is live without a living runner, or says nothing readable, is "interrupted"."""
    return _status(read_state(folder), time.time_ns())


def list_sweeps(data_dir: Path) -> list[SweepSummary]:
    """All sweeps, newest first. Never raises: what cannot be read is listed as damaged."""
    now_ns = time.time_ns()
    try:
        folders = [p for p in (data_dir / "sweeps").iterdir() if not p.name.startswith(".") and p.is_dir()]
    except OSError:
        return []
    found = [_summary(folder, now_ns) for folder in folders]
    return sorted(found, key=lambda s: (s.created_unix_ns, s.sweep_id), reverse=True)


def is_live(state: dict[str, Any], now_unix_ns: int) -> bool:
    """True if the runner that wrote this state still lives: its heartbeat is fresh and its process is the same one.

    A runner in another container has a pid that means nothing here; then the heartbeat alone tells.
    """
    heartbeat = state.get("heartbeat_unix_ns")
    if not isinstance(heartbeat, int) or abs(now_unix_ns - heartbeat) > STALE_S * 1e9:
        return False
    pid, born = state.get("pid"), state.get("create_time")
    if not isinstance(pid, int) or state.get("pid_space") != pid_space():
        return True
    try:
        process = psutil.Process(pid)
        same = not isinstance(born, int | float) or abs(process.create_time() - born) < 1.0
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return False


def _objects(lines: list[bytes]) -> list[dict[str, Any]]:
    rows = []
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            rows.append(value)
    return rows


def _status(state: dict[str, Any] | None, now_unix_ns: int) -> str:
    status = state.get("status") if state else None
    if state and status in LIVE:
        return str(status) if is_live(state, now_unix_ns) else "interrupted"
    return str(status) if status in (*FINAL, "queued") else "interrupted"


def _summary(folder: Path, now_unix_ns: int) -> SweepSummary:
    asked_for = _asked_for(folder / SWEEP)
    state = _last_state(folder / STATE)
    verdict, brief = (state or {}).get("verdict"), (state or {}).get("brief")
    return SweepSummary(
        sweep_id=folder.name,
        name=asked_for.get("name") or folder.name,
        status="damaged" if not asked_for else _status(state, now_unix_ns),
        created_unix_ns=asked_for.get("created_unix_ns", 0),
        cells_total=_count((state or {}).get("cells_total")),
        cells_done=_count((state or {}).get("cells_done")),
        verdict=verdict if isinstance(verdict, str) else None,
        simulated=asked_for.get("simulated") is True,
        folder=folder,
        brief=brief if isinstance(brief, dict) else None,
        source=asked_for.get("source", ""),
    )


def _last_state(path: Path) -> dict[str, Any] | None:
    """`read_state`, to be read only: a list of hundreds of sweeps that have ended is not read anew each time. Each
    writing of the file is another inode."""
    try:
        found = path.stat()
    except OSError:
        return None
    return _read_last_state(path, found.st_ino, found.st_ctime_ns, found.st_size)


@lru_cache(maxsize=1024)
def _read_last_state(path: Path, inode: int, changed_ns: int, size: int) -> dict[str, Any] | None:
    return read_json(path)


def _asked_for(path: Path) -> dict[str, Any]:
    """What the list tells of a sweep.json, which never changes and may hold a trace of megabytes: read once."""
    try:
        found = path.stat()
    except OSError:
        return {}
    return _read_asked_for(path, found.st_ino, found.st_ctime_ns, found.st_size)


@lru_cache(maxsize=4096)
def _read_asked_for(path: Path, inode: int, changed_ns: int, size: int) -> dict[str, Any]:
    sweep = read_json(path)
    if sweep is None:
        return {}
    return {
        "name": str(sweep.get("name") or ""),
        "created_unix_ns": moment(sweep.get("created_unix_ns")),
        "simulated": sweep.get("simulated") is True,
        "source": str(sweep.get("source") or ""),
    }


def moment(value: object) -> int:
    """Nanoseconds that a calendar has; 0 for others."""
    found = _count(value)
    return found if 0 <= found < _CALENDAR_ENDS_NS else 0


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
