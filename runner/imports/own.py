"""Our own JSON export and the result in a shared page, when they come back from somebody else. PURE.

They look like ours and may not be: what the pages rely on is checked here once, and nothing is changed, so that a
result comes back as it went out.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from runner.config import GapRule
from runner.imports.model import ImportFailed
from runner.imports.reading import parse_json, shown, too_deep

FORMAT, VERSION = "goodput-export", 1
MARK = f'"{FORMAT}"'.encode()
MOST_CELLS = 50_000
_NUMBERS = (
    "request_rate", "offered_rate", "scheduled", "completed", "failed", "cancelled", "rejected", "output_tok_per_s",
    "prompt_tok_per_s", "request_per_s", "goodput_per_s", "share", "share_low", "share_high", "met", "judged",
    "design_effect", "cold_loads", "cold_load_max_ms", "kernel_stamp_share", "send_lag_p99_ms",
)  # fmt: skip
_PERCENTILES = ("ttft_ms", "gap_ms", "tpot_ms", "e2e_ms")
_OBJECTS = ("backend", "environment", "targets", "choice", "isolation")


def is_export(content: bytes) -> bool:
    """Whether a file begins as our export does."""
    return MARK in content[:200]


def read_export(name: str, content: bytes) -> dict[str, Any]:
    """The export as an object: {"result", "config", "tables"}. Raises ImportFailed."""
    value = parse_json(name, content)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ImportFailed(f"{shown(name)} is not an export of Goodput Lab")
    if not isinstance(value.get("version"), int) or value["version"] > VERSION:
        raise ImportFailed(f"{shown(name)} is from a later version of Goodput Lab; update to read it")
    check_result(name, value.get("result"))
    return value


def check_result(name: str, result: object) -> None:
    """Raises ImportFailed unless `result` has the shape of a result object."""
    if not isinstance(result, dict) or too_deep(result) or not _is_result(result):
        raise ImportFailed(f"the sweep in {shown(name)} is damaged or is none of Goodput Lab; save it again")


def _is_result(result: Mapping[str, Any]) -> bool:
    cells = result.get("cells")
    if not isinstance(cells, list) or len(cells) > MOST_CELLS or not all(is_cell(c) for c in cells):
        return False
    numbers = [c["cell"] for c in cells]
    named = all(isinstance(result.get(key) or "", str) for key in ("name", "sweep_id", "status"))
    whole = all(isinstance(result.get(key) or {}, dict) for key in _OBJECTS)
    lists = all(_objects(result.get(key)) for key in ("warnings", "bounds", "max_rates"))
    if not (named and whole and lists and len(set(numbers)) == len(numbers) and _number(result.get("share_target"))):
        return False
    choice = result.get("choice") or {}
    told = choice.get("setting") or {}
    return _are_targets(result.get("targets") or {}) and isinstance(told, dict) and _whole(choice.get("cells") or [])


def _are_targets(targets: Mapping[str, Any]) -> bool:
    rules = (None, *get_args(GapRule))
    return all(
        isinstance(t, dict) and _above_0(t.get("ttft_ms")) and _above_0(t.get("gap_ms")) and t.get("rule") in rules
        for t in targets.values()
    )


def is_cell(cell: object) -> bool:
    """Whether it has the shape of a row of `cells[]`: also a line of cells.jsonl, which another version may write."""
    if not isinstance(cell, dict) or not _whole([cell.get("cell")]) or not isinstance(cell.get("status"), str):
        return False
    classes = cell.get("classes") or {}
    parts = [cell, *classes.values()] if isinstance(classes, dict) else [None]
    return (
        _scalars(cell.get("setting"))
        and _scalars(cell.get("load"))
        and _whole([cell.get("repeat") or 0])
        and all(isinstance(f, str) for f in cell.get("flags") or [])
        and _objects(cell.get("warnings"))
        and all(isinstance(p, dict) and _has_numbers(p) for p in parts)
        and _numbers_in(cell.get("engine"), texts=True)
    )


def _has_numbers(part: Mapping[str, Any]) -> bool:
    levels = [part.get(key) for key in _PERCENTILES]
    return all(_number(part.get(key)) for key in _NUMBERS) and all(map(_is_levels, levels))


def _is_levels(value: object) -> bool:
    """Percentiles with their bounds; `needs` tells how many values those without bounds would need."""
    known = value or {}
    needs = known.get("needs") if isinstance(known, dict) else None
    return _numbers_in(needs) and isinstance(known, dict) and _numbers_in({**known, "needs": None})


def _numbers_in(value: object, *, texts: bool = False) -> bool:
    known = value or {}
    return isinstance(known, dict) and all(_number(v) or (texts and isinstance(v, str)) for v in known.values())


def _number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _above_0(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _scalars(value: object) -> bool:
    known = value or {}
    return isinstance(known, dict) and all(v is None or isinstance(v, str | int | float) for v in known.values())


def _whole(values: Iterable[object]) -> bool:
    return isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)


def _objects(value: object) -> bool:
    return isinstance(value or [], list) and all(isinstance(v, dict) for v in value or [])  # type: ignore[attr-defined]
