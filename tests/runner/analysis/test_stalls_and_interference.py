"""Freezes that a mean hides, and whose prefill they lie beside: hand-made timelines with known answers."""

from typing import Any

import numpy as np
import pytest

from runner.analysis.interference import Interference, interference
from runner.analysis.prepare import Prepared, prepare
from runner.analysis.stalls import stalled_requests
from runner.config import Slo
from storage.records import RequestRecord
from tests.support.tables import CHAT, make_config, make_request, make_tables

RAG = {**CHAT, "name": "rag", "slo": None}
TARGETS = {"chat": Slo(ttft_ms=1000, gap_ms=150)}


def prepared(requests: list[RequestRecord]) -> Prepared:
    return prepare(make_tables(requests, config=make_config(classes=[CHAT, RAG])))


def chat(request: int, at_ms: float, gaps_ms: list[float], **changes: Any) -> RequestRecord:  # noqa: ANN401
    return make_request(request, at_ms=at_ms, ttft_ms=100.0, gaps_ms=gaps_ms, **changes)


def rag(request: int, at_ms: float, ttft_ms: float) -> RequestRecord:
    return make_request(request, at_ms=at_ms, ttft_ms=ttft_ms, gaps_ms=[10.0], class_name="rag", prompt_tokens=3000)


def test_a_freeze_behind_a_good_mean_is_listed_with_its_moment() -> None:
    """Twenty gaps of 20 ms and one of 400: mean 38 ms, in target; the freeze begins 300 ms after arrival at 5 s."""
    found = stalled_requests(prepared([chat(0, 5000, [20.0] * 10 + [400.0] + [20.0] * 10)]), TARGETS)
    (row,) = found.to_dict("records")
    assert row == {
        "cell": 0, "request": 0, "class_name": "chat", "scheduled_s": 5.0, "longest_gap_ms": 400.0,
        "at_s": pytest.approx(5.3), "tpot_ms": pytest.approx(800 / 21), "gap_target_ms": 150.0, "long_gaps": 1,
        "stalled_ms": 400.0,
    }  # fmt: skip


def test_only_hidden_freezes_are_listed_the_longest_first() -> None:
    """Not who is slow on the mean as well, not who is late, not background work, not one long gap of 200."""
    requests = [
        chat(0, 1000, [20.0] * 20 + [300.0]),
        chat(1, 2000, [20.0] * 20 + [500.0, 200.0]),
        chat(2, 3000, [200.0] * 10),  # slow throughout
        make_request(3, at_ms=4000, ttft_ms=1500, gaps_ms=[20.0] * 20 + [300.0]),  # late
        make_request(4, at_ms=5000, ttft_ms=100, gaps_ms=[20.0] * 20 + [300.0], class_name="rag"),
        chat(5, 6000, [20.0] * 200 + [300.0]),  # one gap in 201 is within the rule
        chat(6, 7000, [20.0] * 20),
    ]
    found = stalled_requests(prepared(requests), TARGETS)
    assert found["request"].tolist() == [1, 0]
    assert found["long_gaps"].tolist() == [2, 1]
    assert found["stalled_ms"].tolist() == [700.0, 300.0]


def test_nothing_stalled_is_an_empty_table() -> None:
    """With its columns; the same for a cell that is not there."""
    for found in (
        stalled_requests(prepared([chat(0, 1000, [20.0])]), TARGETS),
        stalled_requests(prepared([chat(0, 1000, [20.0] * 9 + [400.0])]), TARGETS, cell=7),
        stalled_requests(prepared([]), TARGETS),
    ):
        assert len(found) == 0
        assert "stalled_ms" in found.columns


def looked_at(requests: list[RequestRecord]) -> Interference:
    found = interference(prepared(requests), TARGETS, 0)
    assert found is not None
    return found


def test_a_gap_beside_a_prefill_is_laid_to_it() -> None:
    """A chat of 1 s between tokens, 400 ms of them in one gap; a RAG prompt is read from 100 ms before that gap's end
    minus 300 to its end: 300 of 400 ms explained, and 300 of 1000 by chance."""
    # tokens at 1.1 s, then 30 gaps of 20 ms to 1.7 s, then the freeze from 1.7 to 2.1 s
    found = looked_at([chat(0, 1000, [20.0] * 30 + [400.0]), rag(1, 1800, 300.0)])
    assert (found.long_gaps, found.stalled_ms) == (1, 400.0)
    assert found.explained == pytest.approx(0.75)
    assert found.expected == pytest.approx(0.30)
    causes = {c.class_name: c for c in found.by_class}
    assert (causes["rag"].explained, causes["rag"].prefills) == (pytest.approx(0.75), 1)
    assert causes["chat"].explained == 0.0
    (gap,) = found.gaps.to_dict("records")
    assert (gap["request"], gap["by_request"], gap["by_class"], gap["prompt_tokens"]) == (0, 1, "rag", 3000.0)
    assert gap["at_s"] == pytest.approx(1.7)
    assert gap["overlap_ms"] == pytest.approx(300.0)


def test_prefills_that_overlap_each_other_count_once() -> None:
    """Two prompts read at the same time explain no more than the time they took together."""
    found = looked_at([chat(0, 1000, [20.0] * 30 + [400.0]), rag(1, 1800, 200.0), rag(2, 1900, 200.0)])
    assert found.explained == pytest.approx(0.75)


def test_a_queue_that_is_always_there_explains_no_more_than_chance() -> None:
    """A RAG request that waits all the time lies beside every gap, short or long: 1 against 1."""
    found = looked_at([chat(0, 1000, [20.0] * 30 + [400.0]), rag(1, 0, 50_000.0)])
    assert (found.explained, found.expected) == (pytest.approx(1.0), pytest.approx(1.0))


def test_other_chats_are_told_apart_from_other_classes() -> None:
    """Alone in its class a chat can be frozen by another chat's prompt: told for the class, not as another's."""
    found = looked_at([chat(0, 1000, [20.0] * 30 + [400.0]), make_request(1, at_ms=1700, ttft_ms=400)])
    assert (found.explained, found.expected) == (None, None)
    assert found.by_class[0].explained == pytest.approx(1.0)
    assert found.gaps["by_class"].tolist() == ["chat"]


def test_gaps_beside_nothing_are_laid_to_nobody() -> None:
    """And without long gaps there is nothing to explain."""
    alone = looked_at([chat(0, 1000, [20.0] * 30 + [400.0])])
    assert alone.gaps["by_request"].tolist() == [None]
    calm = looked_at([chat(0, 1000, [20.0] * 30), rag(1, 1200, 50.0)])
    assert (calm.long_gaps, calm.stalled_ms, calm.explained) == (0, 0.0, 0.0)


def test_a_cell_without_streams_has_no_interference() -> None:
    """Not measured, no such cell, nothing but background."""
    assert interference(prepared([rag(0, 1000, 100.0)]), TARGETS, 0) is None
    assert interference(prepared([]), TARGETS, 0) is None
    assert interference(prepared([chat(0, 1000, [20.0])]), TARGETS, 9) is None


def test_random_timelines_agree_with_looking_at_every_moment() -> None:
    """Explained time by sums over sorted intervals equals counting 1 ms steps, within their width."""
    random = np.random.default_rng(3)
    requests = [chat(i, 1000 * i, random.choice([20.0, 240.0], 20).tolist()) for i in range(10)]
    requests += [
        rag(100 + i, float(random.integers(0, 12_000)), float(random.integers(20, 900))) for i in range(12)
    ]  # fmt: skip
    found = looked_at(requests)
    busy = np.zeros(20_000, dtype=bool)
    for p in found.prefills[found.prefills["class_name"] == "rag"].to_dict("records"):
        busy[round(1000 * p["from_s"]) : round(1000 * p["to_s"])] = True
    inside = sum(
        busy[round(1000 * g["at_s"]) : round(1000 * g["at_s"] + g["gap_ms"])].sum()
        for g in found.gaps.to_dict("records")
    )
    assert found.explained == pytest.approx(inside / found.stalled_ms, abs=0.01)
