"""What a prefix cache should serve by the workload, and when what it served is a finding."""

import pandas as pd
import pytest

from runner.analysis.prefix_cache import intended_hit_share, unplanned_hits
from runner.analysis.requests import request_table
from storage.records import RequestRecord
from tests.support.tables import CHAT, SECOND, make_cell, make_config, make_request, make_tables

SHARED = {**CHAT, "shared_prefix_tokens": 60}
UNIQUE = {**CHAT, "name": "rag", "weight": 1.0}


def rows(*records: RequestRecord, window_start_s: int = 0) -> pd.DataFrame:
    config = make_config(classes=[SHARED, UNIQUE])
    cell = make_cell(window_start_ns=window_start_s * SECOND)
    return request_table(make_tables(records, cells=[cell], config=config), config)


def share(*records: RequestRecord, window_start_s: int = 0) -> float | None:
    return intended_hit_share(rows(*records, window_start_s=window_start_s), make_config(classes=[SHARED, UNIQUE]))


def chat(i: int, **changes: object) -> RequestRecord:
    return make_request(i, at_ms=1000 * i, **{"prompt_tokens": 100, "prompt_tokens_asked": 100, **changes})


def test_shared_tokens_of_all_but_the_first_request_are_meant() -> None:
    """Three prompts of 100 tokens that share 60: 120 of 300; with the first in the warm-up 120 of 200."""
    assert share(chat(0), chat(1), chat(2)) == pytest.approx(0.4)
    assert share(chat(0), chat(1), chat(2), window_start_s=1) == pytest.approx(0.6)


def test_unique_prompts_are_meant_to_be_computed() -> None:
    """A class without a shared prefix adds prompt tokens and no shared ones."""
    assert share(chat(0, class_name="rag"), chat(1, class_name="rag")) == 0.0
    assert share(chat(0), chat(1), chat(2, class_name="rag"), chat(3, class_name="rag")) == pytest.approx(60 / 400)


def test_only_completed_requests_count_and_the_servers_counts_go_first() -> None:
    """A failed request adds nothing; where the server told no count, the length asked for stands in."""
    assert share(chat(0), chat(1, prompt_tokens=200), chat(2, outcome="error")) == pytest.approx(60 / 300)
    assert share(chat(0, prompt_tokens=None), chat(1, prompt_tokens=None)) == pytest.approx(0.3)
    assert share() is None


def test_a_short_prompt_shares_what_its_unique_words_leave() -> None:
    """64 bits are spelled by 8 words or fewer, which come after the prefix; so a prompt is never all prefix."""
    found = share(chat(0, prompt_tokens_asked=50, prompt_tokens=50), chat(1, prompt_tokens_asked=50, prompt_tokens=50))
    assert found is not None
    assert 42 / 100 <= found < 50 / 100


@pytest.mark.parametrize(
    ("hits", "intended", "setting", "types"),
    [
        (None, 0.5, {}, []),
        (0.52, 0.5, {}, []),
        (0.02, 0.0, {}, []),
        (0.3, 0.0, {}, ["prefix_cached"]),
        (0.0, 0.5, {}, ["prefix_share_not_held"]),
        (0.9, 0.5, {}, ["prefix_share_not_held"]),
        (0.0, 0.5, {"cache_prompt": False}, []),
        (0.0, 0.5, {"enable_prefix_caching": False}, []),
    ],
)
def test_a_noticeable_difference_is_a_finding(
    hits: float | None, intended: float, setting: dict[str, object], types: list[str]
) -> None:
    """More or less than meant by over a tenth; never without counts, or where caching itself is what is varied."""
    table = rows(*(chat(i, prompt_tokens=400) for i in range(4)))
    assert list(unplanned_hits(table, hits, intended, setting)) == types


def test_a_chat_template_in_the_cache_is_no_finding() -> None:
    """Half of 40 tokens are the template's own."""
    assert unplanned_hits(rows(chat(0, prompt_tokens=40), chat(1, prompt_tokens=40)), 0.5, 0.0, {}) == {}
