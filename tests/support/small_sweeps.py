"""Sweeps that take a few seconds: the built-in engine made fast, one class of short requests."""

from pathlib import Path
from typing import Any

from runner.config import SweepConfig, parse_sweep

# 2 ms an iteration, so that a request of 8 tokens takes about 20 ms
QUICK_COST = {"a": 2.0, "b": 0.01}


def quick_raw(**changes: object) -> dict[str, Any]:
    """A sweep of two settings on the built-in engine, 1.2 s a cell, as plain data."""
    return {
        "name": "quick",
        "backend": {"kind": "simulated", "cost": QUICK_COST, "kv_tokens": 4096},
        "grid": {"max_num_seqs": [2, 8], "request_rate": [30.0]},
        "run": {"duration_s": 1.0, "warmup_s": 0.2, "drain_s": 2.0},
        "classes": [
            {
                "name": "chat",
                "weight": 1,
                "prompt_tokens": 16,
                "output_tokens": 8,
                "slo": {"ttft_ms": 1000, "gap_ms": 500},
            }
        ],
        **changes,
    }


def quick_config(**changes: object) -> SweepConfig:
    return parse_sweep(quick_raw(**changes), "test")


def write_toml(path: Path, raw: dict[str, Any]) -> Path:
    """Only what sweep files need: tables of scalars, lists and inline tables."""
    lines = [f"name = {_value(raw['name'])}"]
    for table in ("backend", "control", "grid", "run"):
        if table in raw:
            lines += [f"[{table}]", *(f"{k} = {_value(v)}" for k, v in raw[table].items())]
    for c in raw["classes"]:
        lines += ["[[classes]]", *(f"{k} = {_value(v)}" for k, v in c.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else '"' + str(value).replace('"', '\\"') + '"'
