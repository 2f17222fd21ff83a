"""Builds SweepTables from records, the way storage hands them out, without a database."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from runner.config import SweepConfig
from storage.columns import parse_objects, to_arrow, to_frame
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord
from storage.tables import SweepTables

MS = 1_000_000
SECOND = 1_000_000_000

CHAT = {
    "name": "chat",
    "weight": 1.0,
    "prompt_tokens": 32,
    "output_tokens": 16,
    "slo": {"ttft_ms": 1000, "gap_ms": 150},
}


def make_config(**changes: object) -> SweepConfig:
    """A small valid sweep on the built-in engine: one class `chat` with targets 1 s / 150 ms; keys can be replaced."""
    raw: dict[str, Any] = {
        "name": "test",
        "backend": {"kind": "simulated"},
        "grid": {"max_num_seqs": [4, 8], "request_rate": [1.0]},
        "run": {"duration_s": 100, "warmup_s": 0},
        "classes": [CHAT],
    }
    return SweepConfig.model_validate({**raw, **changes})


def make_cell(cell: int = 0, **changes: object) -> CellRecord:
    """A finished cell with a window of 0–100 s, setting max_num_seqs = 4 at 1 request/s."""
    fields: dict[str, Any] = {
        "cell": cell,
        "setting": {"max_num_seqs": 4},
        "load": {"request_rate": 1.0},
        "repeat": 0,
        "status": "ok",
        "started_unix_ns": 1_700_000_000 * SECOND,
        "window_start_ns": 0,
        "window_end_ns": 100 * SECOND,
        "end_ns": 100 * SECOND,
        **changes,
    }
    for key in ("setting", "load"):
        if not isinstance(fields[key], str):
            fields[key] = json.dumps(fields[key])
    return CellRecord(**fields)


def make_request(
    request: int = 0,
    *,
    at_ms: float = 0.0,
    ttft_ms: float | None = 100.0,
    gaps_ms: Sequence[float] = (),
    cell: int = 0,
    class_name: str = "chat",
    **changes: object,
) -> RequestRecord:
    """One request from what a reader cares about: arrival, first token (None: none came) and the gaps after it.

    Sent when scheduled, ends with its last token, one token a chunk, all stamps by the kernel.
    """
    scheduled = round(at_ms * MS)
    first = None if ttft_ms is None else scheduled + round(ttft_ms * MS)
    deltas = tuple(round(g * 1000) for g in gaps_ms)
    events = 0 if first is None else 1 + len(deltas)
    fields: dict[str, Any] = {
        "cell": cell,
        "request": request,
        "class_name": class_name,
        "priority": 0,
        "prompt_tokens_asked": 32,
        "output_tokens_asked": events,
        "scheduled_ns": scheduled,
        "sent_ns": scheduled,
        "first_byte_ns": first,
        "first_chunk_ns": first,
        "first_answer_ns": first,
        "end_ns": scheduled if first is None else first + sum(deltas) * 1000,
        "chunk_deltas_us": deltas,
        "token_events": events,
        "output_tokens": events,
        "output_tokens_source": "usage",
        "prompt_tokens": 32,
        "saw_terminator": True,
        "http_status": 200,
        "clock": "kernel",
        **changes,
    }
    return RequestRecord(**fields)


def make_tables(
    requests: Iterable[RequestRecord] = (),
    engine: Iterable[EngineSample] = (),
    client: Iterable[ClientSample] = (),
    *,
    cells: Iterable[CellRecord] | None = None,
    config: SweepConfig | None = None,
    meta: Mapping[str, Any] | None = None,
) -> SweepTables:
    """The tables as storage's read_sweep gives them. Without `cells`, one finished cell 0 (see make_cell)."""
    settings = make_config() if config is None else config
    cell_frame = _frame(CellRecord, [make_cell()] if cells is None else cells)
    cell_frame = cell_frame.assign(**{key: parse_objects(cell_frame[key]) for key in ("setting", "load")})
    return SweepTables(
        meta={
            "sweep_id": "test",
            "name": settings.name,
            "schema_version": 1,
            "tool_version": "0.1.0",
            "created_unix_ns": 1_700_000_000 * SECOND,
            "simulated": False,
            "config": settings.model_dump(mode="json"),
            "backend": settings.backend.model_dump(mode="json"),
            "environment": {},
            **(meta or {}),
        },
        cells=cell_frame.sort_values("cell", ignore_index=True),
        requests=_frame(RequestRecord, requests).sort_values(["cell", "scheduled_ns", "request"], ignore_index=True),
        engine=_frame(EngineSample, engine).sort_values(["cell", "at_ns"], ignore_index=True),
        client=_frame(ClientSample, client).sort_values(["cell", "at_ns"], ignore_index=True),
    )


def _frame(record: type, rows: Iterable[Any]) -> pd.DataFrame:
    return to_frame(record, to_arrow(record, list(rows)))
