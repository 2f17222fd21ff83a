"""Hooks as a user writes them, shell scripts in a folder, for a server that lives on in a session of its own."""

import contextlib
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import psutil

from runner.config import SweepConfig
from tests.engines_support.sweeps import SCRIPTED_SERVER, sweep

SCRIPTED = shlex.join([sys.executable, str(SCRIPTED_SERVER)]) + " --port $GOODPUT_PORT"


def script(folder: Path, name: str, text: str) -> list[str]:
    """A shell script in the folder, ready to be a hook."""
    path = folder / name
    path.write_text(f"#!/bin/sh\ncd {shlex.quote(str(folder))}\n{text}\n")
    path.chmod(0o755)
    return [str(path)]


def daemon_hooks(folder: Path, server: str = SCRIPTED) -> dict[str, Any]:
    """start.sh leaves `server` running in a session of its own, stop.sh ends it. Both note in `told` what they are
    told."""
    note = 'echo "$GOODPUT_HOOK $GOODPUT_MAX_NUM_SEQS" >> told'
    start = f"{note}\nsetsid {server} </dev/null >server.log 2>&1 &\necho $! > pid"
    return {
        "mode": "command",
        "command": script(folder, "start.sh", start),
        "stop_command": script(folder, "stop.sh", f"{note}\n[ -f pid ] && kill $(cat pid)\nrm -f pid\ntrue"),
    }


def hooked_sweep(port: int, seqs: list[int], **control: Any) -> SweepConfig:  # noqa: ANN401
    backend = {"kind": "openai", "url": f"http://127.0.0.1:{port}"}
    return sweep(backend, {"max_num_seqs": seqs}, **{"mode": "command", **control})


BROWSERS = ("chromium", "chrome", "firefox-esr", "firefox")


def processes_with(text: str) -> list[psutil.Process]:
    """Living processes whose command line contains the text, such as the test's own folder or port. Not the browsers of
    tests beside it, whose long command lines hold many numbers, nor a longer number that holds this one."""
    whole = re.compile(rf"(?<!\d){re.escape(text)}(?!\d)")
    found = []
    for p in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(map(whole.search, p.cmdline())) and p.status() != psutil.STATUS_ZOMBIE and p.name() not in BROWSERS:
                found.append(p)
    return found
