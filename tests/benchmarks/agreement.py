"""Virtual time against the built-in engine over real HTTP, scheduler by scheduler: run it on a quiet machine.

    python -m tests.benchmarks.agreement [seconds] [scheduler …]

Same sweep, same arrivals. Wanted: within 5 % or 3 ms at p50 and p95.
"""

import sys
import tempfile
from pathlib import Path

from tests.support.agreement import compare, sweep_raw

RATE = 5.0  # requests/s; some 8 would be too many


def main(duration_s: float, schedulers: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pairs = compare(sweep_raw(schedulers, RATE, duration_s), Path(folder))
    for p in pairs:
        verdict = "ok" if p.within(0.05, 3.0) else "APART"
        print(
            f"{p.setting:10} {p.what:9} real {p.measured_ms:8.2f} ms   virtual {p.virtual_ms:8.2f} ms   "
            f"apart {p.apart_ms:6.2f} ms ({p.apart_ms / max(p.virtual_ms, 1e-9):5.1%})  {verdict}"
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 60.0, sys.argv[2:] or ["vllm_v1", "vllm_v0", "sarathi"])
