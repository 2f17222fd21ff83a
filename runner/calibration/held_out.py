"""A run that the fit has not seen, measured and predicted: how far virtual time is off on this backend."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runner.analysis.gaps import Floats, gap_table
from runner.analysis.percentiles import nearest_rank
from runner.analysis.prepare import Prepared
from runner.config import SweepConfig, parse_sweep
from runner.simulator.capacity import capacity_per_s
from runner.simulator.presets import EngineProfile
from runner.simulator.virtual_server import for_virtual_time

LOADS = (0.35, 0.7)  # of what the fitted machine could do
SHARES = {"p50": 0.5, "p95": 0.95}
LONGEST_PROMPT, SHORTEST_PROMPT = 800, 32
OUTPUT = (16, 64)
SEED = 4242


def held_out_sweep(
    backend: Mapping[str, Any], profile: EngineProfile, seats: int, context_tokens: int, seconds: float
) -> SweepConfig:
    """Chats of mixed lengths at two rates, as a sweep for the backend itself."""
    longest = max(SHORTEST_PROMPT + 1, min(LONGEST_PROMPT, context_tokens - OUTPUT[1] - 64))
    chat = {
        "name": "chat",
        "weight": 1.0,
        "prompt_tokens": {"uniform": [SHORTEST_PROMPT, longest]},
        "output_tokens": {"uniform": list(OUTPUT)},
        "slo": {"ttft_ms": 1000, "gap_ms": 150},
    }
    raw = {
        "name": f"Held-out run of the calibration of {_short(backend)}",
        "backend": dict(backend),
        "grid": {"request_rate": [1.0]},
        "run": {"duration_s": seconds, "warmup_s": min(5.0, seconds / 8), "seed": SEED, "drift_check": False},
        "classes": [chat],
    }
    capacity = capacity_per_s(profile, parse_sweep(raw, "held-out run").classes, seats)
    rates = [float(f"{share * capacity:.2g}") for share in LOADS]
    return parse_sweep({**raw, "grid": {"request_rate": rates}}, "held-out run")


def _short(backend: Mapping[str, Any]) -> str:
    """The model without the folder that llama.cpp tells, or the kind: a sweep's name goes with every shared page."""
    return str(backend.get("model") or "").replace("\\", "/").rpartition("/")[2][:100] or str(backend["kind"])


def stand_in(config: SweepConfig, scheduler: str, seats: int, budget: int) -> SweepConfig:
    """The same load for the built-in engine in the backend's place; its speed is given beside it."""
    backend = {
        "kind": "simulated", "scheduler": scheduler, "max_num_seqs": seats, "max_num_batched_tokens": budget,
    }  # fmt: skip
    told = config.model_dump(mode="json", exclude_unset=True)
    run = {k: v for k, v in told.get("run", {}).items() if k not in ("find_rate", "budget")}
    raw = {**told, "backend": backend, "control": {"mode": "none"}, "run": run}
    return for_virtual_time(parse_sweep(raw, "the same load in virtual time"))


def errors_of(measured: Prepared, predicted: Prepared) -> list[dict[str, Any]]:
    """Of each rate: ttft_ms and gap_ms at p50 and p95, measured and predicted, with the error as a share of the
    measured one. Cells without an answer are left out."""
    out = []
    for real, virtual in zip(measured.cells, predicted.cells, strict=True):
        numbers = [_numbers(p, f.rows) for p, f in ((measured, real), (predicted, virtual))]
        if all(len(values) for found in numbers for values in found.values()):
            rows = {key: _compared(numbers[0][key], numbers[1][key]) for key in numbers[0]}
            out.append({**real.load, "requests": len(numbers[0]["ttft_ms"]), **rows})
    return out


def _numbers(prepared: Prepared, rows: slice) -> dict[str, Floats]:
    mine = prepared.requests.iloc[rows]
    mine = mine[(mine["in_window"] & mine["latency_counts"]).to_numpy(dtype=bool)]
    ttft = mine["ttft_ms"].to_numpy(dtype=np.float64)
    return {"ttft_ms": ttft[~np.isnan(ttft)], "gap_ms": gap_table(mine).gap_ms}


def _compared(measured: Floats, predicted: Floats) -> dict[str, dict[str, float]]:
    out = {}
    for name, share in SHARES.items():
        real, virtual = nearest_rank(measured, share), nearest_rank(predicted, share)
        out[name] = {"measured": real, "predicted": virtual, "error_share": virtual / real - 1 if real > 0 else 0.0}
    return out


def worst_error(held_out: Sequence[Mapping[str, Any]]) -> float | None:
    """The largest error of them all, as a share; null without any."""
    errors = [abs(e["error_share"]) for row in held_out for key in ("ttft_ms", "gap_ms") for e in row[key].values()]
    return max(errors, default=None)
