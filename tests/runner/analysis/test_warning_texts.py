"""Every warning has a text and a remedy that can be filled and translated."""

import json
import string

import pytest

from runner.analysis.warnings import CELL_FLAGS, INVALIDATING, TEXTS, MeasurementWarning


@pytest.mark.parametrize("message_id", sorted(TEXTS))
def test_each_warning_says_what_and_what_to_do(message_id: str) -> None:
    """Two full sentences; every placeholder of the template is filled from the values."""
    names = {name for text in TEXTS[message_id] for _, name, _, _ in string.Formatter().parse(text) if name}
    values = {name: "a, b" if name in ("kinds", "rules") else 0.5 for name in names}
    warning = MeasurementWarning(message_id, 3, values)
    assert warning.text.endswith(".")
    assert warning.remedy.endswith(".")
    assert "{" not in warning.text + warning.remedy
    assert json.loads(json.dumps(warning.as_dict(), allow_nan=False))["type"] == message_id


def test_flags_are_those_of_the_interface() -> None:
    """Exactly the documented request and cell flags, and one for shared prefixes. low_n does not invalidate, overload
    and a slow client do."""
    assert {
        "multi_token_chunks", "tokens_estimated", "stream_buffered", "prefix_cached", "cold_load", "malformed_events",
        "no_terminator", "output_length_not_held", "prompt_length_mismatch", "client_saturated", "send_lag",
        "rate_not_reached", "server_serialises", "server_restarted", "low_n", "no_steady_state", "overload",
        "prefix_share_not_held", "clock_stepped",
    } == CELL_FLAGS  # fmt: skip
    assert INVALIDATING < CELL_FLAGS
    assert "low_n" not in INVALIDATING
    assert {"overload", "client_saturated"} < INVALIDATING
