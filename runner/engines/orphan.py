"""engine.pid in a sweep's folder: finds the engine that a killed runner left behind."""

import json
from pathlib import Path

import psutil

from runner.engines.process import end_family, family

PID_FILE = "engine.pid"
_BOOT_TOLERANCE_S = 60.0  # the clock may have been set since


def write_pid_file(folder: Path, pid: int, created: float, port: int) -> None:
    facts = {"pid": pid, "pgid": pid, "create_time": created, "boot_time": psutil.boot_time(), "port": port}
    half = folder / f"{PID_FILE}.new"
    half.write_text(json.dumps(facts))
    half.replace(folder / PID_FILE)


def remove_pid_file(folder: Path) -> None:
    (folder / PID_FILE).unlink(missing_ok=True)


def end_orphan(folder: Path, stop_timeout_s: float = 10.0) -> bool:
    """Ends the engine that a killed runner left behind, by the sweep folder's engine.pid. True if one was found.

    A process is ended only if it was created when the file says (or lives on in that leader's group) and the machine
    has not been started anew since. Blocks: use a thread.
    """
    try:
        facts = json.loads((folder / PID_FILE).read_text())
        pid, since, boot = int(facts["pgid"]), float(facts["create_time"]), float(facts["boot_time"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    same_boot = abs(boot - psutil.boot_time()) < _BOOT_TOLERANCE_S
    found = same_boot and bool(family(pid, since))
    if found:
        end_family(pid, since, stop_timeout_s)
    remove_pid_file(folder)
    return found
