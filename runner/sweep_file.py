"""Reads a sweep file from disk; what it says is checked in runner.config."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from runner.config import SweepConfig, parse_sweep
from runner.errors import ConfigError
from runner.text_file import Unreadable, read_text

MOST_BYTES = 10_000_000


def load_sweep(path: Path, backends: dict[str, Any] | None = None) -> SweepConfig:
    """Reads a sweep file (TOML, or JSON by its ending). Raises ConfigError: one sentence naming file, key and mend."""
    try:
        text = read_text(path, MOST_BYTES)
        raw = json.loads(text, object_pairs_hook=_once) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; give the path of a sweep file, such as sample_data/demo.toml"
        ) from None
    except Unreadable as e:
        raise ConfigError(f"{path}: cannot be read ({e}); check the path and its permissions") from None
    except (ValueError, RecursionError) as e:
        raise ConfigError(
            f"{path}: not valid {'JSON' if path.suffix == '.json' else 'TOML'} ({e}); mend that line"
        ) from None
    _find_profiles(raw, path.parent)
    return parse_sweep(raw, str(path), backends)


def _find_profiles(raw: Any, folder: Path) -> None:  # noqa: ANN401 - whatever the file says
    """A profile that lies beside the sweep file is meant by its name, as a recorded trace is; else it is looked for
    where we run. The path is kept whole: the engine, or who resumes the sweep, may run elsewhere."""
    tables = [raw.get(name) for name in ("backend", "grid")] if isinstance(raw, dict) else []
    for table in (t for t in tables if isinstance(t, dict) and "profile" in t):
        named = table["profile"]
        table["profile"] = [_beside(n, folder) for n in named] if isinstance(named, list) else _beside(named, folder)


def _beside(name: Any, folder: Path) -> Any:  # noqa: ANN401
    found = folder / name if isinstance(name, str) else None
    return str(found.absolute()) if found is not None and os.path.isfile(found) else name


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """As TOML has it: of a key given twice nobody knows which is meant."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found
