"""Five rules side by side."""

from app.views.rules import blind_mean, rule_rows
from tests.app.views.made_up import made_up_result

CELL = {
    "cell": 0,
    "status": "ok",
    "goodput_per_s": 1.0,
    "setting": {"max_num_seqs": 4},
    "load": {"request_rate": 2.0},
    "classes": {
        "chat": {"share": 0.5, "rules": {"p99_gap": 0.526, "mean_tpot": 0.954}},
        "background": {"rules": {}},
    },
}
RESULT = {
    "targets": {"chat": {"ttft_ms": 1000, "gap_ms": 150}},
    "cells": [CELL],
    "choice": {"setting": {"max_num_seqs": 4}},
}


def test_rules_of_the_pick() -> None:
    """A row for each class with targets; a rule that was not computed is null."""
    (row,) = rule_rows(RESULT)
    assert row["class"] == "chat"
    assert row["rules"] == {"p99_gap": 0.526, "mean_tpot": 0.954, "every_gap": None, "deadline": None, "fluidity": None}


def test_a_blind_mean_gets_a_sentence() -> None:
    """The largest difference is told with setting, load and both shares."""
    text = blind_mean(RESULT)
    assert text is not None
    assert "max_num_seqs 4 at 2 req/s, 95 % of chat" in text.replace("\u00a0", " ")
    assert "53 % by their own gaps" in text.replace("\u00a0", " ")


def test_an_honest_mean_gets_none() -> None:
    """A difference of five points or less is not worth a sentence; nor is an empty sweep."""
    fair = {**CELL, "classes": {"chat": {"share": 0.9, "rules": {"p99_gap": 0.9, "mean_tpot": 0.95}}}}
    assert blind_mean({**RESULT, "cells": [fair]}) is None
    assert blind_mean({"cells": [], "choice": None}) is None


def test_rules_of_a_real_analysis() -> None:
    """The analysis gives all five, for both classes."""
    rows = rule_rows(made_up_result())
    assert [r["class"] for r in rows] == ["chat", "rag"]
    assert all(v is not None for r in rows for v in r["rules"].values())
