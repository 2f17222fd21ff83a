"""Two sweeps side by side, in words, rows, a figure and a terminal's table."""

import json
from functools import lru_cache
from typing import Any

from app.views.choice_notes import choice_notes, no_choice_reason
from app.views.compare import (
    comparison_figure,
    comparison_sentence,
    comparison_text,
    difference_rows,
    difference_text,
    differs_rows,
    note_sentences,
)
from app.words import Words
from runner.analysis.compare import compare
from runner.analysis.result import score
from tests.support.tables import CHAT
from tests.support.two_sweeps import quick, slow, sweep

HOSTILE = "<img src=x onerror=alert(1)>"


@lru_cache
def worse() -> dict[str, Any]:
    """One thread instead of two, and another setting that only B has."""
    a = sweep(settings=[{"threads": 2, "model": HOSTILE}])
    b = sweep([slow, quick], [{"threads": 1, "model": HOSTILE}, {"threads": 4, "model": "other"}])
    return compare([a], [b])


def test_the_sentence_says_it_with_units() -> None:
    """Names and numbers as the pages write them; the setting as B has it instead of A's."""
    assert comparison_sentence(worse()) == (
        "B is worse than A: share inside the targets 25\u00a0% instead of 100\u00a0%, with model "
        f"{HOSTILE}, threads 1 instead of 2 at 1.2 req/s."
    )


def test_rows_hold_a_line_a_metric_as_text() -> None:
    """Both values, the difference with its interval, and the verdict."""
    rows = difference_rows(worse())
    assert [r["metric"] for r in rows] == [
        "share inside the targets", "good requests per second", "TTFT P50", "TTFT P95", "gap P95",
        "output tokens per second",
    ]  # fmt: skip
    share = rows[0]
    assert (share["a"], share["b"], share["verdict"]) == ("100\u00a0%", "25\u00a0%", "worse")
    assert share["difference"].startswith("−75\u00a0points (−")


def test_differences_are_signed_and_of_a_share_in_points() -> None:
    """Percent of A for the rest; nothing where there is no number; nothing is neither plus nor minus."""
    found = {"a": 200.0, "difference": 50.0, "low": 40.0, "high": 60.0}
    assert difference_text("ttft_p50_ms", found) == "+25\u00a0% (+20 … +30)"
    assert difference_text("share", {"a": 0.9, "difference": -0.031, "low": None, "high": None}) == "−3.1\u00a0points"
    assert (
        difference_text("share", {"a": 0.9, "difference": 0.0, "low": 0.0, "high": 0.0})
        == "0.0\u00a0points (0.0 … 0.0)"
    )
    assert difference_text("share", {"a": None, "difference": None, "low": None, "high": None}) == "–"


def test_only_what_differs_is_listed() -> None:
    """A value or a list, as text."""
    assert differs_rows(worse()) == [
        {"where": "setting", "key": "threads", "a": "2", "b": "[1, 4]"},
        {"where": "setting", "key": "model", "a": HOSTILE, "b": json.dumps([HOSTILE, "other"])},
    ]


def test_notes_say_what_was_left_aside() -> None:
    """That threads were, that only B has a setting, and that many differences were looked at."""
    told = note_sentences(worse())
    assert "Matched without threads: A and B have no value of it in common." in told
    assert "Only B measured threads 4, model other at 1.2 req/s." in told


def test_the_figure_fills_what_is_beyond_noise_and_shows_names_as_text() -> None:
    """One series a point; a hollow marker where the difference is noise."""
    fig = comparison_figure(worse())
    (series,) = fig.data
    symbols = dict(zip([d[0] for d in series.customdata], series.marker.symbol, strict=True))
    assert symbols["share inside the targets"] == "circle"
    assert symbols["output tokens per second"] == "circle-open"
    assert "<img" not in json.dumps(fig.to_plotly_json(), default=str)
    assert comparison_figure(compare([sweep()], [sweep(load={"request_rate": 9.0})]), dark=True).data == ()


def test_a_terminal_gets_a_table_and_ends_with_the_verdict() -> None:
    """One line a point, columns aligned, WORSE where it is."""
    lines = comparison_text(worse()).splitlines()
    assert lines[-1] == comparison_sentence(worse())
    assert any("100\u00a0% -> 25\u00a0% WORSE" in line for line in lines)
    assert any(line.startswith("   setting threads: 2 -> [1, 4]") for line in lines)


class Shouting(Words):
    """A language that only writes in capitals."""

    def text(self, message: str, **values: object) -> str:
        return message.upper() if not values else super().text(message, **values)


def test_what_stands_beside_the_choice_is_translated() -> None:
    """The runner-up by its own name, and why nothing could be chosen."""
    result = score(sweep([quick, quick], [{"max_num_seqs": 4}, {"max_num_seqs": 8}]))
    assert choice_notes(result) == [
        "Next came max_num_seqs 8 at 1.2 req/s with 1.20 good requests per second; the difference is noise."
    ]
    nothing = score(sweep(classes=[{**CHAT, "slo": None}]))
    assert no_choice_reason(nothing["choice"]) == nothing["choice"]["reason"]
    assert "slo = { ttft_ms = 1000, gap_ms = 150 }" in nothing["choice"]["reason"]
    untouched = {"reason_templates": ["nothing here"], "reason_values": {}}
    assert no_choice_reason(untouched, Shouting()) == "NOTHING HERE"


def test_the_share_of_each_class_stands_below_the_metrics() -> None:
    """Where a sweep has several: a row each on the page, and a line each below the point in a terminal."""
    two = {"classes": [CHAT, {**CHAT, "name": "rag"}], "class_of": lambda i: ("chat", "rag")[i % 2]}
    a, b = sweep(**two), sweep([lambda i: (1500.0 if i % 4 == 1 else 100.0, [20.0])], **two)
    found = compare([a], [b])
    *_, chat, other = difference_rows(found)
    assert (chat["metric"], chat["b"], chat["verdict"]) == ("share inside the targets of chat", "100\u00a0%", "noise")
    assert (other["metric"], other["b"], other["verdict"]) == ("share inside the targets of rag", "50\u00a0%", "worse")
    lines = comparison_text(found).splitlines()
    assert any(line.startswith("  of rag ") and line.endswith("100\u00a0% -> 50\u00a0% WORSE") for line in lines)
    assert comparison_sentence(found).startswith("B is worse than A: share inside the targets 75\u00a0% instead of 100")
