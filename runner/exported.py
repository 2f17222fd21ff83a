"""A sweep's tables as plain JSON data and back: what the JSON export holds beside the result."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from runner.imports.model import MAX_REQUESTS, MAX_TOKENS, ImportFailed
from storage.columns import arrow_schema, parse_objects, to_frame
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord
from storage.tables import SweepTables

_RECORDS = {"cells": CellRecord, "requests": RequestRecord, "engine": EngineSample, "client": ClientSample}
_NOWHERE = "http://imported.invalid"  # an export does not tell addresses; nothing is ever sent to it


def tables_as_json(tables: SweepTables, clean: Callable[[Any], Any]) -> dict[str, dict[str, list[Any]]]:
    """{table: {column: values}}. `clean` takes what must not be shown out of texts and of objects."""
    return {name: _columns(getattr(tables, name), clean) for name in _RECORDS}


def _columns(frame: pd.DataFrame, clean: Callable[[Any], Any]) -> dict[str, list[Any]]:
    return {str(name): [_plain(v, clean) for v in frame[name].tolist()] for name in frame.columns}


def _plain(value: Any, clean: Callable[[Any], Any]) -> Any:  # noqa: ANN401  (a cell of a table)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return clean(value)
    if isinstance(value, str):
        return _clean_text(value, clean)
    return None if value is pd.NA or value != value else value


def _clean_text(text: str, clean: Callable[[Any], Any]) -> str:
    """Text that holds an object stays one."""
    if text.startswith("{"):
        try:
            return json.dumps(clean(json.loads(text)))
        except ValueError:
            pass
    return str(clean(text))


def tables_from_json(meta: Mapping[str, Any], config: Mapping[str, Any], tables: Mapping[str, Any]) -> SweepTables:
    """The reverse. `meta`: sweep_id, name, created_unix_ns, simulated, backend, environment. Raises ImportFailed."""
    try:
        requests = tables["requests"]
        chunks = sum(len(deltas) for deltas in requests["chunk_deltas_us"])
        if len(requests["cell"]) > MAX_REQUESTS or chunks > MAX_TOKENS:
            raise ImportFailed(f"more than {MAX_REQUESTS:,} requests or {MAX_TOKENS:,} tokens in one export")
        frames = {name: _frame(record, tables[name]) for name, record in _RECORDS.items()}
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException) as e:
        raise ImportFailed(f"the tables of this export are damaged ({type(e).__name__}); export it again") from None
    return SweepTables(
        {**meta, "config": _whole(config)}, frames["cells"], frames["requests"], frames["engine"], frames["client"]
    )


def _frame(record: type, columns: Mapping[str, Any]) -> pd.DataFrame:
    schema = arrow_schema(record)
    length = len(columns["cell"])
    objects = [name for name in ("setting", "load") if record is CellRecord]
    values = {
        name: [json.dumps(v) for v in columns[name]] if name in objects else columns.get(name, [None] * length)
        for name in schema.names
    }
    frame = to_frame(record, pa.table([pa.array(values[f.name], f.type) for f in schema], schema=schema))
    return frame.assign(**{name: parse_objects(frame[name]) for name in objects})


def _whole(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config without addresses and commands can't be run, but must be read: something stands in their place."""
    backend, control = dict(config.get("backend") or {}), dict(config.get("control") or {})
    if backend.get("kind") != "simulated":
        backend["url"] = _NOWHERE
    if control.get("mode") in ("process", "command"):
        control = {"mode": "manual"}
    return {**config, "backend": backend, "control": control}
