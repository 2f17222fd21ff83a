"""The result in brief: small, and enough for the sentences of a list."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from app.start_parts import verdict_line
from app.views.verdict import verdict
from app.words import ENGLISH
from runner.brief import brief_of
from storage.side_files import SweepSummary


def listed(brief: dict[str, object] | None) -> SweepSummary:
    return SweepSummary("a", "a", "done", time.time_ns(), 8, 8, "as it was written", False, Path("a"), brief=brief)


def cell(number: int, seqs: int, budget: int, goodput: float, raw: float, share: float) -> dict[str, Any]:
    return {
        "cell": number,
        "status": "ok",
        "setting": {"max_num_seqs": seqs, "max_num_batched_tokens": budget},
        "load": {"request_rate": 2.0},
        "request_rate": 2.0,
        "goodput_per_s": goodput,
        "output_tok_per_s": raw,
        "share": share,
        "share_low": share - 0.05,
        "share_high": share,
        "judged": 200,
        "flags": [],
        "classes": {"chat": {"bulky": [0.0] * 1000}},
    }


def test_the_list_says_what_the_result_page_says() -> None:
    """Headline, share and the raw winner, from two cells, with every key that was varied in the setting's name."""
    rows = [cell(0, 8, 256, 1.0, 50, 0.99), cell(1, 8, 512, 1.9, 60, 0.98), cell(2, 8, 2048, 0.9, 90, 0.5)]
    rows.append(cell(3, 64, 512, 0.8, 70, 0.4))
    choice = {
        "setting": rows[1]["setting"],
        "load": rows[1]["load"],
        "cells": [1],
        "target_met": True,
        "share": 0.98,
        "reason": "…",
        "raw_throughput_cells": [2],
    }
    result = {"share_target": 0.9, "choice": choice, "cells": rows}
    brief = json.loads(json.dumps(brief_of(result)))
    full = verdict(result, ENGLISH)
    assert full.headline == "max_num_seqs 8, max_num_batched_tokens 512 keeps its promises at 1.90\u00a0req/s."
    assert verdict_line(listed(brief), ENGLISH) == f"{full.headline} {full.detail} {full.against_raw}"
    assert len(json.dumps(brief)) < 2500


def test_a_result_without_a_choice_says_why() -> None:
    """Nothing was measured to its end: the reason stands in place of a setting."""
    choice = {"reason": "No cell.", "reason_templates": ["No cell."], "reason_values": {}, "cells": []}
    line = verdict_line(listed(brief_of({"choice": choice, "cells": [], "share_target": 0.9})), ENGLISH)
    assert line == "No setting could be chosen. No cell."


@pytest.mark.parametrize(
    "brief", [None, {}, {"choice": 3}, {"cells": [{"cell": 1, "status": "ok", "goodput_per_s": "x"}]}]
)
def test_what_cannot_be_read_falls_back_to_the_written_verdict(brief: dict[str, object] | None) -> None:
    """Older sweeps, other versions, damage: the sentence that the runner wrote."""
    assert verdict_line(listed(brief), ENGLISH) == "as it was written"
