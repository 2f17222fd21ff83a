"""Recorded traces that a sweep replays: read once when it is made, kept in its sweep.json, so its folder is whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.config import SweepConfig
from runner.errors import ConfigError
from runner.load.trace_file import TraceRow, parse_trace


def read_trace_texts(config: SweepConfig, base: Path) -> dict[str, str]:
    """CSV text of each class that replays a trace, by class name; paths begin at `base`. Raises ConfigError."""
    texts = {}
    for c in config.classes:
        if c.trace is not None:
            try:
                texts[c.name] = (base / c.trace).read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as e:
                reason = e.strerror if isinstance(e, OSError) else "it is not UTF-8 text"
                raise ConfigError(
                    f"classes.{c.name}.trace: {c.trace} cannot be read ({reason}); give the path of a CSV file"
                ) from None
            parse_trace(texts[c.name], c.trace)
    return texts


def trace_rows(sweep: Mapping[str, Any] | None) -> dict[str, list[TraceRow]]:
    """The rows kept in the content of a sweep.json, by class name."""
    texts = (sweep or {}).get("traces") or {}
    return {name: parse_trace(text, f"trace of {name}") for name, text in texts.items()}
