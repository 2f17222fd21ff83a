"""What a search found, in the reader's language."""

from app.views.choice_notes import budget_reason
from app.views.rates import rate_rows
from app.words import load_words
from runner.search import max_rates, report

CELLS = [{"setting": {"max_num_seqs": 4}}, {"setting": {"max_num_seqs": 16}}]


def test_the_largest_load_is_told_without_an_english_word() -> None:
    """Sentence, setting, load and both ends of its interval."""
    found = {
        "setting": {"max_num_seqs": 4}, "caps": {}, "axis": "request_rate", "load": 2.0, "low": 1.0, "high": 3.0,
        "probes": 9, "ill_defined": False, "reason": "", "reason_templates": [max_rates.TEXTS["found"]],
        "reason_values": {"setting": "max_num_seqs 4", "load": "2 requests/s", "low": "1 requests/s",
                          "high": "3 requests/s", "probes": 9},
    }  # fmt: skip
    (row,) = rate_rows({"cells": CELLS, "max_rates": [found]}, load_words("pl"))
    assert row["reason"] == (
        "max_num_seqs 4 utrzymuje cele do 2 req/s (przedział 95 % od 1 req/s do 3 req/s, liczba prób: 9)."
    )
    (plain,) = rate_rows({"cells": CELLS, "max_rates": [found]})
    assert plain["reason"].startswith("max_num_seqs 4 keeps its targets up to 2 req/s (95 % interval 1 req/s to ")


def test_what_a_time_was_used_for_is_told_in_whole() -> None:
    """Each of its sentences has a translation, and names and loads are written as the page writes them."""
    told = {
        "reason": "…",
        "reason_templates": [report.TEXTS["used"], report.TEXTS["overloaded"], report.TEXTS["enough"]],
        "reason_values": {
            "tried": 2, "settings": 2, "used": "20 min", "budget": "90 min", "setting": "x", "rival": "y",
            "load": "3 requests/s", "pairs": 2, "share": "95 %", "rival_share": "40 %",
        },
        "verification": {
            "setting": {"max_num_seqs": 16}, "against": {"max_num_seqs": 4}, "load": {"request_rate": 3.0},
        },
    }  # fmt: skip
    assert budget_reason({"cells": CELLS, "budget": told}) == (
        "2 of 2 settings were tried in 20 min of 90 min. Verified at 3 req/s (pairs: 2): max_num_seqs 16 keeps the "
        "targets of 95 % of the requests, while max_num_seqs 4 is overloaded and keeps those of 40 %. More time is not "
        "needed for this answer."
    )
    korean = budget_reason({"cells": CELLS, "budget": told}, load_words("ko")) or ""
    assert not {"settings", "Verified", "time"} & set(korean.split())
    assert budget_reason({"cells": CELLS, "budget": None}) is None
