"""How fast virtual time is: 24 settings, 600 s of load each, about 1,000 output tokens a second, on one core.

    python -m tests.benchmarks.virtual_time [scheduler]

Simulated: arrivals, engine and records. Analysed: each cell's row of the result. Neither includes the database.
"""

import os
import resource
import sys
import time
from typing import Any

from runner.analysis.result import cell_row
from runner.config import SweepConfig, parse_sweep
from runner.plan import plan_cells
from runner.simulated_sweep import VirtualSweep
from runner.simulator.virtual_server import for_virtual_time
from runner.sweep import sweep_meta
from storage.in_memory import tables_of


def config(scheduler: str) -> SweepConfig:
    raw: dict[str, Any] = {
        "name": "benchmark",
        "backend": {"kind": "simulated", "preset": "rtx4090/llama-3.1-8b/q4_k_m", "scheduler": scheduler},
        "grid": {
            "max_num_seqs": [16, 24, 32, 48, 64, 128],
            "max_num_batched_tokens": [256, 512, 1024, 2048],
            "request_rate": [5.0],
        },
        "run": {"duration_s": 540, "warmup_s": 60},
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
    return for_virtual_time(parse_sweep(raw, "benchmark"))


def main(scheduler: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sweep = VirtualSweep(config(scheduler), None, {})
    meta = sweep_meta("benchmark", sweep.config, {}, 0, simulated=True)
    simulated = analysed = 0.0
    tokens = cells = 0
    for plan in plan_cells(sweep.config):
        began = time.process_time()
        rows = sweep.run(plan, lambda: True)
        assert rows is not None
        ran = time.process_time()
        cell_row(tables_of(meta, [rows.record], rows.requests, rows.engine, []), plan.cell)
        analysed += time.process_time() - ran
        simulated += ran - began
        tokens += sum(r.token_events for r in rows.requests)
        cells += 1
    seconds = cells * 600
    print(
        f"{scheduler}: {cells} settings of 600 s, {tokens / 1e6:.1f} M tokens ({tokens / seconds:.0f} a second): "
        f"simulated in {simulated:.1f} s of CPU ({seconds / simulated:,.0f} times real time), "
        f"analysed in {analysed:.1f} s; "
        f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "vllm_v1")
