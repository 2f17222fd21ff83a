"""`goodput import`, and what list, show and delete do with imports."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.errors import ConfigError
from runner.imports.model import MAX_FILE_BYTES
from storage.data_folder import open_data_folder
from storage.imports import list_imports, read_import, remove_import

_ENDS = (".json", ".jsonl", ".html", ".htm")


def run(args: argparse.Namespace) -> int:
    """Takes files and folders in. What lies in one folder given as such belongs together."""
    from app.commands import _print_json
    from app.imports import add_files, import_result

    data_dir = open_data_folder(args.data)
    ids: list[str] = []
    single = [path for path in args.files if not path.is_dir()]
    groups = [single] * bool(single) + [list(_inside(path)) for path in args.files if path.is_dir()]
    for given, paths in zip([None] * bool(single) + [p for p in args.files if p.is_dir()], groups, strict=True):
        if not paths:
            raise ConfigError(f"{given}: no {', '.join(_ENDS)} file in this folder")
        ids += add_files(data_dir, _read(paths))
    folders = [data_dir / "imports" / i for i in dict.fromkeys(ids)]
    if args.json:
        _print_json([_row(f) for f in folders])
        return 0
    for folder in folders:
        print(f"imported {folder.name}  {_row(folder)['name']}", file=sys.stderr)
        print(note_of(import_result(read_import(folder))), file=sys.stderr)
    return 0


def _row(folder: Path) -> dict[str, Any]:
    from app.imports import import_result

    result = import_result(read_import(folder))
    told = result["imported"]
    return {
        "import_id": folder.name,
        "name": result.get("name"),
        "tool": told["tool"],
        "cells": len(result["cells"]),
        "simulated": result.get("simulated") is True,
        "badges": told["badges"],
        "rescoring": told["rescoring"],
    }


def _inside(folder: Path) -> Iterator[Path]:
    """The result files below a folder, in order of name; links are not followed."""
    from app.imports import MAX_FILES

    found = []
    for root, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        found += [Path(root) / n for n in sorted(names) if n.endswith(_ENDS) and not n.endswith("warmup.json")]
        if len(found) > MAX_FILES:
            raise ConfigError(f"{folder}: more than {MAX_FILES:,} files; import the runs in parts")
    yield from (path for path in found if not path.is_symlink())


def _read(paths: list[Path]) -> list[tuple[str, bytes]]:
    """Names and contents. Raises ConfigError for what is missing, unreadable or too large."""
    from app.imports import MAX_ALL_BYTES

    out, left = [], MAX_ALL_BYTES
    for path in paths:
        try:
            if path.exists() and not path.is_file():  # a device has no end
                raise ConfigError(f"{path} is no file")
            size = path.stat().st_size
            if size > MAX_FILE_BYTES or size > left:
                most = MAX_FILE_BYTES if size > MAX_FILE_BYTES else MAX_ALL_BYTES
                raise ConfigError(f"{path}: more than {most // 10**6} MB are not read")
            content = path.read_bytes()
        except OSError as e:
            raise ConfigError(f"{path}: can't be read ({e.strerror or e})") from None
        left -= len(content)
        out.append((_shown_name(path), content))
    return out


def _shown_name(path: Path) -> str:
    """The file's name and that of its folder: what tells runs apart, and nothing of this machine."""
    return "/".join(path.absolute().parts[-2:])


def note_of(result: Mapping[str, Any]) -> str:
    """Badges and how far it can be scored again, for a terminal."""
    from app.views.badges import badge_line, rescoring_note

    return "\n".join(f"    {line}" for line in (badge_line(result), rescoring_note(result)) if line)


def result_of_import(data_dir: Path, beginning: str) -> dict[str, Any] | None:
    """The result of an import by the beginning of its id; None if it names none."""
    from app.imports import find_import, import_result

    folder = find_import(data_dir, beginning)
    return None if folder is None else import_result(read_import(folder))


def delete(data_dir: Path, beginning: str) -> str | None:
    """Deletes an import by the beginning of its id; its id, or None if it names none."""
    from app.imports import find_import

    folder = find_import(data_dir, beginning)
    if folder is None:
        return None
    remove_import(folder)
    return folder.name


def rows(data_dir: Path) -> list[dict[str, Any]]:
    """Imports as `goodput list --json` tells them, with the keys of sweeps."""
    return [
        {
            "sweep_id": s.import_id,
            "name": s.name,
            "status": s.status,
            "created_unix_ns": s.created_unix_ns,
            "cells_total": s.cells,
            "cells_done": s.cells,
            "verdict": None,
            "simulated": s.simulated,
            "tool": s.tool,
        }
        for s in list_imports(data_dir)
    ]


def lines(data_dir: Path) -> list[str]:
    """Imports as `goodput list` prints them."""
    from app.views.badges import TOOLS

    told = []
    for s in list_imports(data_dir):
        marks = [f"from {TOOLS.get(s.tool, s.tool or 'unknown')}", *["simulated"] * s.simulated]
        told.append(f"{s.import_id}  {s.status:<11} {s.cells} cells  {s.name}  ({', '.join(marks)})")
    return told
