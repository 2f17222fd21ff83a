"""The quick check: how many people can chat with a server at once, as it is, in about 90 seconds. PURE.

It is an ordinary sweep with four short cells, so queue, live page and results are those of every sweep. Few answers
prove little: what it says is what was seen, not what is certain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.config import SweepConfig, parse_sweep

LEVELS = (1, 2, 4, 8)  # people at once
SOURCE = "quick check"  # where such a sweep came from, in its sweep.json
RUN = {
    "warmup_s": 4, "duration_s": 15, "drain_s": 12, "request_timeout_s": 120, "share_target": 0.9, "drift_check": False,
}  # fmt: skip
# short turns of a chat, so that a server of 10 tokens/s still ends some within a cell; targets: metrics page, chat
PERSON = {
    "name": "chat",
    "weight": 1,
    "prompt_tokens": {"p50": 60, "p90": 150, "max": 300},
    "output_tokens": {"p50": 32, "p90": 48, "max": 64},
    "slo": {"ttft_ms": 1000, "gap_ms": 150},
}


@dataclass(frozen=True, slots=True)
class QuickAnswer:
    """What was seen. `people`: the most at once that kept their promises, 0 of none; times are of that cell, of the
    first one when none did. `answers`: judged requests in it. `all_hold`: nothing that was tried was too much."""

    people: int
    ttft_ms: float | None
    tok_per_s: float | None  # for each person, while an answer is written
    answers: int
    all_hold: bool


def quick_check(backend: Mapping[str, Any], name: str) -> SweepConfig:
    """The sweep. `backend`: a [backend] table; the server stays as it is. Raises ConfigError, for a bad address."""
    raw = {
        "name": name,
        "backend": {key: value for key, value in backend.items() if value not in (None, "")},
        "grid": {"max_concurrency": list(LEVELS)},
        "run": RUN,
        "classes": [PERSON],
    }
    return parse_sweep(raw, name)


def is_quick_check(config: SweepConfig) -> bool:
    """True for a sweep of `quick_check`, whatever its server and name."""
    plain = quick_check({"kind": "simulated"}, "quick check")
    return (config.grid, config.run, config.classes) == (plain.grid, plain.run, plain.classes)


def quick_answer(cells: Sequence[Mapping[str, Any]], share_target: float = 0.9) -> QuickAnswer | None:
    """From the `cells` of a result object, or the lines of cells.jsonl. Null when no cell was measured.

    By the observed share, not its lower bound: for that a quick check has too few answers.
    """
    by_level = {_level(cell): cell for cell in cells if cell.get("status") == "ok" and _level(cell)}
    if not by_level:
        return None
    holding = [n for n, cell in by_level.items() if cell.get("judged") and (cell.get("share") or 0.0) >= share_target]
    people = max(holding, default=0)
    cell = by_level[people or min(by_level)]
    ttft, tpot = _median(cell, "ttft_ms"), _median(cell, "tpot_ms")
    rate = cell.get("output_tok_per_s")
    each = 1000.0 / tpot if tpot else float(rate) / (people or min(by_level)) if rate else None
    return QuickAnswer(people, ttft, each, int(cell.get("judged") or 0), people == max(by_level))


def _level(cell: Mapping[str, Any]) -> int:
    level = (cell.get("load") or {}).get("max_concurrency")
    return int(level) if isinstance(level, int | float) else 0


def _median(cell: Mapping[str, Any], key: str) -> float | None:
    value = (cell.get(key) or {}).get("p50")
    return float(value) if isinstance(value, int | float) else None
