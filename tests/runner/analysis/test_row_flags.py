"""The table's flags are the single request's flags, row for row."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.request_object import request_flags
from runner.analysis.requests import request_table
from runner.analysis.row_flags import material_flags, row_flags
from tests.support.tables import make_config, make_request, make_tables

CHANGES = st.fixed_dictionaries(
    {
        "gaps_ms": st.sampled_from([[], [0.0], [0.05, 0.05], [40.0] * 3, [0.0] * 39, [40.0] * 39]),
        "output_tokens": st.sampled_from([None, 0, 1, 2, 3, 4, 5, 15, 16, 40, 43, 60]),
        "output_tokens_source": st.sampled_from(["usage", "timings", "estimated", None]),
        "output_tokens_asked": st.sampled_from([0, 1, 4, 40, 100]),
        "prompt_tokens": st.sampled_from([None, 0, 32, 75, 100, 400]),
        "prompt_tokens_asked": st.sampled_from([0, 32, 300]),
        "cached_prompt_tokens": st.sampled_from([None, 0, 3, 4, 40]),
        "load_ms": st.sampled_from([None, 500.0, 500.1]),
        "malformed_events": st.sampled_from([0, 1]),
        "saw_terminator": st.booleans(),
        "finish_reason": st.sampled_from([None, "stop"]),
        "outcome": st.sampled_from(["ok", "error", "cancelled"]),
        "ttft_ms": st.sampled_from([100.0, 100.0, None]),
    }
)


@settings(max_examples=60)
@given(st.lists(CHANGES, min_size=1, max_size=12))
def test_row_flags_agree_with_request_flags(changes: list[dict[str, Any]]) -> None:
    """Whatever a request looks like, both ways of flagging give the same words."""
    records = [
        make_request(i, at_ms=i, **{**c, "gaps_ms": [] if c["ttft_ms"] is None else c["gaps_ms"]})
        for i, c in enumerate(changes)
    ]
    flags = row_flags(request_table(make_tables(records), make_config()))
    for i, record in enumerate(records):
        assert [name for name, mask in flags.items() if mask[i]] == request_flags(record)


def test_a_flag_is_material_from_five_percent_on() -> None:
    """One of 20 chosen rows is enough, one of 21 is not; without rows nothing is."""
    mask = np.zeros(21, dtype=bool)
    mask[0] = True
    chosen = np.ones(21, dtype=bool)
    assert material_flags({"cold_load": mask}, chosen) == {}
    chosen[20] = False
    assert material_flags({"cold_load": mask}, chosen) == {"cold_load": 0.05}
    assert material_flags({"cold_load": mask}, np.zeros(21, dtype=bool)) == {}
