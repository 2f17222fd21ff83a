"""Records -> Arrow -> DataFrame and back, with column types taken from the records themselves."""

import json
import typing
from array import array
from collections.abc import Collection, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord, SweepMeta

TABLES: dict[str, type] = {
    "meta": SweepMeta,
    "cell": CellRecord,
    "request": RequestRecord,
    "engine_sample": EngineSample,
    "client_sample": ClientSample,
}
_ARROW_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    tuple[int, ...]: pa.list_(pa.uint32()),
}

_SQL_TYPES = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "VARCHAR", pa.bool_(): "BOOLEAN"}


@cache
def arrow_schema(record: type) -> pa.Schema:
    """The record's fields as Arrow fields; `X | None` is a nullable X."""
    hints = typing.get_type_hints(record)
    return pa.schema([_arrow_field(f.name, hints[f.name]) for f in fields(record)])


def _arrow_field(name: str, hint: Any) -> pa.Field:  # noqa: ANN401 (a type hint is of any type)
    options = typing.get_args(hint)
    nullable = type(None) in options
    plain = next(o for o in options if o is not type(None)) if nullable else hint
    return pa.field(name, _ARROW_TYPES[plain], nullable=nullable)


def missing_columns(record: type, present: Collection[str]) -> dict[str, str]:
    """Nullable columns that a table of an older version does not have yet, with their SQL type."""
    absent = [field for field in arrow_schema(record) if field.name not in present and field.nullable]
    return {field.name: _SQL_TYPES[field.type] for field in absent}


def to_arrow(record: type, rows: Sequence[Any]) -> pa.Table:
    """One Arrow table of the rows. Raises pa.ArrowInvalid or OverflowError on a value that does not fit its column."""
    schema = arrow_schema(record)
    columns = [_arrow_column([getattr(row, field.name) for row in rows], field.type) for field in schema]
    return pa.table(columns, schema=schema)


def _arrow_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind) and values and all(isinstance(v, array) for v in values):
        return _list_column(values)
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        # a server's JSON may hold half of a surrogate pair, which no UTF-8 text can
        return pa.array([v if v is None else v.encode("utf-8", "replace").decode() for v in values], kind)


def _list_column(values: "list[array[int]]") -> pa.Array:
    """Rows of 32-bit whole numbers that are arrays already: no number becomes an object."""
    rows = [np.asarray(v, dtype=np.uint32) for v in values]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(rows)))


def to_frame(record: type, table: pa.Table) -> pd.DataFrame:
    """The Arrow table with the columns of `record` as a DataFrame, typed as storage.tables says."""
    schema = arrow_schema(record)
    return pd.DataFrame({field.name: _series(table[field.name].combine_chunks(), field) for field in schema})


def _series(column: pa.Array, field: pa.Field) -> "pd.Series[Any]":
    if pa.types.is_list(field.type):
        return _list_series(column)
    if pa.types.is_string(field.type):
        return pd.Series(column.to_numpy(zero_copy_only=False), dtype=object)
    if pa.types.is_int64(field.type) and field.nullable:
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        return pd.Series(pd.arrays.IntegerArray(values.copy(), column.is_null().to_numpy(zero_copy_only=False)))
    return pd.Series(column.to_numpy(zero_copy_only=False))


def _list_series(column: pa.Array) -> "pd.Series[Any]":
    """One uint32 array a row, all of them slices of one block: a million values without a Python loop over them."""
    flat = column.values.to_numpy(zero_copy_only=False)
    edges = column.offsets.to_numpy()
    rows = np.empty(len(column), dtype=object)
    for i in range(len(column)):
        rows[i] = flat[edges[i] : edges[i + 1]]
    return pd.Series(rows, dtype=object)


def parse_objects(texts: "pd.Series[Any]") -> "pd.Series[Any]":
    """JSON objects as dicts, one a row."""
    return pd.Series([json.loads(t) for t in texts], index=texts.index, dtype=object)


def meta_dict(row: "pd.Series[Any]") -> dict[Any, Any]:
    """SweepMeta as a dict with config, backend and environment parsed."""
    return {k: json.loads(v) if k in ("config", "backend", "environment") else v for k, v in row.to_dict().items()}
