"""A recorded trace: CSV text -> rows of (arrival, prompt tokens, output tokens). PURE: the caller reads the file."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from runner.errors import ConfigError

# Header names in lower case without spaces, dots and underscores: ours, those of Azure's public traces, BurstGPT's.
ARRIVAL = ("arrivals", "timestamp", "arrival", "arrivaltime", "arrivedat")
PROMPT = ("prompttokens", "contexttokens", "requesttokens", "inputtokens", "inputlength", "numprefilltokens")
OUTPUT = ("outputtokens", "generatedtokens", "responsetokens", "completiontokens", "outputlength", "numdecodetokens")


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One recorded request; lengths are None where the file has no such column."""

    arrival_s: float
    prompt_tokens: int | None = None
    output_tokens: int | None = None


def parse_trace(text: str, source: str = "trace") -> list[TraceRow]:
    """Rows by arrival. `arrival_s` counts from the start of the load; `timestamp` (s or a date) from its first row.

    Lengths below 1 become 1: a request has at least one token. Raises ConfigError with file, line and mend.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    header = [_plain(name) for name in next(reader, [])]
    arrival, prompt, output = (_column(header, names) for names in (ARRIVAL, PROMPT, OUTPUT))
    if arrival is None:
        raise ConfigError(f"{source}: no column arrival_s or timestamp; add a header line that names the columns")
    rows: list[TraceRow] = []
    for cells in reader:
        if not any(c.strip() for c in cells):
            continue
        try:
            rows.append(TraceRow(_seconds(cells[arrival]), _tokens(cells, prompt), _tokens(cells, output)))
        except (ValueError, IndexError, OverflowError):
            line = reader.line_num
            raise ConfigError(
                f"{source}, line {line}: {','.join(cells)[:80]!r} is not a time and two token counts; mend or remove it"
            ) from None
    if not rows:
        raise ConfigError(f"{source}: no request in it; give at least one line below the header")
    return _from_start(rows, relative=header[arrival] != "arrivals", source=source)


def _from_start(rows: Sequence[TraceRow], relative: bool, source: str) -> list[TraceRow]:
    """Sorted by arrival; a time stamp has no known origin, so the first request is taken as the start."""
    ordered = sorted(rows, key=lambda r: r.arrival_s)
    if relative:
        return [replace(r, arrival_s=r.arrival_s - ordered[0].arrival_s) for r in ordered]
    if ordered[0].arrival_s < 0:
        raise ConfigError(f"{source}: arrival_s is negative; count it from the start of the load")
    return ordered


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "").replace(" ", "").replace(".", "")


def _column(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(n) for n in names if n in header), None)


def _seconds(text: str) -> float:
    """Seconds of a plain number or of an ISO date (no zone: UTC)."""
    try:
        value = float(text)
    except ValueError:
        date = datetime.fromisoformat(text.strip())
        value = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _tokens(cells: Sequence[str], column: int | None) -> int | None:
    if column is None or not cells[column].strip():
        return None
    return max(1, int(float(cells[column])))
