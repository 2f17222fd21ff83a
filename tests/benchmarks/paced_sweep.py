"""What the sweep command reports against what its server did: run it on a quiet machine.

    python -m tests.benchmarks.paced_sweep [--streams 256] [--rate 20] [--tokens 100] [--seconds 20]

`goodput run` in a process of its own against a paced server in another; the server logs when the kernel received each
request and the moment right before each token was sent. TTFT p50 and p99 and gap p99 of the result should be within
1 ms of that log; ends with code 1 when they are not.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from storage.queries import read_sweep
from tests.support.paced_sse import paced_server
from tests.support.paced_sweeps import nearest_rank, paced_config, truth_in_window
from tests.support.small_sweeps import write_toml

WITHIN_MS = 1.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--rate", type=float, default=20.0, help="tokens/s of each stream")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, paced_server(Path(name), rate=args.rate) as server:
        folder = Path(name)
        config = paced_config(
            server.url,
            duration_s=args.seconds,
            tokens=args.tokens,
            grid={"max_concurrency": [args.streams]},
            warmup_s=args.tokens / args.rate,
            drain_s=2 * args.tokens / args.rate + 5,
        )
        raw = config.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        sweep = write_toml(folder / "sweep.toml", raw)
        command = [sys.executable, "-m", "app.cli", "run", str(sweep), "--data", str(folder / "data"), "--json"]
        result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        tables = read_sweep(folder / "data" / "sweeps" / result["sweep_id"])
    (cell,) = result["cells"]
    ttft, gaps = truth_in_window(server.log, tables.cells.iloc[0])
    print(
        f"{args.streams} streams x {args.rate:g} tokens/s: {cell['completed']} of {cell['scheduled']} requests, "
        f"{len(ttft)} by the server; kernel stamps {cell['kernel_stamp_share']:.2%}, flags {cell['flags']}"
    )
    worst = 0.0
    for metric, share, truth in (("ttft_ms", "p50", ttft), ("ttft_ms", "p99", ttft), ("gap_ms", "p99", gaps)):
        told, true = cell[metric][share], nearest_rank(truth, int(share[1:]) / 100)
        if told is None:
            print(f"  {metric} {share}: too few requests, measure longer")
            return 1
        worst = max(worst, abs(told - true))
        print(f"  {metric} {share}: reported {told:.3f}, true {true:.3f}, difference {told - true:+.3f}")
    return 0 if worst <= WITHIN_MS else 1


if __name__ == "__main__":
    sys.exit(main())
