"""A shared page that came back is scored again as its sliders would, without a browser."""

from typing import Any

import pytest

from app.export.rescore import rescore_page
from app.export.tallies import make_tallies
from runner.analysis.result import score
from runner.config import Slo
from storage.errors import StorageError
from tests.app.export.random_sweeps import TARGETS, made, scored

TOLD = ("goodput_per_s", "share", "share_low", "share_high", "met", "judged", "on_frontier")


def page_of(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Result and tallies as a page holds them."""
    cells = made(seed).cells
    windows, crowds = {f.cell: 100.0 for f in cells}, {f.cell: f.crowds for f in cells}
    result = score(made(seed))
    tallies = make_tallies(result, made(seed).requests, windows, crowds)
    assert tallies is not None
    return result, tallies


@pytest.mark.parametrize("seed", range(6))
def test_other_targets_give_what_the_requests_give(seed: int) -> None:
    """Shares, intervals, frontier and pick are those of scoring the requests anew, at every step."""
    result, tallies = page_of(seed)
    for at in range(len(TARGETS)):
        targets, alpha, expected = scored(seed, at)
        found = rescore_page(result, tallies, targets=targets, share_target=alpha)
        for mine, theirs in zip(found["cells"], expected["cells"], strict=True):
            assert {k: mine[k] for k in TOLD} == pytest.approx({k: theirs[k] for k in TOLD})
            assert mine["flags"] == theirs["flags"]
        for key in ("setting", "load", "cells", "target_met", "reason"):
            assert found["choice"][key] == expected["choice"][key], (at, key)


def test_targets_between_steps_take_the_step_below() -> None:
    """What was taken is told; a class that is not asked for keeps its own targets."""
    result, tallies = page_of(0)
    found = rescore_page(result, tallies, targets={"chat": Slo(ttft_ms=1100, gap_ms=160)})
    assert (found["targets"]["chat"]["ttft_ms"], found["targets"]["chat"]["gap_ms"]) == (1000, 150)
    assert found["targets"]["rag"]["ttft_ms"] == 3000
    assert found["choice"]["cells"] == result["choice"]["cells"]


@pytest.mark.parametrize(
    "damage",
    [
        {"classes": []},
        {"cells": {"0": {}}},
        {"cells": {"0": {"window_s": 1, "n_eff": [1], "rows": [["x"]], "order": None}}},
        {"cells": []},
    ],
)
def test_damaged_counts_are_one_sentence(damage: dict[str, Any]) -> None:
    """Whatever stands in a page, it is told to be damaged."""
    result, tallies = page_of(0)
    with pytest.raises(StorageError, match="damaged"):
        rescore_page(result, {**tallies, **damage})
