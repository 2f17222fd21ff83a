"""Imports on the disk: kept, listed, shown, deleted, and told as damaged where they are."""

import json
from pathlib import Path

import pytest

from storage.errors import StorageError
from storage.imports import ABOUT, DOCUMENT, list_imports, read_import, remove_import, save_import

TOLD = {"name": "one", "tool": "vllm", "created_unix_ns": 5, "cells": 3}


def test_what_is_kept_is_listed_and_read(tmp_path: Path) -> None:
    """Newest first; the same id again replaces; deleted is gone."""
    save_import(tmp_path, "imp-a", TOLD, {"result": {"cells": [1]}})
    save_import(tmp_path, "imp-b", {**TOLD, "created_unix_ns": 9}, {"result": {}})
    save_import(tmp_path, "imp-a", {**TOLD, "name": "again"}, {"result": {"cells": [2]}})
    assert [(s.import_id, s.name, s.status, s.cells) for s in list_imports(tmp_path)] == [
        ("imp-b", "one", "imported", 3),
        ("imp-a", "again", "imported", 3),
    ]
    folder = list_imports(tmp_path)[1].folder
    assert read_import(folder)["result"] == {"cells": [2]}
    remove_import(folder)
    assert [s.import_id for s in list_imports(tmp_path)] == ["imp-b"]
    with pytest.raises(StorageError, match="no such file"):
        read_import(folder)


def test_no_folder_is_an_empty_list(tmp_path: Path) -> None:
    """A data folder that never had an import."""
    assert list_imports(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (DOCUMENT, "{half", "damaged"),
        (DOCUMENT, "[]", "damaged"),
        (DOCUMENT, json.dumps({"format": "goodput-import", "version": 1, "result": 3}), "damaged"),
        (DOCUMENT, json.dumps({"format": "goodput-import", "version": 99, "result": {}}), "newer Goodput Lab"),
        (DOCUMENT, None, "no such file"),
    ],
)
def test_damage_is_told_in_a_sentence(tmp_path: Path, name: str, content: str | None, said: str) -> None:
    """Half written, foreign, of a later version, half copied."""
    folder = save_import(tmp_path, "imp-a", TOLD, {"result": {}})
    (folder / name).write_text(content, encoding="utf-8") if content is not None else (folder / name).unlink()
    with pytest.raises(StorageError, match=said):
        read_import(folder)


def test_damage_never_stops_the_list(tmp_path: Path) -> None:
    """A folder without its line, with a torn one, a stray file: listed as damaged or not at all."""
    save_import(tmp_path, "imp-a", TOLD, {"result": {}})
    (tmp_path / "imports" / "imp-b").mkdir()
    torn = save_import(tmp_path, "imp-c", TOLD, {"result": {}})
    (torn / ABOUT).write_text('{"name": ', encoding="utf-8")
    odd = save_import(tmp_path, "imp-d", {"name": 5, "cells": "x", "created_unix_ns": None}, {"result": {}})
    (tmp_path / "imports" / "stray.txt").write_text("x", encoding="utf-8")
    found = {s.import_id: s.status for s in list_imports(tmp_path)}
    assert found == {"imp-a": "imported", "imp-b": "damaged", "imp-c": "damaged", "imp-d": "imported"}
    assert next(s for s in list_imports(tmp_path) if s.folder == odd).cells == 0
