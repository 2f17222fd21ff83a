"""Calibrations that the dashboard started: each a `goodput calibrate` of its own; its last line says how far it is."""

import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import ConfigError
from storage.plain_errors import write_error

FOLDER = "profiles"
_guard = threading.Lock()
_started: dict[Path, subprocess.Popen[bytes]] = {}  # by profile file


@dataclass(frozen=True)
class Progress:
    """`state`: running, done or failed; `line`: the last thing that it said."""

    state: str
    line: str


def profile_path(data_dir: Path, name: str) -> Path:
    """Where the profile of a saved backend goes."""
    return data_dir / FOLDER / f"{name}.toml"


def start(data_dir: Path, name: str, backend: Mapping[str, Any]) -> None:
    """Calibrates a saved backend in a process of its own; nothing happens where that runs already.

    Raises ConfigError for one that has no address, StorageError.
    """
    if not backend.get("url"):
        raise ConfigError(f"{name} has no url: what the built-in engine costs is known already")
    path = profile_path(data_dir, name)
    flags = [f"--{key.replace('_', '-')}={backend[key]}" for key in ("api", "model", "api_key_env") if backend.get(key)]
    command = [sys.executable, "-m", "app.cli", "calibrate", "-o", str(path), "--data", str(data_dir), *flags]
    with _guard:
        if (before := _started.get(path)) and before.poll() is None:
            return
        try:
            path.parent.mkdir(exist_ok=True)
            with _log(path).open("wb") as log:
                _started[path] = subprocess.Popen(
                    [*command, "--", str(backend["url"])],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
        except OSError as e:
            raise write_error(path, e) from None


def progress(data_dir: Path, name: str) -> Progress | None:
    """Of the calibration that this dashboard started last for that backend; null when it started none."""
    path = profile_path(data_dir, name)
    process = _started.get(path)
    if process is None:
        return None
    code = process.poll()
    lines = _log(path).read_text(encoding="utf-8", errors="replace").split("\n") if _log(path).is_file() else []
    line = next((text for text in reversed(lines) if text.strip()), "")
    return Progress("running" if code is None else "failed" if code else "done", line.removeprefix("goodput: "))


def stop(data_dir: Path, name: str) -> None:
    """Ends it; what it measured so far is gone."""
    process = _started.get(profile_path(data_dir, name))
    if process is not None and process.poll() is None:
        process.terminate()


def _log(path: Path) -> Path:
    return path.with_suffix(".log")
