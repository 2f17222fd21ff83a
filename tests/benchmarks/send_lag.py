"""How late requests leave in an open loop: run it on a quiet machine.

    python -m tests.benchmarks.send_lag [requests_per_s] [seconds]

A real sweep against a paced server in a process of its own; answers of two tokens, so that connections, starts and
ends are the work. Prints p50 and p99 of the send lag, and of what had to connect first.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from runner.analysis.result import build_result
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.paced_sse import paced_server
from tests.support.paced_sweeps import paced_config


def measure(rate: float, seconds: float, connections: str) -> None:
    with tempfile.TemporaryDirectory() as folder, paced_server(Path(folder), rate=50, ttft_ms=40) as server:
        data = open_data_folder(Path(folder) / "data")
        grid = {"request_rate": [rate]}
        config = paced_config(
            server.url, duration_s=seconds, tokens=2, grid=grid, warmup_s=2, connections=connections, seed=7
        )
        sweep_id = enqueue(data, config, "benchmark")
        run_one(data, sweep_id, lambda _: None)
        tables = read_sweep(sweep_folder(data, sweep_id))
    (cell,) = build_result(tables)["cells"]
    requests = tables.requests
    inside = requests[requests["scheduled_ns"] >= tables.cells.iloc[0]["window_start_ns"]]
    lag_ms = (inside["sent_ns"] - inside["scheduled_ns"]).to_numpy(dtype=np.float64) / 1e6
    p50, p99, most = np.percentile(lag_ms, [50, 99, 100])
    print(
        f"{rate:g} requests/s, {connections}: send lag p50 {p50:.3f} ms, p99 {p99:.3f} ms, most {most:.2f} ms "
        f"({len(lag_ms)} requests, {(~inside['reused_connection']).mean():.1%} had to connect; "
        f"result says p99 {cell['send_lag_p99_ms']:.3f} ms, failed {cell['failed']}, "
        f"CPU {tables.client['cpu_share'].mean():.0%} of a core, flags {cell['flags']})"
    )


def main() -> None:
    rate = float(sys.argv[1]) if len(sys.argv) > 1 else 500.0
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    for connections in ("reuse", "preopened", "new"):
        measure(rate, seconds, connections)


if __name__ == "__main__":
    main()
