"""How many cores this process may use: those it may run on, and no more than its container's CPU quota allows."""

import math
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")  # inside a container: the container's own cgroup
V1_FOLDERS = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


def usable_cores() -> int:
    """Whole cores, at least 1. A quota is rounded down: a process that uses it up is stopped for tens of ms."""
    limit = cpu_limit_cores()
    cores = affinity_cores()
    return cores if limit is None else max(1, min(cores, math.floor(limit)))


def affinity_cores() -> int:
    """Logical cores this process may run on, whatever part of their time it gets."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def cpu_limit_cores(root: Path = ROOT) -> float | None:
    """The quota of the cgroup at `root` in cores, of version 2 or 1; None without one."""
    limit = cgroup_cpu_limit(_read(root / "cpu.max"))
    for folder in V1_FOLDERS:
        if limit is None:
            quota, period = (_read(root / folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
            limit = cgroup_cpu_limit(f"{quota.strip()} {period.strip()}")
    return limit


def cgroup_cpu_limit(cpu_max: str) -> float | None:
    """Cores from "quota period" in µs, as version 2 writes them in `cpu.max`. None for `max`, version 1's -1, nonsense.

    PURE.
    """
    quota, _, period = cpu_max.strip().partition(" ")
    known = quota.isdecimal() and period.isdecimal() and int(quota) and int(period)
    return round(int(quota) / int(period), 2) if known else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
