"""Named questions to a sweep's database, read-only. SQL selects, Python computes."""

import contextlib
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa

from storage.columns import TABLES, arrow_schema, meta_dict, missing_columns, parse_objects, to_frame
from storage.errors import StorageError
from storage.plain_errors import is_there, read_error
from storage.sweep_store import DATABASE, SAFE, check_version, column_names
from storage.tables import SweepTables

_READER = {**SAFE, "threads": "2", "memory_limit": "1GB"}
_ORDER = {
    "meta": "sweep_id",
    "cell": "cell",
    "request": "cell, scheduled_ns, request",
    "engine_sample": "cell, at_ns",
    "client_sample": "cell, at_ns",
}


def read_sweep(folder: Path) -> SweepTables:
    """All rows of the sweep in `folder`, and its file let go again before returning.

    Raises StorageError: still being written, damaged, half copied, or from a later version.
    """
    path = folder / DATABASE
    if not is_there(path):
        raise StorageError(f"{path}: no such file, nothing was measured yet or the folder is only half copied")
    try:
        with contextlib.closing(duckdb.connect(str(path), read_only=True, config=_READER)) as db:
            check_version(path, db)
            frames = {table: _frame(db, table) for table in TABLES}
    except (duckdb.Error, pa.ArrowException) as e:
        raise read_error(path, e) from None
    try:
        cells = frames["cell"].assign(**{c: parse_objects(frames["cell"][c]) for c in ("setting", "load")})
        meta = meta_dict(frames["meta"].iloc[0])
    except ValueError as e:
        raise read_error(path, e) from None
    return SweepTables(meta, cells, frames["request"], frames["engine_sample"], frames["client_sample"])


def _frame(db: duckdb.DuckDBPyConnection, table: str) -> pd.DataFrame:
    """The table as a frame; columns that a sweep of an older version does not have are null."""
    record = TABLES[table]
    absent = missing_columns(record, column_names(db, table))
    columns = ", ".join(f"CAST(NULL AS {absent[n]}) AS {n}" if n in absent else n for n in arrow_schema(record).names)
    arrow = db.execute(f"SELECT {columns} FROM {table} ORDER BY {_ORDER[table]}").to_arrow_table()
    return to_frame(record, arrow)
