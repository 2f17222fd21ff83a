"""Puts tables made for a test into a data folder, as a sweep that the runner has finished."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd

from runner.analysis.result import build_result
from runner.brief import brief_of
from storage.json_files import write_json
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord, SweepMeta
from storage.side_files import SWEEP, append_line, write_state
from storage.sweep_store import SCHEMA_VERSION, SweepStore
from storage.tables import SweepTables


def finished_sweep(data_dir: Path, tables: SweepTables, sweep_id: str, *, status: str = "done") -> Path:
    """The folder of the sweep: database, sweep.json, state.json, and a line for each cell in cells.jsonl."""
    folder = data_dir / "sweeps" / sweep_id
    (data_dir / "queue").mkdir(parents=True, exist_ok=True)
    config, name = tables.meta["config"], tables.meta["name"]
    meta = SweepMeta(
        sweep_id=sweep_id,
        name=name,
        schema_version=SCHEMA_VERSION,
        tool_version="test",
        created_unix_ns=tables.meta["created_unix_ns"],
        simulated=False,
        config=json.dumps(config),
        backend=json.dumps(tables.meta["backend"]),
        environment=json.dumps(tables.meta["environment"]),
    )
    store = SweepStore.create(folder, meta)
    for cell in _records(CellRecord, tables.cells):
        store.put_cell(cell)
    store.append(
        _records(RequestRecord, tables.requests),
        _records(EngineSample, tables.engine),
        _records(ClientSample, tables.client),
    )
    store.close()
    result = build_result(tables)
    total = len(result["cells"])
    created = tables.meta["created_unix_ns"]
    write_json(
        folder / SWEEP,
        {"sweep_id": sweep_id, "name": name, "created_unix_ns": created, "source": "test", "config": config},
    )
    verdict = result["choice"]["reason"]
    state = {"status": status, "cells_total": total, "cells_done": total, "verdict": verdict}
    write_state(folder, {**state, "brief": brief_of(result)})
    for row in result["cells"]:
        append_line(folder, "cells.jsonl", row)
    return folder


def _records(kind: type[Any], frame: pd.DataFrame) -> list[Any]:
    names = [f.name for f in fields(kind)]
    return [kind(**{n: _plain(row[n]) for n in names}) for row in frame.to_dict("records")]


def _plain(value: Any) -> Any:  # noqa: ANN401  (a cell of a DataFrame)
    if isinstance(value, dict):
        return json.dumps(value)
    if hasattr(value, "__len__") and not isinstance(value, str):
        return tuple(int(v) for v in value)
    return None if pd.isna(value) else value.item() if hasattr(value, "item") else value
