"""Tables as files for other programs: Parquet and CSV. Text was made safe by the caller."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import StorageError
from storage.plain_errors import write_error

Columns = Mapping[str, Sequence[Any]]


def write_parquet(path: Path, columns: Columns) -> None:
    """One table; the type of a column is that of its values, text where they differ. Raises StorageError."""
    arrays = {name: _array(list(values)) for name, values in columns.items()}
    try:
        pq.write_table(pa.table(arrays), path, compression="zstd")
    except OSError as e:
        raise write_error(path, e) from None
    except pa.ArrowException as e:
        raise StorageError(f"{path}: a value does not fit a Parquet file ({e})") from None


def _array(values: list[Any]) -> pa.Array:
    try:
        found = pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeEncodeError):
        found = pa.array([None if v is None else str(v).encode("utf-8", "replace").decode() for v in values])
    return found.cast(pa.string()) if pa.types.is_null(found.type) else found


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One table (RFC 4180), null empty. Raises StorageError."""
    try:
        with path.open("w", encoding="utf-8", errors="replace", newline="") as f:
            writer = csv.writer(f)
            writer.writerow(names)
            writer.writerows(rows)
    except OSError as e:
        raise write_error(path, e) from None


def write_text(path: Path, text: str) -> None:
    """Raises StorageError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise write_error(path, e) from None
