"""One JSON object in one file: replaced in one step, read without ever raising."""

import contextlib
import json
import math
import os
import threading
from pathlib import Path
from typing import Any

from storage.plain_errors import write_error


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Replaces the file in one step, safe against power loss. Raises StorageError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with temporary.open("w", encoding="utf-8") as f:
            f.write(strict_json(value))
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(path)
    except OSError as e:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise write_error(path, e) from None


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in the file; None if there is no such file, or no JSON object in it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def strict_json(value: dict[str, Any]) -> str:
    """JSON without NaN and Infinity, which other readers refuse: they become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list | tuple) else value
