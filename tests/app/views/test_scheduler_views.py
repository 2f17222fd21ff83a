"""Schedulers side by side: who is said to win, what is drawn, what a budget is worth."""

from typing import Any

import pytest

from app.views.schedulers import (
    budget_sentences,
    goodput_by_load_figure,
    reason_rows,
    title_of,
    winner_sentences,
)
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.schedulers.by_name import SCHEDULERS
from runner.what_if import Misses


def cell(number: int, name: str, rate: float, share: float, raw: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "cell": number, "setting": {"scheduler": name}, "load": {"request_rate": rate}, "repeat": 0, "status": "ok",
        "flags": [], "share": share, "share_low": share - 0.02, "share_high": share + 0.01, "judged": 100,
        "goodput_per_s": rate * share, "output_tok_per_s": raw, "classes": {"chat": {"share": share}},
        "ttft_ms": {"p95": 500.0}, "gap_ms": {"p99": 40.0}, **more,
    }  # fmt: skip


def result(*cells: dict[str, Any], pick: int | None = 0, met: bool = True) -> dict[str, Any]:
    chosen = next((c for c in cells if c["cell"] == pick), None)
    choice = {"setting": chosen["setting"], "cells": [pick], "target_met": met} if chosen else {"reason": "All failed."}
    targets = {"chat": {"ttft_ms": 1000, "gap_ms": 150}}
    return {"cells": list(cells), "choice": choice, "targets": targets, "share_target": 0.9}


def test_the_winner_is_named_by_goodput_and_the_raw_winner_as_what_not_to_pick() -> None:
    """One sentence each: who wins with how much, who is as good, whom raw tokens would have picked."""
    told = winner_sentences(
        result(cell(0, "vllm_v1", 3, 0.98, 600), cell(1, "sarathi", 3, 0.97, 600), cell(2, "orca", 3, 0.4, 650))
    )
    plain = [s.replace("\u00a0", " ") for s in told]
    assert plain == [
        "vllm_v1 wins: at 3 req/s it keeps 98 % of requests inside their targets, 2.94 req/s.",
        "As good there, within the noise: sarathi.",
        "Do not pick orca at 3 req/s, which makes the most raw tokens, 650 tok/s: only 40 % stay inside.",
    ]


def test_raw_tokens_that_are_alike_are_said_to_be() -> None:
    """The winner has the most raw tokens too, but next to as many come from one that misses the targets."""
    told = winner_sentences(result(cell(0, "vllm_v1", 3, 0.98, 600), cell(1, "vllm_v0", 3, 0.4, 590)))
    assert told[-1].replace("\u00a0", " ") == (
        "Raw tokens do not tell them apart: vllm_v0 makes 590 tok/s at 3 req/s and it 600 tok/s, but do not pick "
        "vllm_v0: only 40 % stay inside."
    )
    far = winner_sentences(result(cell(0, "vllm_v1", 3, 0.98, 600), cell(1, "vllm_v0", 3, 0.4, 500)))
    assert far[-1] == "It also makes the most raw tokens."


def test_a_missed_target_is_said_first() -> None:
    """Nobody is said to win who keeps less than was wanted."""
    told = winner_sentences(result(cell(0, "vllm_v1", 3, 0.6, 600), met=False))
    assert told[0].startswith("None keeps 90\u00a0% for sure. vllm_v1 has the most good requests: at 3 req/s 60")
    assert told[1] == "It also makes the most raw tokens."
    unsure = winner_sentences(result(cell(0, "vllm_v1", 3, 0.91, 600), met=False))
    assert unsure[1] == "Some may, at some load: take more requests to be sure."
    nothing = winner_sentences(result(cell(0, "vllm_v1", 3, 0.0, 600), met=False))
    assert nothing == ["None keeps these targets on this machine: every request misses them, at every load."]


def test_two_machines_are_said_where_one_is_compared_with_them() -> None:
    """distserve has twice the hardware."""
    assert winner_sentences(result(cell(0, "distserve", 3, 1.0, 600)))[0].startswith("distserve (two machines) wins")


def test_a_batch_that_answers_at_once_is_nobody_else_s_fault() -> None:
    """The remark does not send people looking for a proxy that buffers."""
    flags = {"flags": ["overload", "stream_buffered"]}
    (row,) = reason_rows(result(cell(0, "static", 3, 0.0, 600, **flags)), {}, {"request_rate": 3})
    assert row["remark"] == "not sustainable: the queue keeps growing; answers come in one piece"


def test_the_same_scheduler_under_too_much_load_is_not_called_another() -> None:
    """More load gives more raw tokens; that is a warning about the load, not about the scheduler."""
    told = winner_sentences(result(cell(0, "vllm_v1", 3, 0.98, 600), cell(1, "vllm_v1", 5, 0.3, 700)))
    assert told[-1].replace("\u00a0", " ") == (
        "Do not pick it for 5 req/s, where it makes the most raw tokens, 700 tok/s: only 30 % stay inside."
    )


def test_without_anything_to_judge_it_says_so() -> None:
    """No cell to choose from: the reason of the analysis; no targets: that."""
    failed = cell(0, "static", 1, 0.0, 0.0, status="failed", goodput_per_s=None)
    assert winner_sentences(result(failed, pick=None))[1] == "All failed."
    assert "No class has targets" in winner_sentences({**result(failed, pick=None), "targets": {}})[0]


def test_the_figure_has_a_line_a_scheduler_and_the_frontier_over_them() -> None:
    """Colour, marker and dash differ; the frontier takes the best valid point of each load; doubt is hollow."""
    over = cell(3, "orca", 4, 0.9, 800, flags=["overload"])
    fig = goodput_by_load_figure(
        result(cell(0, "vllm_v1", 2, 1.0, 300), cell(1, "vllm_v1", 4, 0.5, 600), cell(2, "orca", 2, 0.5, 300), over)
    )
    by_role: dict[str, list[Any]] = {}
    for trace in fig.data:
        by_role.setdefault(trace.meta["role"], []).append(trace)
    frontier = by_role["frontier"][0]
    assert (list(frontier.x), list(frontier.y)) == ([2.0, 4.0], [2.0, 2.0])
    lines = by_role["scheduler"]
    assert [t.name for t in lines] == ["vllm_v1 (chunked prefill)", "orca (iteration-level)"]
    assert len({(t.line.color, t.line.dash) for t in lines}) == 2
    assert [s.endswith("-open") for s in lines[1].marker.symbol] == [False, True]
    assert list(by_role["offered"][0].y) == [2, 4]
    assert fig.layout.xaxis.title.text == "offered load (requests/s)"


def test_the_table_says_what_each_one_misses() -> None:
    """At one load, a row each; the load it sustains is over all of its loads."""
    cells = (cell(0, "vllm_v1", 2, 1.0, 300), cell(1, "vllm_v1", 4, 0.5, 600), cell(2, "orca", 4, 0.4, 600))
    rows = reason_rows(result(*cells), {1: Misses(0.1, 0.45)}, {"request_rate": 4})
    told = [{k: str(v).replace("\u00a0", " ") for k, v in row.items()} for row in rows]
    assert [r["scheduler"] for r in told] == ["vllm_v1", "orca"]
    assert (told[0]["late first words"], told[0]["stalled"]) == ("10 %", "45 %")
    assert (told[0]["keeps its promises up to"], told[1]["keeps its promises up to"]) == ("2 req/s", "–")
    assert told[1]["stalled"] == "–"


@pytest.mark.parametrize(
    ("budget", "verdict"),
    [(80, "keep to it"), (100, "too many for a full batch"), (300, "holds up every answer beside it")],
)
def test_a_budget_is_held_against_the_gap_target(budget: int, verdict: str) -> None:
    """(150 - 10 - c·B - d·K) / 1 tokens: 138 beside one answer of 100 tokens, 90 beside 32 (30 and 20 ms less)."""
    cost = CostModel(a=10, b=1, c=0.9375, d=0.00625)
    told = budget_sentences(EngineProfile(cost, 100_000, False, "a run"), 150, budget, 32, 100)
    assert "138 beside one answer, 90 beside 32" in told[0]
    assert verdict in told[0]
    assert told[1] == "Speed from: a run."


def test_an_estimate_is_called_one_and_a_free_prompt_has_no_budget() -> None:
    """The label stands where no measured row is behind the speed."""
    assert budget_sentences(EngineProfile(CostModel(a=10, b=0), 100, False, "x"), 150, 1, 1, 1) == []
    told = budget_sentences(EngineProfile(CostModel(a=10, b=1), 100, True, "estimate, scaled from y"), 150, 1, 1, 1)
    assert told[1] == "Estimate, nothing was measured on such a machine: scaled from y."


def test_every_scheduler_has_an_idea_in_words() -> None:
    """The list of the engine and the words of the page go together."""
    assert all(title_of(name) != name for name in SCHEDULERS)
