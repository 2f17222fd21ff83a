"""Other people's pages and other tools' files: taken in, kept, scored again. Imports no Streamlit."""

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.views.badges import TOOLS
from app.words import ENGLISH, Words
from runner.analysis.prepare import Prepared, prepare
from runner.analysis.result import score, targets_of
from runner.analysis.stalls import stalled_requests
from runner.brief import brief_of
from runner.config import GapRule, Slo
from runner.errors import ConfigError
from runner.exported import tables_from_json
from runner.imported import as_document, from_document
from runner.imported_result import prepared_of, tool_result
from runner.imports import own
from runner.imports.detect import read_files
from runner.imports.model import MAX_FILE_BYTES, ImportFailed, ToolFile
from runner.imports.reading import shown, text
from storage.errors import StorageError
from storage.imports import list_imports as stored_imports
from storage.imports import read_import, remove_import, save_import

MAX_UPLOAD_BYTES = MAX_FILE_BYTES
MAX_FILES = 2_000
MAX_ALL_BYTES = 4 * MAX_FILE_BYTES
_ID = re.compile(r"imp-[0-9a-f]{12}")
list_imports = stored_imports
load_import = read_import


def add_files(data_dir: Path, files: Sequence[tuple[str, bytes]]) -> list[str]:
    """Takes (name, content) pairs in and keeps them; returns the imports' ids. Several files of one run or sweep make
    one import; the same files make the same import. Raises ImportFailed (nothing is kept then), StorageError."""
    if not files:
        raise ImportFailed("no file was given")
    if len(files) > MAX_FILES or sum(len(content) for _, content in files) > MAX_ALL_BYTES:
        raise ImportFailed(f"at most {MAX_FILES:,} files and {MAX_ALL_BYTES // 10**6} MB are taken in at once")
    ours = [f for f in files if _is_page(f[1]) or own.is_export(f[1])]
    others = [f for f in files if f not in ours]
    documents = [_our_document(name, content) for name, content in ours]
    if others:
        names = [shown(name) for name, _ in others]
        documents += [_tool_document(file, names) for file in read_files(others)]
    return [_keep(data_dir, document) for document in documents]


def _is_page(content: bytes) -> bool:
    return content[:200].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def _our_document(name: str, content: bytes) -> dict[str, Any]:
    data = _page(name, content) if _is_page(content) else own.read_export(name, content)
    result = {key: value for key, value in data["result"].items() if key != "imported"}
    first = _first_import(data["result"].get("imported"))
    document = {
        "tool": first["tool"],
        "tool_version": first["tool_version"] or _our_version(result),
        "files": [shown(name)],
        "badges": first["badges"],
        "rescoring": "full" if data.get("tables") else "steps" if data.get("tallies") else first["rescoring"],
        "timed": first["timed"],
        "result": result,
        **{key: data[key] for key in ("tallies", "config", "tables") if data.get(key)},
    }
    if data.get("tables"):
        _prepared_export(document)  # whatever is damaged must be told now and not when somebody looks at it
    return document


def _first_import(told: object) -> dict[str, Any]:
    """What an export says of the tool whose import it was, for its definitions still differ."""
    known = told if isinstance(told, dict) and told.get("tool") in TOOLS else {}
    marks = known.get("badges") if isinstance(known.get("badges"), list) else []
    return {
        "tool": known.get("tool") or "goodput",
        "tool_version": text(known.get("tool_version")),
        "badges": [b for b in marks or [] if isinstance(b, str)][:20],
        "rescoring": "mean_only" if known.get("rescoring") == "mean_only" else "none",
        "timed": known.get("timed") is not False,
    }


def _our_version(result: Mapping[str, Any]) -> str | None:
    return text((result.get("environment") or {}).get("tool_version"))


def _page(name: str, content: bytes) -> dict[str, Any]:
    from app.export.shared_page import PageError, read_page  # brings Plotly, which most commands do not need

    if len(content) > MAX_FILE_BYTES:
        raise ImportFailed(
            f"{shown(name)} has {len(content) / 1e6:,.0f} MB; at most {MAX_FILE_BYTES // 10**6} are read"
        )
    try:
        data = read_page(content.decode("utf-8"))
    except (PageError, UnicodeDecodeError, RecursionError) as e:
        why = str(e) if isinstance(e, PageError) else "it can't be read"
        raise ImportFailed(f"{shown(name)}: {why}") from None
    own.check_result(name, data["result"])
    return data


def _tool_document(file: ToolFile, names: Sequence[str]) -> dict[str, Any]:
    data = as_document(file)
    file = from_document(data)  # as it will be read again
    about = {"sweep_id": "", "name": _name_of(file, names), "created_unix_ns": 0}
    return {
        "tool": file.tool,
        "tool_version": file.tool_version,
        "files": list(names)[:50],
        "badges": list(file.badges),
        "rescoring": file.rescoring,
        "result": tool_result(file, prepared_of(file, about)),
        "file": data,
    }


def _name_of(file: ToolFile, names: Sequence[str]) -> str:
    what = file.model or names[0].replace("\\", "/").rpartition("/")[2]
    return f"{TOOLS[file.tool]}: {what}"


def _keep(data_dir: Path, document: dict[str, Any]) -> str:
    content = json.dumps({k: v for k, v in document.items() if k != "files"}, sort_keys=True)
    import_id = f"imp-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    result = document["result"]
    about = {
        "name": shown(str(result.get("name") or document["files"][0])),
        "tool": document["tool"],
        "created_unix_ns": time.time_ns(),
        "cells": len(result["cells"]),
        "simulated": result.get("simulated") is True,
        "brief": _brief(result),
    }
    save_import(data_dir, import_id, about, {**document, "import_id": import_id})
    return import_id


def _brief(result: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return brief_of(result)
    except (KeyError, TypeError, AttributeError):  # of another version: the list does without
        return None


def import_folder(data_dir: Path, import_id: str) -> Path:
    """The folder of an import. Raises ConfigError for what is no import's id or is not there."""
    folder = data_dir / "imports" / import_id
    if not _ID.fullmatch(import_id) or not folder.is_dir():
        raise ConfigError(f"there is no import {import_id!r} here; `goodput list` shows them")
    return folder


def find_import(data_dir: Path, beginning: str) -> Path | None:
    """The folder of the one import whose id begins so; None if there is none. Raises ConfigError for several."""
    if not beginning.startswith("imp-") and not "imp-".startswith(beginning):
        return None
    found = [s.folder for s in list_imports(data_dir) if s.import_id.startswith(beginning)]
    if len(found) > 1:
        raise ConfigError(f"{len(found)} imports begin with {beginning!r}; give more of it")
    return found[0] if found else None


def delete_import(data_dir: Path, import_id: str) -> None:
    """Deletes it for good. Raises ConfigError, StorageError."""
    remove_import(import_folder(data_dir, import_id))


def prepared_import(document: Mapping[str, Any]) -> Prepared | None:
    """All of an import that does not depend on targets: keep it, and give it to `import_result` at every move of a
    slider. None where nothing of single requests is known (summaries, our pages). Raises StorageError."""
    try:
        if document.get("file") and document.get("rescoring") != "none":
            about = {"sweep_id": document.get("import_id") or "", "name": document["result"].get("name")}
            return prepared_of(from_document(document["file"]), {**about, "created_unix_ns": 0})
        return _prepared_export(document) if document.get("tables") else None
    except ImportFailed as e:
        raise StorageError(f"this import is damaged ({e}); delete it and import the file again") from None


def import_result(
    document: Mapping[str, Any],
    *,
    targets: Mapping[str, Slo] | None = None,
    rule: GapRule | None = None,
    share_target: float | None = None,
    prepared: Prepared | None = None,
) -> dict[str, Any]:
    """The result object of an import, with `imported` beside the usual keys; without arguments as it was imported.

    How far other targets are followed is told by `imported.rescoring`: see app.views.badges. Raises StorageError.
    """
    asked = targets is not None or rule is not None or share_target is not None
    result = _rescored(document, targets, rule, share_target, prepared) if asked else document["result"]
    about = {key: document.get(key) for key in ("import_id", "tool", "tool_version", "files", "badges", "rescoring")}
    about["timed"] = is_timed(document)
    return {**result, "imported": about}


def _rescored(
    document: Mapping[str, Any],
    targets: Mapping[str, Slo] | None,
    rule: GapRule | None,
    share_target: float | None,
    prepared: Prepared | None,
) -> dict[str, Any]:
    known = prepared or prepared_import(document)
    if known is not None and document.get("file"):
        file = from_document(document["file"])
        return tool_result(file, known, targets=targets, rule=rule, share_target=share_target)
    if known is not None:
        status = document["result"].get("status")
        return score(known, targets=targets, rule=rule, share_target=share_target, status=status)
    if document.get("tallies"):
        from app.export.rescore import rescore_page

        return rescore_page(document["result"], document["tallies"], targets=targets, share_target=share_target)
    return dict(document["result"])


def _prepared_export(document: Mapping[str, Any]) -> Prepared:
    """Raises ImportFailed."""
    result = document["result"]
    meta = {key: result.get(key) or {} for key in ("backend", "environment")}
    meta |= {"sweep_id": result.get("sweep_id"), "name": result.get("name"), "simulated": result.get("simulated")}
    tables = tables_from_json({**meta, "created_unix_ns": 0}, document.get("config") or {}, document["tables"])
    try:
        return prepare(tables)
    except (ValueError, KeyError, TypeError) as e:
        raise ImportFailed(f"the sweep of this export can't be scored ({type(e).__name__}); export it again") from None


def is_timed(document: Mapping[str, Any]) -> bool:
    """Whether it is known when each request was sent: without that nothing can be laid on a time axis."""
    runs = (document.get("file") or {}).get("runs")
    return all(run.get("timed") for run in runs if run.get("points")) if runs else document.get("timed") is not False


def import_html(document: Mapping[str, Any], *, include_private: bool = False, words: Words = ENGLISH) -> str:
    """The shared page of an import: its origin stays told, and its sliders stay where its data allow them. Raises
    StorageError."""
    from app.export.rescore import sound_tallies
    from app.export.shared_page import render_page

    # gaps that a tool did not keep are no facts to be shown
    prepared = prepared_import(document) if document.get("rescoring") == "full" else None
    cells = prepared.cells if prepared else ()
    return render_page(
        import_result(document),
        prepared.requests if prepared else None,
        windows_s={facts.cell: facts.window_s for facts in cells if facts.window_s},
        crowds={facts.cell: facts.crowds for facts in cells},
        stalled=stalled_requests(prepared, targets_of(prepared.config)) if prepared and is_timed(document) else None,
        tallies=sound_tallies(document.get("tallies")),
        include_private=include_private,
        words=words,
    )
