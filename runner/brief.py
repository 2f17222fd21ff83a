"""A result in brief, for the list of sweeps: the choice, its cell and the one with the most raw output. PURE.

Kept in state.json, so that a list can say its verdicts in any language without opening a database.
"""

from collections.abc import Mapping, Sequence
from typing import Any

CHOICE = ("setting", "load", "cells", "target_met", "share", "reason", "reason_templates", "reason_values")
CELL = (
    "cell", "status", "setting", "load", "request_rate", "repeat", "goodput_per_s", "share", "share_low", "share_high",
    "judged", "scheduled", "output_tok_per_s", "ttft_ms", "flags",
)  # fmt: skip


def brief_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result object with no more than a sentence or two about it need: `share_target`, `choice`, and those of its
    `cells` that the choice and the most raw output were taken from. Of some others the setting alone, so that it can
    still be seen which keys were varied."""
    choice, rows = result["choice"], result["cells"]
    wanted = {*(choice.get("cells") or ()), *(choice.get("raw_throughput_cells") or ())}
    kept = [row for row in rows if row["cell"] in wanted]
    return {
        "share_target": result.get("share_target"),
        "choice": {key: choice.get(key) for key in CHOICE},
        "cells": [{key: row.get(key) for key in CELL} for row in kept] + _others(rows, choice.get("setting") or {}),
    }


def _others(rows: Sequence[Mapping[str, Any]], setting: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each varied key the first setting that differs in it from the chosen one."""
    differing = [next((r["setting"] for r in rows if r["setting"].get(k) != v), None) for k, v in setting.items()]
    return [{"setting": other} for other in differing if other is not None]
