"""Recorded traces that people bring along: checked, kept in the data folder as a plain CSV of ours, listed by name."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from app.words import Words
from runner.errors import ConfigError
from runner.load.trace_file import TraceRow, parse_trace
from runner.text_file import Unreadable, read_text
from storage.plain_errors import write_error

FOLDER = "traces"
MOST_MB = 8  # of an upload; a day of requests, one a second, has 4
MOST_ROWS = 200_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}-[0-9a-f]{8}\.csv")


@dataclass(frozen=True)
class TraceFacts:
    """What a trace is: requests, seconds from first to last, median lengths in tokens."""

    requests: int
    span_s: float
    prompt_tokens: int
    output_tokens: int

    @property
    def per_s(self) -> float:
        return self.requests / self.span_s if self.span_s else 0.0


def keep(data_dir: Path, name: str, data: bytes, w: Words) -> str:
    """Stores an uploaded trace and returns its name in the list; the same content is kept once.

    Nothing of the file's own name but letters and digits is used. Raises ConfigError in one sentence naming the file,
    StorageError.
    """
    shown = PurePosixPath(name.replace("\\", "/")).name[:80] or "trace"
    if len(data) > MOST_MB * 1_000_000:
        raise ConfigError(
            w.text(
                "{file}: is larger than {most} MB; cut it to the hours that matter.", file=shown, most=w.count(MOST_MB)
            )
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(w.text("{file}: is no text in UTF-8; save it as CSV or JSONL.", file=shown)) from None
    rows = parse_trace(text, shown)
    if len(rows) > MOST_ROWS:
        raise ConfigError(
            w.text(
                "{file}: has {n} requests; cut it to {most}.", file=shown, n=w.count(len(rows)), most=w.count(MOST_ROWS)
            )
        )
    if any(row.prompt_tokens is None or row.output_tokens is None for row in rows):
        raise ConfigError(
            w.text("{file}: needs a time, the prompt's tokens and the answer's tokens in every line.", file=shown)
        )
    return _write(data_dir, shown, _as_csv(rows))


def stored(data_dir: Path) -> list[str]:
    """Names of the kept traces, newest first."""
    try:
        found = [(p.stat().st_mtime_ns, p.name) for p in (data_dir / FOLDER).iterdir() if _NAME.fullmatch(p.name)]
    except OSError:
        return []
    return [name for _, name in sorted(found, reverse=True)]


def facts(data_dir: Path, name: str) -> TraceFacts:
    """Of a kept trace. Raises ConfigError when it is gone or damaged."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a trace that was kept here")
    try:
        rows = parse_trace(read_text(data_dir / FOLDER / name, 4 * MOST_MB * 1_000_000, regular=True), name)
    except (Unreadable, OSError) as e:
        raise ConfigError(f"{name}: cannot be read ({e}); upload it again") from None
    return TraceFacts(
        len(rows),
        rows[-1].arrival_s - rows[0].arrival_s,
        round(float(np.median([row.prompt_tokens or 1 for row in rows]))),
        round(float(np.median([row.output_tokens or 1 for row in rows]))),
    )


def _as_csv(rows: Sequence[TraceRow]) -> str:
    start = rows[0].arrival_s
    lines = [f"{row.arrival_s - start:.6f},{row.prompt_tokens},{row.output_tokens}" for row in rows]
    return "\n".join(["arrival_s,prompt_tokens,output_tokens", *lines, ""])


def _write(data_dir: Path, shown: str, text: str) -> str:
    plain = unicodedata.normalize("NFKD", PurePosixPath(shown).stem).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "trace"
    name = f"{slug}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.csv"
    path = data_dir / FOLDER / name
    half = path.with_suffix(".part")
    try:
        path.parent.mkdir(exist_ok=True)
        half.write_text(text, encoding="utf-8")
        half.replace(path)
    except OSError as e:
        raise write_error(path, e) from None
    return name
