"""Hardware and versions of a sweep: what a reader needs to judge the numbers, and nothing that names the machine."""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from runner.cores import affinity_cores, cpu_limit_cores
from runner.load.stamped_socket import SO_TIMESTAMPNS

GIB = 1 << 30
LIBRARIES = ("duckdb", "httptools", "httpx", "numpy", "pandas", "pyarrow", "uvloop")
BUSY_SHARE = 0.25  # of all cores, while nothing of ours runs yet
GPU_TIMEOUT_S = 5.0
NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
ROCM_SMI = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")


def describe_machine(look_s: float = 0.2, gpu_timeout_s: float = GPU_TIMEOUT_S) -> dict[str, object]:
    """Plain JSON values; null where the machine doesn't tell. Takes `look_s` to see whether something else is busy."""
    busy_share = psutil.cpu_percent(interval=look_s) / 100
    return {
        "cpu": cpu_model(),
        "cores": affinity_cores(),
        "cpu_limit_cores": cpu_limit_cores(),
        "memory_gib": round(usable_memory_bytes() / GIB, 1),
        "gpus": find_gpus(gpu_timeout_s),
        "os": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "container": in_container(),
        "python": platform.python_version(),
        "libraries": library_versions(),
        "tool_version": _version("goodput-lab"),
        "clock": "kernel" if kernel_stamps_available() else "user",
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip() or None,
        "clock_resolution_ns": round(time.get_clock_info("monotonic").resolution * 1e9),
        "load_average_1m": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "busy_share_at_start": round(busy_share, 2),
        "busy_at_start": busy_share > BUSY_SHARE,
    }


def machine_name(env: dict[str, object]) -> str:
    """One line, such as "2-core AMD EPYC, 24 GiB" or "16-core Intel Core i7-13700K, 64 GiB, 2 x RTX 3090"."""
    parts = [f"{env['cores']}-core {short_cpu(str(env['cpu'] or env['architecture']))}", f"{env['memory_gib']:.0f} GiB"]
    gpus = env["gpus"]
    names = [str(g["name"]) for g in gpus] if isinstance(gpus, list) else []
    for name in dict.fromkeys(names):
        parts.append(f"{names.count(name)} x {name}" if names.count(name) > 1 else name)
    return ", ".join(parts)


def short_cpu(model: str) -> str:
    """The name without trade marks, clock rate and number of cores."""
    text = re.sub(r"\((R|TM|tm)\)|\bCPU\b|@.*$|\b(\w+-Core )?Processor\b|\bw(ith|/) Radeon.*$|\d+th Gen ", " ", model)
    return " ".join(text.split())


def cpu_model() -> str | None:
    """Name of the processor as its maker gives it."""
    for line in _read("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware") and value.strip():
            return value.strip()
    if platform.system() == "Darwin":
        return _output(("sysctl", "-n", "machdep.cpu.brand_string"), 2.0).strip() or None
    return platform.processor() or None


def usable_memory_bytes() -> int:
    """Memory of the machine, or of the container if that is less."""
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    total = int(psutil.virtual_memory().total)
    return min(total, int(limit)) if limit.isdigit() else total


def in_container() -> bool:
    """Docker and Podman leave a mark file; others show in the cgroup of process 1."""
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return True
    return any(word in _read("/proc/1/cgroup") for word in ("docker", "kubepods", "containerd", "lxc"))


def kernel_stamps_available() -> bool:
    """Whether the kernel gives the receive time of a read (Linux: SO_TIMESTAMPNS)."""
    if platform.system() != "Linux":
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        try:
            s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return False
    return True


def find_gpus(timeout_s: float = GPU_TIMEOUT_S) -> list[dict[str, object]]:
    """Name, memory and driver of each GPU that the vendor's tool shows; empty without such a tool."""
    return parse_nvidia_smi(_output(NVIDIA_SMI, timeout_s)) + parse_rocm_smi(_output(ROCM_SMI, timeout_s))


def parse_nvidia_smi(text: str) -> list[dict[str, object]]:
    """Lines "name, MiB, driver"; memory is null where it isn't told (unified memory)."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return [
        {"name": name, "memory_gib": round(int(mib) / 1024, 1) if mib.isdigit() else None, "driver": driver}
        for name, mib, driver in (row for row in rows if len(row) == 3)
    ]


def parse_rocm_smi(text: str) -> list[dict[str, object]]:
    """The JSON object with one member per card; releases differ in upper and lower case of its keys."""
    try:
        cards = json.loads(text)
    except ValueError:
        return []
    found: list[dict[str, object]] = []
    for card in cards.values() if isinstance(cards, dict) else ():
        keys = {str(k).lower(): str(v) for k, v in card.items()} if isinstance(card, dict) else {}
        name = keys.get("card series") or keys.get("card model")
        size = keys.get("vram total memory (b)", "")
        if name:
            memory = round(int(size) / GIB, 1) if size.isdigit() else None
            found.append({"name": name, "memory_gib": memory, "driver": keys.get("driver version")})
    return found


def _output(command: Sequence[str], timeout_s: float) -> str:
    """What a tool prints; empty when it is absent, fails or takes too long."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def library_versions(names: Sequence[str] = LIBRARIES) -> dict[str, str | None]:
    """Versions by library; null where one is not installed."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
