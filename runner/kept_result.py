"""The result object beside its sweep's database: whoever looks at a sweep need not wait until its tokens are judged
once more, which takes a small machine seconds for a million of them.

    result.json   {"of": the database's time and size, "by": this version's analysis, "config", "result"}

It is a copy that may be deleted at any time: what is older than the database, or of another version, reads as nothing.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from runner.config import SweepConfig
from runner.version import tool_version
from storage.errors import StorageError
from storage.json_files import read_json, write_json
from storage.sweep_store import DATABASE

KEPT = "result.json"
MOST_CELLS = 1000  # the file of more would be read no faster than they are judged
JUDGES = ("analysis/*.py", "search/*.py", "config.py", "engines/start_line.py")


def keep_result(folder: Path, config: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Writes what `score` gave with the sweep's own targets. Never raises: without it everything is only slower."""
    if len(result["cells"]) <= MOST_CELLS:
        kept = {"of": database_stamp(folder), "by": _judged_by(), "config": config, "result": result}
        with contextlib.suppress(StorageError):
            write_json(folder / KEPT, kept)


def forget_result(folder: Path) -> None:
    """For a sweep that goes on."""
    with contextlib.suppress(OSError):
        (folder / KEPT).unlink(missing_ok=True)


def is_kept(folder: Path) -> bool:
    """Whether there is one that can be read, of whatever version."""
    return os.access(folder / KEPT, os.R_OK)


def kept_result(folder: Path) -> tuple[SweepConfig, dict[str, Any]] | None:
    """The sweep's settings and its result with its own targets; null unless both are what judging it now would give."""
    kept = read_json(folder / KEPT) or {}
    if kept.get("of") != list(database_stamp(folder)) or kept.get("by") != _judged_by():
        return None
    try:
        return SweepConfig.model_validate(kept["config"]), dict(kept["result"])
    except (KeyError, TypeError, ValueError):
        return None


def database_stamp(folder: Path) -> tuple[int, int]:
    """Changes whenever the sweep's database does: (mtime in ns, bytes); zeros if there is none."""
    try:
        found = (folder / DATABASE).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@cache
def _judged_by() -> str:
    """The version, and a digest of the code that judges: two states of a source tree have one version."""
    here, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(path for pattern in JUDGES for path in here.glob(pattern)):
        digest.update(path.read_bytes())
    return f"{tool_version()} {digest.hexdigest()[:16]}"
