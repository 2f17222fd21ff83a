"""Lines of a sweep's side files as far as this version knows them: a page stands whatever a later one writes. PURE."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from runner.imports.own import is_cell

NUMBERS = (
    "cells_done", "cells_total", "eta_s", "sent", "completed", "failed", "rejected", "open_streams", "running",
    "waiting", "kv_cache_usage", "num_preemptions", "loop_lag_ms", "cpu_share", "ttft_p50_ms", "ttft_p95_ms",
    "gap_p50_ms", "gap_p95_ms",
)  # fmt: skip


def known_lines(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of live.jsonl those with a time; a number that is none reads as not told."""
    return [_known(line) for line in lines if number(line.get("at_s")) is not None]


def known_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of cells.jsonl those of a shape that can be shown."""
    return [dict(row) for row in rows if is_cell(row)]


def number(value: object) -> float | None:
    """A number as it is; null for all else."""
    told = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if told else None  # type: ignore[return-value]


def _known(line: Mapping[str, Any]) -> dict[str, Any]:
    errors = line.get("errors")
    cell = line.get("cell")
    return {
        "at_s": line["at_s"],
        "cell": cell if isinstance(cell, int) and not isinstance(cell, bool) else None,
        "phase": str(line.get("phase")),
        **{key: number(line.get(key)) for key in NUMBERS},
        **{key: line[key] if isinstance(line.get(key), dict) else None for key in ("setting", "load")},
        "errors": {str(k): n for k, n in errors.items() if number(n) is not None} if isinstance(errors, dict) else {},
    }
