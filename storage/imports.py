"""Results that came from elsewhere: `imports/<id>/about.json` (one line of the list) and `import.json` (all of it)."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from storage.errors import StorageError
from storage.json_files import read_json, write_json
from storage.plain_errors import is_there, write_error
from storage.side_files import moment

ABOUT, DOCUMENT = "about.json", "import.json"
FORMAT, VERSION = "goodput-import", 1


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """One line of the list of imports."""

    import_id: str
    name: str
    tool: str  # "" if damaged
    status: str  # imported | damaged
    created_unix_ns: int
    cells: int
    folder: Path
    simulated: bool = False  # a sweep of virtual time that somebody shared
    brief: dict[str, Any] | None = None  # the result in brief, as of sweeps; of older imports null


def save_import(data_dir: Path, import_id: str, about: Mapping[str, Any], document: Mapping[str, Any]) -> Path:
    """Writes an import; the same id again replaces it. The list shows it only when all of it is there. Raises
    StorageError."""
    folder = data_dir / "imports" / import_id
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise write_error(folder, e) from None
    write_json(folder / DOCUMENT, {"format": FORMAT, "version": VERSION, **document})
    write_json(folder / ABOUT, {"import_id": import_id, **about})
    return folder


def list_imports(data_dir: Path) -> list[ImportSummary]:
    """All imports, newest first. Never raises: what cannot be read is listed as damaged."""
    try:
        folders = [p for p in (data_dir / "imports").iterdir() if not p.name.startswith(".") and p.is_dir()]
    except OSError:
        return []
    found = [_summary(folder) for folder in folders]
    return sorted(found, key=lambda s: (s.created_unix_ns, s.import_id), reverse=True)


def read_import(folder: Path) -> dict[str, Any]:
    """The document of an import. Raises StorageError: not there, damaged, or of a later version."""
    path = folder / DOCUMENT
    if not is_there(path):
        raise StorageError(f"{path}: no such file, the import was deleted or is only half copied")
    document = read_json(path)
    if document is None or document.get("format") != FORMAT or not isinstance(document.get("result"), dict):
        raise StorageError(f"{path}: damaged; delete this import and import the file again")
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise StorageError(f"{path}: was written by a newer Goodput Lab; update this one to open it")
    return document


def remove_import(folder: Path) -> None:
    """Deletes an import for good. Raises StorageError."""
    doomed = folder.with_name(f".deleted-{folder.name}")  # out of sight in one step
    try:
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as e:
        raise write_error(folder, e) from None


def _summary(folder: Path) -> ImportSummary:
    about = read_json(folder / ABOUT)
    whole = about is not None and (folder / DOCUMENT).is_file()
    told = about or {}
    cells = told.get("cells")
    return ImportSummary(
        import_id=folder.name,
        name=str(told.get("name") or folder.name),
        tool=str(told.get("tool") or ""),
        status="imported" if whole else "damaged",
        created_unix_ns=moment(told.get("created_unix_ns")),
        cells=cells if isinstance(cells, int) else 0,
        folder=folder,
        simulated=whole and _simulated(folder / DOCUMENT, told),
        brief=told["brief"] if isinstance(told.get("brief"), dict) else None,
    )


def _simulated(document: Path, about: Mapping[str, Any]) -> bool:
    """As the line of the list tells it; where that is older than this key, as the document does."""
    if "simulated" in about or about.get("tool") != "goodput":
        return about.get("simulated") is True
    try:
        found = document.stat()
    except OSError:
        return False
    return _simulated_document(document, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1024)
def _simulated_document(path: Path, changed_ns: int, size: int) -> bool:
    """Read once: it may have many megabytes."""
    result = (read_json(path) or {}).get("result")
    return isinstance(result, dict) and result.get("simulated") is True
