"""Recorded traces that a sweep replays: read once when it is made, kept in its sweep.json, so its folder is whole."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.config import SweepConfig
from runner.errors import ConfigError
from runner.load.trace_file import TraceRow, parse_trace
from runner.text_file import Unreadable, read_text

MOST_BYTES = 100_000_000  # some three million requests


def read_trace_texts(config: SweepConfig, base: Path) -> dict[str, str]:
    """CSV text of each class that replays a trace, by class name; paths begin at `base`. Raises ConfigError."""
    texts = {}
    for c in config.classes:
        if c.trace is not None:
            try:
                texts[c.name] = read_text(base / c.trace, MOST_BYTES, regular=True)
            except (Unreadable, FileNotFoundError) as e:
                reason = e.strerror if isinstance(e, FileNotFoundError) else e
                raise ConfigError(
                    f"classes.{c.name}.trace: {c.trace} cannot be read ({reason}); give the path of a CSV file"
                ) from None
            parse_trace(texts[c.name], c.trace)
    return texts


def trace_rows(sweep: Mapping[str, Any] | None) -> dict[str, list[TraceRow]]:
    """The rows kept in the content of a sweep.json, by class name."""
    texts = (sweep or {}).get("traces") or {}
    return {name: parse_trace(text, f"trace of {name}") for name, text in texts.items()}
