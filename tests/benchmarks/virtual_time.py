"""How long `goodput simulate` takes: 24 settings, 600 s of load each, about 1,000 output tokens a second, on one core.

    python -m tests.benchmarks.virtual_time [scheduler …]

The command runs as a process of its own, as a person starts it: CPU seconds of all its threads and its largest
resident set, as the kernel counts them. The parts are calculated once more in this process, without the database's
writer and the command's start: what is left of the command's seconds.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from runner.analysis.prepare import prepare
from runner.analysis.result import score
from runner.plan import plan_cells
from runner.simulated_sweep import VirtualSweep
from runner.simulator.virtual_server import for_virtual_time
from runner.sweep_file import load_sweep
from storage.queries import read_sweep
from tests.support.small_sweeps import write_toml

CELL_S = 600


def raw(scheduler: str) -> dict[str, Any]:
    """The sweep as plain data."""
    return {
        "name": "benchmark",
        "backend": {"kind": "simulated", "preset": "rtx4090/llama-3.1-8b/q4_k_m", "scheduler": scheduler},
        "grid": {
            "max_num_seqs": [16, 24, 32, 48, 64, 128],
            "max_num_batched_tokens": [256, 512, 1024, 2048],
            "request_rate": [5.0],
        },
        "run": {"duration_s": CELL_S - 60, "warmup_s": 60},
        "classes": [
            {
                "name": "chat",
                "weight": 1,
                "prompt_tokens": {"p50": 300, "p90": 1200, "max": 4000},
                "output_tokens": {"p50": 160, "p90": 400, "max": 1000},
                "slo": {"ttft_ms": 1000, "gap_ms": 150},
            }
        ],
    }


def command(sweep: Path, data: Path) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and largest resident set in MiB of the whole command, on this process's core."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "simulate", str(sweep), "--data", str(data), "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024


def parts(sweep: Path, folder: Path) -> tuple[dict[str, float], int, int]:
    """CPU seconds of each part, the tokens of the sweep and its cells."""
    virtual = VirtualSweep(for_virtual_time(load_sweep(sweep)), None, {})
    marks = [time.process_time()]
    for plan in plan_cells(virtual.config):
        virtual.run(plan, lambda: True)
    marks.append(time.process_time())
    tables = read_sweep(folder)
    marks.append(time.process_time())
    prepared = prepare(tables)
    marks.append(time.process_time())
    score(prepared)
    marks.append(time.process_time())
    names = ("simulated", "read back", "analysed", "scored")
    took = {name: b - a for name, a, b in zip(names, marks, marks[1:], strict=False)}
    return took, int(tables.requests["token_events"].sum()), len(prepared.cells)


def main(scheduler: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the command inherits it
    with tempfile.TemporaryDirectory() as folder:
        sweep = write_toml(Path(folder) / "benchmark.toml", raw(scheduler))
        cpu_s, wall_s, memory = command(sweep, Path(folder) / "data")
        (kept,) = (Path(folder) / "data" / "sweeps").iterdir()
        took, tokens, cells = parts(sweep, kept)
    rest = cpu_s - sum(took.values())
    seconds = cells * CELL_S
    told = ", ".join(f"{name} {s:.1f} s" for name, s in took.items())
    print(
        f"{scheduler}: {cells} settings of {CELL_S} s, {tokens / 1e6:.1f} M tokens "
        f"({tokens / seconds:.0f} a second): the command took {cpu_s:.1f} s of CPU, {wall_s:.1f} s in all, and "
        f"{memory:.0f} MiB; of that {told}, started and stored {rest:.1f} s"
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or ["vllm_v1"]:
        main(name)
