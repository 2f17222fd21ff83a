"""Can this processor run our libraries at all? Looked at before any of them is loaded: a missing instruction would end
the process without a word, and a container would start again for ever."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LIBRARIES = ("numpy", "pandas", "pyarrow", "duckdb", "pydantic_core", "uvloop", "httptools")
# flag names of /proc/cpuinfo by `uname -m`. What has a word of `enough` runs everything there is; what lacks one of
# `needed` is likely to run none of it (numpy and pyarrow: x86-64-v2); between the two only a try can tell
ENOUGH = {"x86_64": "avx2", "aarch64": "atomics"}
NEEDED = {"x86_64": ("ssse3", "sse4_1", "sse4_2", "popcnt"), "aarch64": ("asimd",)}
MORE = {"x86_64": ("avx", "avx2"), "aarch64": ("atomics",)}
TRY_S = 120.0
_TRY = "import sys\nfor name in sys.argv[1:]:\n    print(name, flush=True)\n    __import__(name)"


def cpu_refusal(machine: str, cpuinfo: str, python: Sequence[str] = (sys.executable,), *, quick: bool) -> str | None:
    """None when our libraries run on this processor, else one sentence: which one does not, what is missing, the mend.

    `cpuinfo`: text of /proc/cpuinfo. `quick`: tries the imports only where a needed flag is missing, else also on old
    processors that may lack what a newer library wants. Takes no time on most processors, seconds where it tries.
    """
    flags = cpu_flags(cpuinfo)
    if machine not in NEEDED or not flags or ENOUGH[machine] in flags:
        return None
    missing = [flag for flag in NEEDED[machine] if flag not in flags]
    if quick and not missing:
        return None
    library = dying_import(python)
    if library is None:
        return None
    lacks = " and ".join(missing or [flag for flag in MORE[machine] if flag not in flags])
    return (
        f"this processor cannot run {library}, which Goodput Lab needs: it lacks {lacks}; in a virtual machine choose "
        "a processor type that has it (Proxmox: CPU type host), else run Goodput Lab on another machine of your network"
    )


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """What the first processor can do; empty where it is not told."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def dying_import(python: Sequence[str], names: Sequence[str] = LIBRARIES) -> str | None:
    """The first library whose import is an illegal instruction, tried in a process of its own; None if all are well."""
    try:
        done = subprocess.run([*python, "-c", _TRY, *names], capture_output=True, text=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    tried = done.stdout.split()
    return tried[-1] if done.returncode in (-signal.SIGILL, 128 + signal.SIGILL) and tried else None


def read_cpuinfo() -> str:
    """Text of /proc/cpuinfo; empty on other systems."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
