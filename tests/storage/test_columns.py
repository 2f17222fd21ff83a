"""schema.sql, the records and the DataFrames say the same."""

import re
from array import array
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import storage.sweep_store
from storage.columns import TABLES, arrow_schema, to_arrow, to_frame
from storage.records import ClientSample, EngineSample, RequestRecord

SCHEMA = Path(storage.sweep_store.__file__).with_name("schema.sql").read_text(encoding="utf-8")
SQL_TYPES = {
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "UINTEGER[]": pa.list_(pa.uint32()),
}


def sql_tables() -> dict[str, list[tuple[str, str, bool, str]]]:
    """Table -> [(column, type, NOT NULL, comment)] as written in schema.sql."""
    tables = {}
    for name, body in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\);", SCHEMA, re.DOTALL):
        rows = []
        for line in body.strip().splitlines():
            found = re.fullmatch(r"\s*(\w+) ([A-Z\[\]]+)( NOT NULL)?,?(?:\s+-- (.*))?", line)
            assert found, line
            rows.append((found[1], found[2], bool(found[3]), found[4] or ""))
        tables[name] = rows
    return tables


def test_every_record_has_its_table_and_every_table_its_record() -> None:
    """The tables of schema.sql are exactly the records."""
    assert set(sql_tables()) == set(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_the_fields_in_the_same_order_and_type(table: str) -> None:
    """Field name = column name, both ways; a column is NOT NULL exactly if its field cannot be None."""
    columns = sql_tables()[table]
    assert [c[0] for c in columns] == [f.name for f in fields(TABLES[table])]
    schema = arrow_schema(TABLES[table])
    assert [(SQL_TYPES[c[1]], not c[2]) for c in columns] == [(f.type, f.nullable) for f in schema]


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_commented_with_its_unit(table: str) -> None:
    """A column has a comment, and a column with a unit in its name names that unit in the comment."""
    for column, _, _, comment in sql_tables()[table]:
        assert len(comment) >= 10, column
        unit = re.search(r"_(ns|us|ms|s)(?:_total)?$", column)
        if unit:
            assert re.match(rf"{unit[1]}\b", comment), f"{column}: {comment}"


def test_full_and_empty_values_come_back_typed() -> None:
    """Null integers are Int64 NA, null floats NaN, null texts None, lists uint32 arrays, also the empty one."""
    rows = [
        RequestRecord(0, 0, "chat", 0, 5, 9, 0),
        RequestRecord(
            0,
            1,
            "räg ☃",
            -1,
            5,
            9,
            2**62,
            sent_ns=7,
            chunk_deltas_us=(0, 2**32 - 1),
            load_ms=1.5,
            error_detail="a\x00b",
        ),
    ]
    frame = to_frame(RequestRecord, to_arrow(RequestRecord, rows))
    assert list(frame.columns) == [f.name for f in fields(RequestRecord)]
    assert frame["scheduled_ns"].dtype == np.int64
    assert frame["scheduled_ns"].tolist() == [0, 2**62]
    assert frame["sent_ns"].dtype == pd.Int64Dtype()
    assert frame["sent_ns"][0] is pd.NA
    assert frame["sent_ns"][1] == 7
    assert frame["load_ms"].dtype == np.float64
    assert np.isnan(frame["load_ms"][0])
    assert frame["error_detail"].tolist() == [None, "a\x00b"]
    assert frame["class_name"].tolist() == ["chat", "räg ☃"]
    assert frame["saw_terminator"].dtype == np.bool_
    assert [d.dtype for d in frame["chunk_deltas_us"]] == [np.uint32, np.uint32]
    assert [d.tolist() for d in frame["chunk_deltas_us"]] == [[], [0, 2**32 - 1]]


def test_steps_may_come_as_arrays() -> None:
    """What virtual time has as 32-bit arrays is stored as the tuples of a measured request are."""
    steps: list[tuple[int, ...]] = [(), (0, 2**32 - 1), (7,)]
    tuples = [RequestRecord(0, i, "chat", 0, 5, 9, 0, chunk_deltas_us=own) for i, own in enumerate(steps)]
    arrays = [replace(r, chunk_deltas_us=cast(tuple[int, ...], array("I", r.chunk_deltas_us))) for r in tuples]
    assert to_arrow(RequestRecord, arrays).equals(to_arrow(RequestRecord, tuples))
    assert to_arrow(RequestRecord, arrays[:1]).equals(to_arrow(RequestRecord, tuples[:1]))


@pytest.mark.parametrize("record", [RequestRecord, EngineSample, ClientSample])
def test_no_rows_keep_the_columns_and_types(record: type) -> None:
    """An empty table has the same columns and types as a full one, so that analysis needs no special case."""
    frame = to_frame(record, to_arrow(record, []))
    assert len(frame) == 0
    assert list(frame.columns) == [f.name for f in fields(record)]
    assert {n for n, d in frame.dtypes.items() if d == "object"} <= TEXTS_AND_LISTS


TEXTS_AND_LISTS = {
    "class_name", "chunk_deltas_us", "output_tokens_source", "outcome", "error_kind", "error_detail", "finish_reason",
    "clock", "source", "iteration_tokens_buckets",
}  # fmt: skip


def test_half_a_surrogate_pair_from_a_server_does_not_lose_the_batch() -> None:
    """A text that no UTF-8 can hold is stored with a question mark in its place."""
    frame = to_frame(
        RequestRecord, to_arrow(RequestRecord, [RequestRecord(0, 0, "c", 0, 1, 1, 0, error_detail="\ud800!")])
    )
    assert frame["error_detail"].tolist() == ["?!"]
