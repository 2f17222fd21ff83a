"""Memory before a server's start and after its end: what it took must be given back before the next one starts."""

import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

_NEAR_BYTES = 256 * 1024**2  # other programs come and go
_NEAR_SHARE = 0.05  # of all RAM
_NEAR_GPU_MIB = 512.0
_WAIT_S = 15.0
_DRIVER_S = 5.0  # how long nvidia-smi may take
_LOOK_S = 0.25
_QUERY = ("--query-gpu=memory.used", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class Memory:
    """Free RAM in bytes, and what each GPU has in use in MiB (empty where nvidia-smi is not there)."""

    free_bytes: int
    gpu_used_mib: tuple[float, ...] = ()


def look() -> Memory:
    """Blocks for up to some seconds where there is a GPU: use a thread."""
    return Memory(psutil.virtual_memory().available, _gpu_used())


def _gpu_used() -> tuple[float, ...]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        done = subprocess.run(
            [program, *_QUERY], capture_output=True, text=True, timeout=_DRIVER_S, check=True, stdin=subprocess.DEVNULL
        )
        return tuple(float(line) for line in done.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):  # a driver that hangs, or [N/A]
        return ()


def kept_back(before: Memory, now: Memory, taken_bytes: int) -> str | None:
    """Words for what is missing of the memory that was free before; null when it is near.

    taken_bytes: what the server had in RAM when it was ended. A larger loss is another program's.
    """
    near = max(_NEAR_BYTES, _NEAR_SHARE * psutil.virtual_memory().total)
    missing = min(before.free_bytes - now.free_bytes, taken_bytes)
    if missing > near:
        return f"{missing / 1e9:.1f} GB of RAM"
    if len(before.gpu_used_mib) != len(now.gpu_used_mib):
        return None
    for gpu, (was, used) in enumerate(zip(before.gpu_used_mib, now.gpu_used_mib, strict=True)):
        if used - was > _NEAR_GPU_MIB:
            return f"{(used - was) / 1024:.1f} GiB of GPU {gpu}"
    return None


def wait_until_given_back(
    before: Memory, taken_bytes: int, limit_s: float = _WAIT_S, look_now: Callable[[], Memory] = look
) -> str | None:
    """Waits until the memory of the ended server is free again; one sentence when it is not by the limit.

    Drivers free a GPU's memory some time after the process has gone. Blocks: use a thread.
    """
    deadline = time.monotonic() + limit_s
    while (what := kept_back(before, look_now(), taken_bytes)) is not None:
        if time.monotonic() >= deadline:
            return f"{limit_s:g} s after the server before this one ended, {what} was still not given back"
        time.sleep(_LOOK_S)
    return None
