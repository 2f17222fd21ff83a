"""A recorded trace: CSV or JSONL text -> rows of (arrival, prompt tokens, output tokens). PURE: the caller reads the
file."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from runner.config import MOST_S, MOST_TOKENS
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

    CSV with a header, or JSONL: an object a line with the same names. Lengths below 1 become 1: a request has at least
    one token. Raises ConfigError with file, line and mend.
    """
    text = text.removeprefix("\ufeff")
    return _jsonl(text, source) if text.lstrip().startswith("{") else _csv(text, source)


def _csv(text: str, source: str) -> list[TraceRow]:
    reader = csv.reader(io.StringIO(text))
    rows: list[TraceRow] = []
    try:
        header = [_plain(name) for name in next(reader, [])]
        arrival, prompt, output = (_column(header, names) for names in (ARRIVAL, PROMPT, OUTPUT))
        if arrival is None:
            raise ConfigError(f"{source}: no column arrival_s or timestamp; add a header line that names the columns")
        for cells in reader:
            if not any(c.strip() for c in cells):
                continue
            try:
                rows.append(TraceRow(_seconds(cells[arrival]), _tokens(cells, prompt), _tokens(cells, output)))
            except (ValueError, IndexError, OverflowError):
                raise _no_request(source, reader.line_num, ",".join(cells)) from None
    except csv.Error as e:
        raise ConfigError(f"{source}, line {reader.line_num}: is no CSV ({e}); mend or remove it") from None
    return _from_start(rows, relative=header[arrival] != "arrivals", source=source)


def _jsonl(text: str, source: str) -> list[TraceRow]:
    rows: list[TraceRow] = []
    relative = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            named = {_plain(name): value for name, value in found.items()} if isinstance(found, dict) else {}
            key = next(name for name in ARRIVAL if name in named)
            rows.append(TraceRow(_seconds(_text(named[key])), _count(named, PROMPT), _count(named, OUTPUT)))
        except (ValueError, RecursionError, OverflowError, StopIteration):
            raise _no_request(source, number, line) from None
        relative = relative or key != "arrivals"
    return _from_start(rows, relative=relative, source=source)


def _no_request(source: str, number: int, line: str) -> ConfigError:
    return ConfigError(f"{source}, line {number}: {line[:80]!r} is not a time and two token counts; mend or remove it")


def _text(value: object) -> str:
    """A number or a text of JSON as CSV would have it; everything else is refused."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(value)
    return str(value)


def _count(named: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    value = next((named[name] for name in names if named.get(name) is not None), None)
    return None if value is None else _tokens([_text(value)], 0)


def _from_start(rows: Sequence[TraceRow], relative: bool, source: str) -> list[TraceRow]:
    """Sorted by arrival; a time stamp has no known origin, so the first request is taken as the start."""
    if not rows:
        raise ConfigError(f"{source}: no request in it; give at least one line below the header")
    ordered = sorted(rows, key=lambda r: r.arrival_s)
    if relative:
        return [replace(r, arrival_s=r.arrival_s - ordered[0].arrival_s) for r in ordered]
    if ordered[0].arrival_s < 0:
        raise ConfigError(f"{source}: arrival_s is negative; count it from the start of the load")
    if ordered[-1].arrival_s > MOST_S:
        raise ConfigError(
            f"{source}: arrival_s reaches {ordered[-1].arrival_s:.0f}; give seconds, at most {MOST_S:.0f}"
        )
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
    count = int(float(cells[column]))
    if count > MOST_TOKENS:
        raise ValueError(count)
    return max(1, count)
