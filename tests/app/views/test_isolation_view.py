"""The isolation section as figure, rows and sentence."""

import gettext
from typing import Any

from app.views.isolation import (
    arm_title,
    gap_sentences,
    has_isolation,
    isolation_figure,
    isolation_rows,
    verdict_sentence,
)
from app.words import Words, load_words
from runner.analysis.isolation_texts import TEXTS
from tests.app.views.made_up import HOSTILE


class Header(gettext.NullTranslations):
    """A catalogue without a translation, as gettext reads one."""

    def gettext(self, message: str) -> str:
        return message or "Content-Type: text/plain"


def arm(name: str, kind: str, share: float, ends_s: float | None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    work = {"jobs": 9, "completed": 9, "failed": 0, "makespan_s": ends_s, "projected": False, "output_tok_per_s": 5.0}
    told = {"arm": name, "kind": kind, "cap": None, "share": share, "share_low": share - 0.1, "share_high": 1.0}
    differs = {"difference": 0.4, "difference_low": 0.3, "difference_high": 0.5, "difference_p": 0.01}
    return {
        **told, **differs, "judged": 50, "meets_target": share > 0.9,
        "background": None if kind == "alone" else {**work, **more.pop("work", {})}, **more,
    }  # fmt: skip


def isolation(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  (any key)
    as_is = arm("as it is", "as_is", 0.5, 60.0, difference=None)
    arms = [
        arm("alone", "alone", 1.0, None),
        as_is,
        arm("cap 4", "cap", 0.95, 120.0, cap=4, work={"projected": True}),
        arm("cap 4 + server priority", "cap_priority", 0.96, 119.0, cap=4, difference_p=0.2),
    ]
    values = {
        "arm": "Cap 4", "background": "indexing", "chats": "chat", "share": "95 %", "was": "50 %", "low": "85 %",
        "high": "100 %", "now": "~2.0", "before": "1.0", "unit": "min", "target": "90 %", "n": 50, "alone": "100 %",
    }  # fmt: skip
    told = {
        "background": "indexing", "interactive": ["chat"], "share_target": 0.9, "arms": arms, "arm": "cap 4",
        "verdict": "arm", "reason_templates": [TEXTS["arm"], TEXTS["takes"]], "reason_values": values,
    }  # fmt: skip
    return {**told, **changes}


def trace(figure: Any, role: str) -> Any:  # noqa: ANN401  (a plotly trace)
    return next(t for t in figure.data if t.meta["role"] == role)


def test_share_and_cost_of_every_way_stand_side_by_side() -> None:
    """In percent and, from a minute and a half on, in minutes; without background there is nothing to take time."""
    figure = isolation_figure(isolation())
    assert list(trace(figure, "share").x) == [100.0, 50.0, 95.0, 96.0]
    assert list(trace(figure, "cost").x) == [None, 1.0, 2.0, 119 / 60]
    assert list(trace(figure, "share").y) == ["without background", "as it is", "cap 4", "cap 4 and server<br>priority"]
    assert list(trace(figure, "share").marker.symbol) == ["circle", "circle", "star", "circle"]
    assert list(trace(figure, "cost").marker.pattern.shape) == ["", "", "/", ""]


def test_background_without_an_end_is_shown_by_what_it_writes() -> None:
    """Tokens a second in place of minutes."""
    found = isolation(
        arms=[arm("as it is", "as_is", 0.5, None, difference=None), arm("cap 4", "cap", 0.9, None, cap=4)]
    )
    figure = isolation_figure(found)
    assert list(trace(figure, "cost").x) == [5.0, 5.0]
    assert "tok/s" in figure.layout.xaxis2.title.text


def test_the_rows_say_what_is_noise_and_what_is_projected() -> None:
    """A row a way, in words."""
    _, as_is, cap, both = isolation_rows(isolation())
    assert as_is["against as it is"] == "–"
    assert cap["against as it is"] == "40 points (30 to 50)"
    assert both["against as it is"] == "40 points (30 to 50): noise"
    assert (as_is["indexing takes"], cap["indexing takes"]) == ("60.0\xa0s", "~2.0\xa0min")
    assert (as_is["keeps the target"], cap["keeps the target"]) == ("not proven", "yes")


def test_the_sentence_is_the_one_of_the_result() -> None:
    """Put together from its templates, so that it can be translated."""
    assert verdict_sentence(isolation()) == (
        "Cap 4: chat share 95 % instead of 50 % (95 % interval 85 % to 100 %), indexing takes ~2.0 instead of 1.0 min."
    )


def test_the_sentence_is_of_one_language() -> None:
    """The way and the numbers in it too."""
    told = verdict_sentence(isolation(), load_words("pl"))
    assert told.startswith("Limit 4: ")
    assert "~2,0 zamiast 1,0 min" in told


def test_an_empty_clause_is_never_looked_up() -> None:
    """A catalogue answers the empty text with its own header."""
    words = Words(catalogue=Header())
    told = verdict_sentence(isolation(reason_templates=[TEXTS["noise"], TEXTS["costs_nothing"]]), words)
    assert "Content-Type" not in told
    assert told.startswith("The difference is noise")


def test_other_settings_keep_their_name_and_names_stay_text() -> None:
    """A class may be called anything in a result that came from elsewhere."""
    assert arm_title(arm("cap 4 + max_num_seqs 64", "setting", 0.9, 1.0)) == "cap 4 + max_num_seqs 64"
    both = arm("cap 4 + server priority + max_num_seqs 64", "setting", 0.9, 1.0)
    assert arm_title(both, load_words("pl")) == "limit 4 + priorytet na serwerze + max_num_seqs 64"
    figure = isolation_figure(isolation(background=HOSTILE, interactive=[HOSTILE]))
    assert "<img" not in figure.to_json()


def test_a_sweep_that_held_nothing_back_has_no_section() -> None:
    """The key is only there when there is something to say."""
    assert has_isolation({"isolation": isolation()})
    assert not has_isolation({"cells": []})


def missing(name: str, kind: str, why: str, cap: int | None = None) -> dict[str, Any]:
    return {"arm": name, "kind": kind, "cap": cap, "status": "failed", "error_kind": "x", "why": why}


def test_arms_that_lack_are_told_a_sentence_a_reason() -> None:
    """With those that were cut short; nothing where nothing lacks."""
    lost = [
        missing("as it is", "as_is", "its cell failed"),
        missing("cap 2", "cap", "its cell was skipped", 2),
        missing("cap 4", "cap", "its cell was skipped", 4),
    ]
    arms = [{**arm("alone", "alone", 1.0, None), "cut": True}]
    assert gap_sentences(isolation(unmeasured=lost, arms=arms)) == [
        "Not measured: as it is, because its cell failed.",
        "Not measured: cap 2, cap 4, because its cell was skipped.",
        "Cut short, so its share and its time are of a part: without background.",
    ]
    assert gap_sentences(isolation()) == []


def test_a_verdict_without_the_background_as_it_is_is_a_sentence() -> None:
    """Put together from its templates as any other; words of a foreign result stay as they are."""
    values = {**isolation()["reason_values"], "why": "<b>strange</b>", "arm": "Cap 4"}
    told = verdict_sentence(
        isolation(reason_templates=[TEXTS["no_as_is_arm"], TEXTS["takes_this"]], reason_values=values)
    )
    assert told == (
        "With indexing as it is nothing can be said, because <b>strange</b>. Cap 4 keeps 90 % for sure: chat share "
        "95 % (95 % interval 85 % to 100 %), indexing takes ~2.0 min."
    )
