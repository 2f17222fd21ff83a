"""Foreign JSON, read without trusting it: size, depth, numbers and texts are checked here, for all tools. PURE."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from runner.imports.model import MAX_FILE_BYTES, MAX_TOKENS, ImportFailed

MAX_TEXT = 200
MAX_DEPTH = 40
LEVELS = ("p50", "p90", "p95", "p99")
_MOST = 1e15  # no time, count or rate of a benchmark is larger


def parse_json(name: str, content: bytes) -> Any:  # noqa: ANN401  (any JSON value)
    """The value in the file; NaN and infinities are null. Lines of JSON objects become a list of them, a torn last line
    is left out. Raises ImportFailed."""
    if len(content) > MAX_FILE_BYTES:
        raise ImportFailed(
            f"{shown(name)} has {len(content) / 1e6:,.0f} MB; at most {MAX_FILE_BYTES // 10**6} are read"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ImportFailed(f"{shown(name)} is not text, so it is no result file that is known here") from None
    try:
        return loads(text)
    except RecursionError:
        raise ImportFailed(f"{shown(name)} is nested deeper than any result file") from None
    except ValueError:
        found = _objects(text.splitlines())
    if not found:
        raise ImportFailed(f"{shown(name)} is not JSON, or it is damaged; save it again")
    return found


def loads(text: str) -> Any:  # noqa: ANN401
    """JSON whose NaN and infinities are null. Raises ValueError, RecursionError."""
    return json.loads(text, parse_constant=lambda _: None)


def _objects(lines: Sequence[str]) -> list[dict[str, Any]]:
    """The objects, one a line; an empty list if a line before the last is none."""
    found: list[dict[str, Any]] = []
    told = [line for line in lines if line.strip()]
    for i, line in enumerate(told):
        try:
            value = loads(line)
        except (ValueError, RecursionError):
            return found if i == len(told) - 1 else []
        if not isinstance(value, dict):
            return []
        found.append(value)
    return found


def too_deep(value: object) -> bool:
    """Whether lists and objects stand inside each other more than MAX_DEPTH times."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def number(value: object) -> float | None:
    """A finite number of a sensible size; null for anything else, texts and truth values too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and abs(value) < _MOST else None


def positive(value: object) -> float | None:
    """A number above 0, else null."""
    found = number(value)
    return found if found is not None and found > 0 else None


def count(value: object) -> int | None:
    """A whole number from 0 on, else null."""
    found = number(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def tokens(value: object) -> int | None:
    """A count of tokens of one request. Raises ImportFailed for one that no request has."""
    found = count(value)
    if found is not None and found > MAX_TOKENS:
        raise ImportFailed(f"a request with {found:,} tokens can't be right; the file is damaged")
    return found


def ms(seconds: object) -> float | None:
    """Seconds from 0 on in ms, else null."""
    found = number(seconds)
    return found * 1000.0 if found is not None and found >= 0 else None


def text(value: object) -> str | None:
    """A short text without control characters, or null."""
    if not isinstance(value, str):
        return None
    return shown(value) or None


def shown(name: str) -> str:
    """A foreign name as it may stand in a sentence: one line, not too long."""
    plain = "".join(" " if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u2028\u2029" else c for c in name)
    plain = plain.encode("utf-8", "replace").decode().strip()
    return plain if len(plain) <= MAX_TEXT else plain[: MAX_TEXT - 1] + "…"


def scalar(value: object) -> str | int | float | bool | None:
    """A setting's value: a number, a truth value or a short text; null for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < _MOST else None
    return number(value) if isinstance(value, float) else text(value)


def part(value: object, *keys: str) -> Mapping[str, Any]:
    """The object under these keys; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """A list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def percentiles_of(told: Mapping[str, object], scale: float = 1.0) -> dict[str, float | None]:
    """p50, p90, p95, p99 and the mean in ms of an object that has them under these names."""
    names = {**{p: p for p in LEVELS}, "mean": "mean"}
    found = {key: number(told.get(name)) for key, name in names.items()}
    return {key: None if value is None else value * scale for key, value in found.items()}
