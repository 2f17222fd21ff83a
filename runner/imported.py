"""Another tool's runs as tables of ours, so that the one definition of every metric is applied to them too."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from runner.config import MOST_S, SweepConfig
from runner.imports.model import CLASS, MAX_TOKENS, ImportFailed, Point, ToolFile, ToolRun
from storage.columns import parse_objects, to_arrow, to_frame
from storage.errors import StorageError
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord
from storage.tables import SweepTables

TTFT_MS, GAP_MS = 1000.0, 150.0  # targets where the tool had none
_POINT = [f.name for f in fields(Point)]
_NOWHERE = "http://imported.invalid"  # nothing is ever sent to it


def as_document(file: ToolFile) -> dict[str, Any]:
    """The file as plain JSON data; durations of gaps to 1 µs."""
    runs = [{**_shallow(run), "points": [_packed(p) for p in run.points]} for run in file.runs]
    return {**_shallow(file), "runs": runs}


def from_document(document: Mapping[str, Any]) -> ToolFile:
    """The reverse of `as_document`. Raises StorageError for damaged data."""
    try:
        runs = tuple(
            ToolRun(**{**run, "points": tuple(_unpacked(p) for p in run["points"])}) for run in document["runs"]
        )
        return ToolFile(**{**document, "runs": runs, "badges": tuple(document["badges"])})
    except (KeyError, TypeError, AttributeError) as e:
        raise StorageError(f"the import is damaged ({type(e).__name__}); delete it and import the file again") from None


def _shallow(thing: ToolFile | ToolRun) -> dict[str, Any]:
    """Its fields as they are; `asdict` would copy every gap."""
    return {f.name: getattr(thing, f.name) for f in fields(thing)}


def _packed(point: Point) -> list[Any]:
    """The values in the order of the fields."""
    gaps = None if point.gaps_ms is None else [round(g, 3) for g in point.gaps_ms]
    return [gaps if name == "gaps_ms" else getattr(point, name) for name in _POINT]


def _unpacked(values: Sequence[Any]) -> Point:
    point = Point(*values)
    return point if point.gaps_ms is None else replace(point, gaps_ms=tuple(point.gaps_ms))


def config_of(file: ToolFile) -> SweepConfig:
    """A config that only carries what scoring asks of one: a class and its targets. It plans no cell of the import."""
    told = {name: min(max(ms, 0.001), 1000 * MOST_S) for name, ms in file.targets.items()}
    slo = {"ttft_ms": TTFT_MS, "gap_ms": GAP_MS} | told
    rule = "mean_tpot" if "gap_ms" in told or file.rescoring == "mean_only" else "p99_gap"
    longest = max((run.duration_s or 0.0 for run in file.runs), default=0.0)
    return SweepConfig.model_validate(
        {
            "name": "import",
            "backend": {"kind": "openai", "url": _NOWHERE},
            "grid": {"max_concurrency": [1]},
            "run": {
                "duration_s": min(max(longest, 1.0), 1e6),
                "warmup_s": 0,
                "repeats": 1 + max((run.repeat for run in file.runs), default=0),
                "drift_check": False,
            },
            "classes": [
                {"name": CLASS, "weight": 1, "prompt_tokens": 1, "output_tokens": 1, "slo": {**slo, "rule": rule}}
            ],
        }
    )


def tables_of(file: ToolFile, meta: Mapping[str, Any]) -> SweepTables:
    """`meta`: sweep_id, name, created_unix_ns. A run is a cell, measured from its start to its end.

    Where a tool tells no single gaps its chunks are spread evenly over the time of the answer: right for TPOT and
    rates, and never to be shown as gaps. Raises ImportFailed for more chunks than are read.
    """
    chunks = sum(_chunks(p) for run in file.runs for p in run.points)
    if chunks > MAX_TOKENS:
        raise ImportFailed(
            f"{chunks:,} tokens in one import; at most {MAX_TOKENS:,} are read, import the runs in parts"
        )
    cells = [_cell(number, run) for number, run in enumerate(file.runs)]
    requests = [_request(n, i, p) for n, run in enumerate(file.runs) for i, p in enumerate(_in_order(run))]
    frame = to_frame(CellRecord, to_arrow(CellRecord, cells))
    return SweepTables(
        meta={
            "simulated": False,
            "backend": {"kind": file.kind, "model": file.model},
            "environment": {},
            "config": config_of(file).model_dump(mode="json"),
            **meta,
        },
        cells=frame.assign(**{key: parse_objects(frame[key]) for key in ("setting", "load")}),
        requests=to_frame(RequestRecord, to_arrow(RequestRecord, requests)),
        engine=to_frame(EngineSample, to_arrow(EngineSample, [])),
        client=to_frame(ClientSample, to_arrow(ClientSample, [])),
    )


def window_s(run: ToolRun) -> float | None:
    """Length of the run; null where neither the tool nor its requests' times tell."""
    last = max((p.sent_s + (p.end_ms or 0.0) / 1000 for p in run.points), default=0.0) if run.timed else 0.0
    return run.duration_s or last or None


def _in_order(run: ToolRun) -> Iterator[Point]:
    yield from sorted(run.points, key=lambda p: p.scheduled_s)


def _cell(number: int, run: ToolRun) -> CellRecord:
    last_due = max((p.scheduled_s for p in run.points), default=0.0)
    end_ns = max(round((window_s(run) or 1.0) * 1e9), round(last_due * 1e9) + 1)
    return CellRecord(
        cell=number,
        setting=json.dumps(dict(run.setting)),
        load=json.dumps(dict(run.load)),
        repeat=run.repeat,
        status="failed" if run.error is not None else "ok",
        error_kind=run.error,
        window_start_ns=None if run.error is not None else 0,
        window_end_ns=None if run.error is not None else end_ns,
        end_ns=None if run.error is not None else end_ns,
    )


def _chunks(point: Point) -> int:
    if point.gaps_ms is not None:
        return len(point.gaps_ms) + 1
    return max(point.output_tokens or 1, 1) if point.tpot_ms is not None else 1


def _deltas_us(point: Point) -> tuple[int, ...]:
    """Gaps in whole microseconds, rounded cumulatively so that their sum stays right."""
    gaps = [point.tpot_ms or 0.0] * (_chunks(point) - 1) if point.gaps_ms is None else point.gaps_ms
    edges = np.cumsum([0.0, *gaps]) * 1000.0
    return tuple(np.clip(np.diff(np.rint(edges)), 0, 2**32 - 1).astype(np.int64).tolist())


def _request(cell: int, number: int, point: Point) -> RequestRecord:
    sent = round(point.sent_s * 1e9)
    first = None if point.ttft_ms is None else sent + round(point.ttft_ms * 1e6)
    deltas = _deltas_us(point) if first is not None else ()
    last = None if first is None else first + sum(deltas) * 1000
    told = None if point.end_ms is None else sent + round(point.end_ms * 1e6)
    return RequestRecord(
        cell=cell,
        request=number,
        class_name=CLASS,
        priority=0,
        prompt_tokens_asked=0,
        output_tokens_asked=0,
        scheduled_ns=round(point.scheduled_s * 1e9),
        sent_ns=sent,
        first_chunk_ns=first,
        end_ns=max(filter(None, (last, told)), default=sent),
        chunk_deltas_us=deltas,
        token_events=0 if first is None else len(deltas) + 1,
        user_stamps=0 if first is None else len(deltas) + 1,
        output_tokens=point.output_tokens,
        output_tokens_source="usage" if point.output_tokens is not None else None,
        prompt_tokens=point.prompt_tokens,
        saw_terminator=True,
        outcome="cancelled" if point.cancelled else "error" if point.error else "ok",
        error_kind="cancelled" if point.cancelled else "server_error" if point.error else None,
        error_detail=point.error,
    )
