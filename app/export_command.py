"""`goodput export`: a sweep's numbers as CSV, Parquet or JSON.

json            one file that holds everything and can be imported again
csv, parquet    a folder with the tables cells (every number of every cell), requests and engine_samples; or, where PATH
                ends in .csv or .parquet, one file: the cells

Host names, addresses, URLs and folders are left out as in the shared page unless --private; keys always.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from app.export.redact import redact, scrub, secret_names
from app.output_file import check_output, check_output_folder
from app.views.table import columns, safe_text, table_rows
from runner.analysis.prepare import Prepared
from runner.errors import ConfigError
from runner.exported import tables_as_json
from runner.imports.own import FORMAT, VERSION
from storage.export_files import write_csv, write_parquet, write_text
from storage.json_files import strict_json

FORMATS = ("csv", "parquet", "json")
Table = dict[str, list[Any]]


@dataclass(frozen=True)
class Source:
    """What is exported. `prepared` is None for an import without requests of its own."""

    name: str  # of the file, without ending
    result: Mapping[str, Any]
    prepared: Prepared | None


def run(args: argparse.Namespace) -> int:
    """Writes the files; raises ConfigError before anything is read if they could not be written."""
    path = args.output
    as_folder = _is_folder(path, args.format)
    source = _source(args)
    clean = cleaner(source.result, private=args.private)
    if args.format == "json":
        path = path / f"{source.name}.json" if as_folder else path
        write_text(path, json_export(source, private=args.private))
        written = [path]
    else:
        if as_folder:
            path.mkdir(exist_ok=True)
        written = _write_tables(path, args.format, tables_of(source, clean))
    for each in written:
        print(f"wrote {each}", file=sys.stderr)
    return 0


def _is_folder(path: Path, kind: str) -> bool:
    """Whether `path` is to be a folder with files in it. Raises ConfigError where it could not be written."""
    folder = path.is_dir() if kind == "json" else path.is_dir() or path.suffix != f".{kind}"
    if not folder:
        check_output(path, "numbers", f"sweep.{kind}")
    elif not path.parent.is_dir():
        raise ConfigError(f"{path}: the folder {path.parent} does not exist; make it, or export to elsewhere")
    elif path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; give a folder, or a name that ends in .{kind}")
    else:
        check_output_folder(path, "numbers")
    return folder


def _source(args: argparse.Namespace) -> Source:
    from app.commands import folder_of
    from app.data import load_prepared, result_of
    from app.imports import find_import, import_result, load_import, prepared_import

    imported = find_import(args.data, args.id)
    if imported is not None:
        document = load_import(imported)
        # of a tool that keeps no single gaps the requests are no measured facts
        whole = document["rescoring"] == "full"
        return Source(imported.name, import_result(document), prepared_import(document) if whole else None)
    folder = folder_of(args.id, args.data)
    prepared = load_prepared(folder)
    return Source(folder.name, result_of(prepared, folder), prepared)


def cleaner(result: Mapping[str, Any], *, private: bool) -> Callable[[Any], Any]:
    """Takes out of a text, or of an object's texts, what must not be shown."""
    names = frozenset() if private else secret_names(result)

    def clean(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
        if isinstance(value, str):
            return scrub(value, include_private=private, names=names)
        return redact(value, include_private=private, names=names)

    return clean


def json_export(source: Source, *, private: bool = False) -> str:
    """Result, config and tables as one strict JSON object: see runner.imports.own for the way back."""
    clean = cleaner(source.result, private=private)
    whole: dict[str, Any] = {"format": FORMAT, "version": VERSION, "result": clean(source.result)}
    if source.prepared is not None:
        whole["config"] = clean(source.prepared.tables.meta["config"])
        whole["tables"] = tables_as_json(source.prepared.tables, clean)
    return strict_json(whole)


def tables_of(source: Source, clean: Callable[[Any], Any]) -> dict[str, Table]:
    """{"cells", "requests", "engine_samples"}: {column: values}. Numbers are numbers, null is None."""
    rows = table_rows(source.result)
    cells = {c.key: [_cell_value(row[c.key], clean) for row in rows] for c in columns(source.result)}
    out: dict[str, Table] = {"cells": cells}
    if source.prepared is not None:
        out["requests"] = _frame(source.prepared.requests, clean)
        out["engine_samples"] = _frame(source.prepared.tables.engine, clean)
    return out


def _cell_value(value: Any, clean: Callable[[Any], Any]) -> Any:  # noqa: ANN401  (a cell of a table)
    return clean(value) if isinstance(value, str) else value


def _frame(frame: pd.DataFrame, clean: Callable[[Any], Any]) -> Table:
    return {str(name): [_plain(v, clean) for v in frame[name].tolist()] for name in frame.columns}


def _plain(value: Any, clean: Callable[[Any], Any]) -> Any:  # noqa: ANN401  (a cell of a table)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, str):
        return clean(value)
    return None if value is pd.NA or value != value else value


def _write_tables(path: Path, kind: str, tables: Mapping[str, Table]) -> list[Path]:
    files = {path / f"{name}.{kind}": table for name, table in tables.items()} if path.is_dir() else {}
    for file, table in (files or {path: tables["cells"]}).items():
        if kind == "parquet":
            write_parquet(file, table)
        else:
            write_csv(file, [safe_text(name) for name in table], _csv_rows(table))
    return list(files) or [path]


def _csv_rows(table: Table) -> Iterable[Sequence[Any]]:
    """Text guarded against formulas; a list of numbers as one text with spaces between them."""
    for row in zip(*table.values(), strict=True):
        yield [_csv_value(value) for value in row]


def _csv_value(value: Any) -> Any:  # noqa: ANN401  (a cell of a table)
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return safe_text(value) if isinstance(value, str) else value
