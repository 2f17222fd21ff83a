"""The same sweep behind the built-in engine over real HTTP and in virtual time: how far apart are they?"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runner.analysis.gaps import gap_table
from runner.analysis.prepare import prepare
from runner.config import parse_sweep
from runner.queue import enqueue, sweep_folder
from runner.simulator.virtual_server import for_virtual_time
from runner.sweep import run_sweep
from storage.data_folder import open_data_folder
from storage.queries import read_sweep

SHARES = (50, 95)


@dataclass(frozen=True)
class Pair:
    """One percentile of one setting, ms."""

    setting: str
    what: str  # "ttft p50", "gap p95", …
    measured_ms: float
    virtual_ms: float
    # how late the machine's timers were, the worst in a second: in the middle second, for p95 in the worst one
    late_ms: float = 0.0

    @property
    def apart_ms(self) -> float:
        return abs(self.measured_ms - self.virtual_ms)

    def within(self, share: float, ms: float, late_ms: float = 0.0) -> bool:
        """At most `share` of the virtual value apart, or `ms`; measured later than that by `late_ms` at most."""
        apart_ms = self.measured_ms - self.virtual_ms
        allowed_ms = max(share * self.virtual_ms, ms)
        return -allowed_ms <= apart_ms <= allowed_ms + late_ms


def sweep_raw(schedulers: list[str], rate: float, duration_s: float) -> dict[str, Any]:
    """A chat with some 20 ms a token and prompts of one or two iterations, 20 to 200 ms."""
    return {
        "name": "agreement",
        "backend": {
            "kind": "simulated",
            "cost": {"a": 20.0, "b": 0.4, "c": 0.2, "d": 1e-4},
            "kv_tokens": 32_768,
        },
        "grid": {
            "scheduler": schedulers,
            "max_num_seqs": [8],
            "max_num_batched_tokens": [256],
            "request_rate": [rate],
        },
        "run": {"duration_s": duration_s, "warmup_s": 0.5, "drain_s": 4},
        "classes": [
            {
                "name": "chat",
                "weight": 1,
                "prompt_tokens": {"uniform": [32, 400]},
                "output_tokens": {"uniform": [4, 16]},
                "slo": {"ttft_ms": 1000, "gap_ms": 150},
            }
        ],
    }


def compare(raw: dict[str, Any], folder: Path) -> list[Pair]:
    """Runs the sweep twice, once waiting and once calculating, on the same arrivals."""
    return compare_side_by_side([raw], folder)


def compare_side_by_side(raws: list[dict[str, Any]], folder: Path) -> list[Pair]:
    """`compare` of several sweeps that wait at the same time: for loads so light that none of them notices. Nothing is
    calculated until all have ended."""
    measured, virtual = (asyncio.run(_run_all(raws, folder / str(kind), kind)) for kind in (False, True))
    pairs = []
    for folder_of_real, real, calculated in zip(measured, map(_numbers, measured), map(_numbers, virtual), strict=True):
        assert real.keys() == calculated.keys()
        lags = read_sweep(folder_of_real).client["loop_lag_ms"]
        late_ms = {50: float(lags.median()), 95: float(lags.max())}
        pairs += [Pair(*key, ms, calculated[key], late_ms[int(key[1][-2:])]) for key, ms in real.items()]
    return pairs


async def _run_all(raws: list[dict[str, Any]], folder: Path, simulated: bool) -> list[Path]:
    return await asyncio.gather(*(_run(raw, folder / str(i), simulated) for i, raw in enumerate(raws)))


async def _run(raw: dict[str, Any], folder: Path, simulated: bool) -> Path:
    data = open_data_folder(folder)
    sweep_id = enqueue(data, for_virtual_time(parse_sweep(raw, "test")), "test", simulated=simulated)
    assert await run_sweep(data, sweep_id, stop=asyncio.Event()) == "done"
    return sweep_folder(data, sweep_id)


def _numbers(folder: Path) -> dict[tuple[str, str], float]:
    prepared = prepare(read_sweep(folder))
    found = {}
    for cell in prepared.cells:
        rows = prepared.requests.iloc[cell.rows]
        rows = rows[rows["in_window"].to_numpy(dtype=bool) & rows["completed"].to_numpy(dtype=bool)]
        values = {"ttft": rows["ttft_ms"].to_numpy(), "gap": gap_table(rows.reset_index(drop=True)).gap_ms}
        for what, ms in values.items():
            for share in SHARES:
                found[str(cell.setting["scheduler"]), f"{what} p{share}"] = float(np.percentile(ms, share))
    return found
