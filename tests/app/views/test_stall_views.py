"""Freezes and what lies beside them, in words, rows and a figure."""

import json

import pandas as pd
import pytest

from app.views.interference import cause_rows, interference_figure, interference_sentence
from app.views.stalls import stall_rows, stall_sentence
from runner.analysis.interference import Interference, interference
from runner.analysis.prepare import prepare
from runner.analysis.stalls import stalled_requests
from runner.config import Slo
from tests.app.views.made_up import HOSTILE, made_up_tables
from tests.support.tables import CHAT, make_config, make_request, make_tables

TARGETS = {"chat": Slo(ttft_ms=1000, gap_ms=150), "rag": Slo(ttft_ms=3000, gap_ms=150)}


def frozen(name: str = "rag") -> tuple[pd.DataFrame, Interference]:
    """A chat frozen for 400 ms of which 300 lie inside another's prefill."""
    requests = [
        make_request(0, at_ms=1000, ttft_ms=100, gaps_ms=[20.0] * 30 + [400.0]),
        make_request(1, at_ms=1800, ttft_ms=300, class_name=name, prompt_tokens=3000),
    ]
    ready = prepare(make_tables(requests, config=make_config(classes=[CHAT, {**CHAT, "name": "rag", "slo": None}])))
    found = interference(ready, {"chat": TARGETS["chat"]}, 0)
    assert found is not None
    return stalled_requests(ready, TARGETS), found


def test_stalls_are_told_as_a_sentence_and_rows() -> None:
    """Numbers for links stay numbers, everything else is text with units."""
    stalls, _ = frozen()
    assert stall_sentence(stalls) == (
        "1 request passes by its mean and froze all the same: for 400\u00a0ms, with a target of 150\u00a0ms."
    )
    (row,) = stall_rows(stalls)
    assert (row["cell"], row["request"], row["longest_gap"], row["at"]) == (0, 0, "400\u00a0ms", "1.7 s")
    assert stall_sentence(stalls.head(0)) is None


def test_the_cause_is_named_with_what_chance_would_give() -> None:
    """75 % beside prefills of a class, 30 % by chance; without any long gap the sentence says so."""
    _, found = frozen()
    assert interference_sentence(found) == (
        "1 gap was over its target, for 400\u00a0ms: 75\u00a0% of that time lies inside prefills of rag requests, by "
        "chance it would be 30\u00a0%."
    )
    gap = found.gaps.iloc[0]
    assert (gap["by_request"], gap["by_class"], gap["prompt_tokens"]) == (1, "rag", 3000)
    assert gap["overlap_ms"] == pytest.approx(300)
    assert [r["class_name"] for r in cause_rows(found)] == ["chat", "rag"]


def test_a_made_up_sweep_shows_rag_prompts_freezing_chats() -> None:
    """Prompts of 3,000 tokens read in pieces of 2,048 take 250 ms each: the longest gaps of chats lie beside them."""
    ready = prepare(made_up_tables((8,), (256, 2048), (2.0,)))
    calm, rough = (interference(ready, TARGETS, cell) for cell in (0, 1))
    assert calm is not None
    assert rough is not None
    assert rough.stalled_ms > 2 * calm.stalled_ms
    rag = next(c for c in rough.by_class if c.class_name == "rag")
    assert rag.explained > 1.5 * rag.expected
    fig = interference_figure(rough)
    assert len(fig.data) >= 3
    assert len(json.dumps(fig.to_plotly_json(), default=str)) < 400_000


def test_class_names_are_text_in_the_figure() -> None:
    """A name from a file is never markup."""
    _, found = frozen(HOSTILE)
    assert "<img" not in json.dumps(interference_figure(found, dark=True).to_plotly_json(), default=str)
