"""Reads a sweep file from disk; what it says is checked in runner.config."""

import json
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
        raw = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; give the path of a sweep file, such as sample_data/demo.toml"
        ) from None
    except Unreadable as e:
        raise ConfigError(f"{path}: cannot be read ({e}); check the path and its permissions") from None
    except ValueError as e:
        raise ConfigError(
            f"{path}: not valid {'JSON' if path.suffix == '.json' else 'TOML'} ({e}); mend that line"
        ) from None
    return parse_sweep(raw, str(path), backends)
