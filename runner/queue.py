"""What waits to be measured: sweep folders, the queue, and the lock of the one runner. Ids are checked on every use."""

import contextlib
import os
import random
import re
import shutil
import sys
import time
import typing
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.config import SweepConfig, parse_sweep
from runner.engines.orphan import end_orphan
from runner.errors import BusyError, ConfigError
from runner.plan import count_points
from runner.search.course import check_budget, count_expected
from runner.trace_texts import read_trace_texts
from storage.data_folder import locked
from storage.errors import StorageError
from storage.json_files import read_json, write_json
from storage.plain_errors import write_error
from storage.side_files import LIVE, SWEEP, Wish, pid_space, read_state, status_of, withdraw, write_state

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
MOST_CELLS = 50_000  # a page or a JSON object of more takes minutes and gigabytes to make
_SUFFIX = "abcdefghjkmnpqrstuvwxyz23456789"  # no letters that look like digits


def sweep_folder(data_dir: Path, sweep_id: str) -> Path:
    """The folder of a sweep, which need not exist. Raises ConfigError on anything that is not a sweep id."""
    if not _ID.fullmatch(sweep_id):
        raise ConfigError(f"{sweep_id!r} is not a sweep id; `goodput list` shows them")
    return data_dir / "sweeps" / sweep_id


def new_sweep_id(name: str, created_unix_ns: int) -> str:
    """Sortable (UTC), readable, safe in file names and URLs: 20261129-181502-how-many-chats-fit-x3f2."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "sweep"
    stamp = datetime.fromtimestamp(created_unix_ns // 1_000_000_000, UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{slug}-{''.join(random.SystemRandom().choices(_SUFFIX, k=4))}"


def check_cell_count(config: SweepConfig) -> None:
    """Raises ConfigError for more cells than a result can hold, or a time that holds too few."""
    check_budget(config)
    if (cells := count_points(config)) > MOST_CELLS:
        raise ConfigError(f"this sweep has {cells:,} cells, and one result holds at most {MOST_CELLS:,}; split [grid]")


def enqueue(
    data_dir: Path,
    config: SweepConfig,
    source: str,
    base: Path = Path(),
    *,
    simulated: bool = False,
    profile: Mapping[str, Any] | None = None,
) -> str:
    """Makes the sweep's folder and puts it in the queue; returns its id. Raises StorageError, and leaves nothing then.

    source: where the config came from, for people: a file's name, "dashboard", the id of an earlier sweep.
    base: where the paths of recorded traces begin. Raises ConfigError when one cannot be read.
    simulated: in virtual time, with the speed of `profile` (an EngineProfile as plain data) or of the config.
    Raises ConfigError for more cells than a result can hold.
    """
    check_cell_count(config)
    traces = read_trace_texts(config, base)
    created = time.time_ns()
    sweep_id = new_sweep_id(config.name, created)
    folder = sweep_folder(data_dir, sweep_id)
    try:
        folder.mkdir(parents=True)
    except OSError as e:
        raise write_error(folder, e) from None
    try:
        write_json(
            folder / SWEEP,
            {
                "sweep_id": sweep_id,
                "name": config.name,
                "created_unix_ns": created,
                "source": source,
                "config": config.model_dump(mode="json"),
                "traces": traces,
                **({"simulated": True, "profile": profile} if simulated else {}),
            },
        )
        write_state(folder, {"status": "queued", "cells_total": count_expected(config), "cells_done": 0})
        put_in_queue(data_dir, sweep_id)
    except StorageError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return sweep_id


def put_in_queue(data_dir: Path, sweep_id: str) -> None:
    """Lets a sweep wait for the runner: a new one, or one that ended early and shall go on (old wishes are forgotten).

    Raises BusyError while it is being measured, StorageError.
    """
    folder = sweep_folder(data_dir, sweep_id)
    if status_of(folder) in LIVE:
        raise BusyError(f"sweep {sweep_id} is being measured already")
    for wish in typing.get_args(Wish):
        withdraw(folder, wish)
    before = read_state(folder) or {}
    write_state(folder, {"status": "queued", **{k: before[k] for k in ("cells_total", "cells_done") if k in before}})
    try:
        (data_dir / "queue").mkdir(exist_ok=True)
    except OSError as e:
        raise write_error(data_dir / "queue", e) from None
    write_json(_ticket(data_dir, sweep_id), {"sweep_id": sweep_id, "queued_unix_ns": time.time_ns()})


def waiting(data_dir: Path) -> list[str]:
    """Ids in the queue, first come first. Tickets whose sweep is gone, or may not be looked at, are left out."""
    tickets = []
    for path in (data_dir / "queue").glob("*.json"):
        if _ID.fullmatch(path.stem) and _is_there(data_dir / "sweeps" / path.stem / SWEEP):
            since = (read_json(path) or {}).get("queued_unix_ns")
            tickets.append((since if isinstance(since, int) else 0, path.stem))
    return [sweep_id for _, sweep_id in sorted(tickets)]


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def next_waiting(data_dir: Path) -> str | None:
    """The sweep to measure next, which stays in the queue until `remove`."""
    return next(iter(waiting(data_dir)), None)


def remove(data_dir: Path, sweep_id: str) -> None:
    """Takes a sweep out of the queue; nothing happens if it is not in it. Raises StorageError."""
    ticket = _ticket(data_dir, sweep_id)
    try:
        ticket.unlink(missing_ok=True)
    except OSError as e:
        raise write_error(ticket, e) from None


def stop_waiting(data_dir: Path, sweep_id: str) -> None:
    """A sweep that only waits is taken out of the queue and reads as stopped; one that has begun is left alone.

    Raises StorageError.
    """
    folder = sweep_folder(data_dir, sweep_id)
    remove(data_dir, sweep_id)
    if status_of(folder) == "queued":
        write_state(folder, {**(read_state(folder) or {}), "status": "stopped"})


def read_config(folder: Path) -> SweepConfig:
    """The config a sweep was asked for with. Raises ConfigError if its sweep.json is missing, damaged or too new."""
    path = folder / SWEEP
    sweep = read_json(path)
    if sweep is None or "config" not in sweep:
        raise ConfigError(f"{path}: missing or damaged; copy the sweep's folder again, or delete it")
    return parse_sweep(sweep["config"], str(path))


def find_sweep(data_dir: Path, id_or_prefix: str) -> str:
    """The id of the one sweep with that id, or whose id begins so. Raises ConfigError if there is none or several."""
    sweep_folder(data_dir, id_or_prefix)
    root = data_dir / "sweeps"
    ids = sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
    found = [i for i in ids if i.startswith(id_or_prefix)]
    if id_or_prefix in found or len(found) == 1:
        return id_or_prefix if id_or_prefix in found else found[0]
    if not found:
        raise ConfigError(f"no sweep in {data_dir} begins with {id_or_prefix!r}; `goodput list` shows them")
    more = ", …" if len(found) > 3 else ""
    raise ConfigError(
        f"{len(found)} sweeps begin with {id_or_prefix!r} ({', '.join(found[:3])}{more}); give more of it"
    )


def delete_sweep(data_dir: Path, sweep_id: str) -> None:
    """Deletes a sweep's folder for good, and its place in the queue; ends an engine that a killed runner left.

    Raises BusyError while it is being measured, ConfigError if there is no such sweep, StorageError.
    """
    folder = sweep_folder(data_dir, sweep_id)
    if not folder.is_dir():
        raise ConfigError(f"no sweep {sweep_id!r} in {data_dir}; `goodput list` shows them")
    if status_of(folder) in LIVE:
        raise BusyError(f"sweep {sweep_id} is being measured; stop it first, then delete it")
    remove(data_dir, sweep_id)
    end_orphan(folder)  # the note of it goes with the folder
    doomed = folder.with_name(f".deleted-{sweep_id}")  # out of sight in one step, however long the rest takes
    try:
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        if doomed.is_symlink():
            doomed.unlink()
        else:
            shutil.rmtree(doomed)
    except OSError as e:
        raise write_error(folder, e) from None


@contextlib.contextmanager
def hold_lock(data_dir: Path) -> Iterator[None]:
    """Makes us the one runner of the data folder inside the block. Raises BusyError that says who is it already."""
    about = {
        "pid": os.getpid(),
        "pid_space": pid_space(),
        "since_unix_ns": time.time_ns(),
        "command": _command(sys.argv),
    }
    with locked(data_dir, about) as holder:
        if holder is not None:
            raise BusyError(
                f"{data_dir}: another runner is at work here ({_holder_text(holder)}); wait until it ends or stop it, "
                "or use another folder with --data"
            )
        yield


def _command(argv: list[str]) -> str:
    """Program and first word only: the rest may hold addresses and names nobody else needs to see."""
    program = Path(argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return " ".join([name, *[a for a in argv[1:2] if re.fullmatch(r"[a-z-]+", a)]])


def _holder_text(holder: dict[str, object]) -> str:
    pid, since, command = holder.get("pid"), holder.get("since_unix_ns"), holder.get("command")
    if not isinstance(pid, int) or not isinstance(since, int):
        return "it has just started"
    clock = datetime.fromtimestamp(since / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    elsewhere = "" if holder.get("pid_space") == pid_space() else " of another container or machine"
    return f"`{command}`, process {pid}{elsewhere}, since {clock}"


def _ticket(data_dir: Path, sweep_id: str) -> Path:
    return data_dir / "queue" / (sweep_folder(data_dir, sweep_id).name + ".json")
