"""The result in brief: small, and enough for the sentences of a list."""

import json
import time
from pathlib import Path

import pytest

from app.start_parts import verdict_line
from app.views.verdict import verdict
from app.words import ENGLISH
from runner.brief import brief_of
from storage.side_files import SweepSummary
from tests.app.views.made_up import made_up_result


def listed(brief: dict[str, object] | None) -> SweepSummary:
    return SweepSummary("a", "a", "done", time.time_ns(), 8, 8, "as it was written", False, Path("a"), brief=brief)


def test_the_list_says_what_the_result_page_says() -> None:
    """Headline, share and the raw winner, from two or three cells instead of all."""
    result = made_up_result()
    brief = json.loads(json.dumps(brief_of(result)))
    full = verdict(result, ENGLISH)
    assert len(brief["cells"]) < len(result["cells"])
    assert len(json.dumps(brief)) < 6000
    assert str(verdict_line(listed(brief), ENGLISH)).startswith(f"{full.headline} {full.detail}")


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
