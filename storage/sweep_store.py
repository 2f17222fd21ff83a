"""The one read-write owner of a sweep's database: create, append, close, reopen to resume."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import duckdb
import pyarrow as pa

from storage.columns import TABLES, missing_columns, to_arrow
from storage.errors import StorageError
from storage.plain_errors import is_locked, open_error, read_error, write_error
from storage.records import CellRecord, ClientSample, EngineSample, RequestRecord, SweepMeta

# 2: more columns in engine_sample. 3: others_share in client_sample. Tables of an older version are read with nulls;
# `reopen` adds the columns.
SCHEMA_VERSION = 3
DATABASE = "sweep.duckdb"
FINISHED = ("ok", "failed", "skipped")
_SCHEMA = Path(__file__).with_name("schema.sql")
# no extension is ever fetched or loaded, no file but the database is touched, nothing is spilled to disk
SAFE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_external_access": "false",
    "temp_directory": "",
}
_WRITER = {**SAFE, "threads": "1", "memory_limit": "256MB"}
_LOCK_WAIT_S = 5.0  # a page that is just reading a finished sweep lets go within a second


class SweepStore:
    """Called from one thread. Every append is one committed transaction: acknowledged rows survive `kill -9`.

    Every method raises StorageError (full disk, read-only, no permission, held by another process).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = _connect(path)

    @classmethod
    def create(cls, folder: Path, meta: SweepMeta) -> "SweepStore":
        """A new database in `folder` (made if missing). The name appears only when all tables are in it."""
        path = folder / DATABASE
        if path.exists():
            raise StorageError(f"{path}: is there already; resume that sweep, or delete it first")
        fresh = folder / (DATABASE + ".new")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for left_over in (fresh, fresh.with_name(fresh.name + ".wal")):
                left_over.unlink(missing_ok=True)
            with contextlib.closing(_connect(fresh)) as db:
                db.execute(_SCHEMA.read_text(encoding="utf-8"))
                _insert(db, "meta", to_arrow(SweepMeta, [meta]))
                db.execute("CHECKPOINT")  # closing does it too, but says nothing when the disk is full
            fresh.rename(path)
        except (OSError, duckdb.Error) as e:
            raise write_error(path, e) from None
        return cls(path)

    @classmethod
    def reopen(cls, folder: Path) -> "SweepStore":
        """Opens an interrupted sweep to go on: rows of cells that did not finish are dropped and measured anew.

        Tables of an older version get the columns they lack, empty, and are of this version from then on.
        """
        path = folder / DATABASE
        if not path.is_file():
            raise StorageError(f"{path}: no such file, so there is nothing to resume; run the sweep anew")
        _check_whole(path)
        store = cls(path)
        try:
            store._bring_up_to_date()
            store._drop_unfinished()
        except StorageError:
            store.close()
            raise
        return store

    def append(
        self,
        requests: Sequence[RequestRecord],
        engine: Sequence[EngineSample],
        client: Sequence[ClientSample],
    ) -> None:
        """Adds the rows in one transaction: on return they are on the disk, on StorageError none of them is."""
        try:
            batches = {
                "request": to_arrow(RequestRecord, requests),
                "engine_sample": to_arrow(EngineSample, engine),
                "client_sample": to_arrow(ClientSample, client),
            }
        except (pa.ArrowException, OverflowError, TypeError) as e:
            raise StorageError(f"{self._path}: a measured value does not fit its column ({e})") from None
        with self._transaction() as db:
            for table, batch in batches.items():
                if batch.num_rows:
                    _insert(db, table, batch)

    def put_cell(self, cell: CellRecord) -> None:
        """Inserts the cell, or replaces the row with the same number."""
        batch = to_arrow(CellRecord, [cell])
        with self._transaction() as db:
            db.execute("DELETE FROM cell WHERE cell = ?", [cell.cell])
            _insert(db, "cell", batch)

    def finished_cells(self) -> dict[int, CellRecord]:
        """Cells with status ok, failed or skipped, by number: these are never run again."""
        names = [f.name for f in fields(CellRecord)]
        try:
            query = f"SELECT {', '.join(names)} FROM cell WHERE status IN {FINISHED} ORDER BY cell"
            rows = self._db.execute(query).fetchall()
        except duckdb.Error as e:
            raise read_error(self._path, e) from None
        cells = [CellRecord(*row) for row in rows]
        return {c.cell: c for c in cells}

    def close(self) -> None:
        """Folds the write-ahead log into the one file and lets go of it. Never raises.

        Where the disk is too full for that, the log stays beside the file and is read with it.
        """
        with contextlib.suppress(duckdb.Error):
            self._db.execute("CHECKPOINT")
        with contextlib.suppress(duckdb.Error):
            self._db.close()

    def _bring_up_to_date(self) -> None:
        with self._transaction() as db:
            for table, record in TABLES.items():
                for name, kind in missing_columns(record, column_names(db, table)).items():
                    db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
            db.execute("UPDATE meta SET schema_version = ?", [SCHEMA_VERSION])

    def _drop_unfinished(self) -> None:
        finished = f"(SELECT cell FROM cell WHERE status IN {FINISHED})"
        with self._transaction() as db:
            for table in ("request", "engine_sample", "client_sample"):
                db.execute(f"DELETE FROM {table} WHERE cell NOT IN {finished}")
            db.execute(f"DELETE FROM cell WHERE status NOT IN {FINISHED}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            self._db.begin()
            yield self._db
            self._db.commit()
        except duckdb.Error as e:
            with contextlib.suppress(duckdb.Error):  # a failed commit has rolled back by itself
                self._db.rollback()
            raise write_error(self._path, e) from None


def check_version(path: Path, db: duckdb.DuckDBPyConnection) -> None:
    """Raises StorageError if the tables are not ours, or of a later version than this code knows."""
    try:
        row = db.execute("SELECT schema_version, tool_version FROM meta").fetchone()
    except duckdb.CatalogException:
        raise StorageError(f"{path}: not a Goodput Lab sweep; choose another file") from None
    except duckdb.Error as e:
        raise read_error(path, e) from None
    if row is None:
        raise StorageError(f"{path}: damaged, it does not say what it is; copy the whole sweep folder again")
    version, tool = row
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"{path}: was written by Goodput Lab {tool} (tables version {version}, this one reads up to "
            f"{SCHEMA_VERSION}); update this one to open it"
        )


def column_names(db: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """The columns that the table has in this file."""
    return [str(row[0]) for row in db.execute(f"DESCRIBE {table}").fetchall()]


def _check_whole(path: Path) -> None:
    """Raises StorageError unless every row can be read: a writer must not build on a file that is half there."""
    with contextlib.closing(_connect(path, read_only=True)) as db:
        check_version(path, db)
        try:
            for table in TABLES:
                db.execute(f"SELECT bit_xor(hash(t)) FROM {table} t").fetchall()
        except duckdb.Error as e:
            raise read_error(path, e) from None


def _connect(path: Path, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=_WRITER)
        except duckdb.Error as e:
            if is_locked(str(e)) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            raise open_error(path, e) from None


def _insert(db: duckdb.DuckDBPyConnection, table: str, batch: pa.Table) -> None:
    """By DuckDB's relations: an INSERT over a registered table takes two to three times as long, and holds
    the interpreter while requests are due."""
    described = db.execute(f"SELECT * FROM {table} LIMIT 0").description or []
    db.from_arrow(batch.select([column[0] for column in described])).insert_into(table)
