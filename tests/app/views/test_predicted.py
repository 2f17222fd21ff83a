"""Measured and predicted points beside each other, and what is said of how far a prediction may be off."""

from functools import lru_cache
from typing import Any

from app.views.predicted import (
    beyond_sentences,
    error_sentence,
    held_out_rows,
    pace_sentence,
    pairs_of,
    predicted_figure,
    predicted_rows,
    signed_share,
)
from runner.analysis.result import build_result
from tests.app.views.made_up import HOSTILE, made_up_tables


@lru_cache
def made_up_result() -> dict[str, Any]:
    """Three settings at two rates; the last setting failed."""
    return build_result(made_up_tables((2, 8, 32), (256,), (1.0, 2.0)))


def shifted(result: dict[str, Any], by: float) -> dict[str, Any]:
    """As a model would predict it: every throughput and goodput so much larger."""
    keys = ("output_tok_per_s", "goodput_per_s")
    cells = [{**c, **{k: None if c[k] is None else c[k] * by for k in keys}} for c in result["cells"]]
    return {**result, "cells": cells}


def test_each_prediction_is_joined_to_its_own_measured_point() -> None:
    """One dotted piece a cell, from measured to predicted; the failed cells of the sweep have neither."""
    measured = made_up_result()
    pairs = pairs_of(measured, shifted(measured, 1.1))
    assert len(pairs) == 4
    assert all(a["cell"] == b["cell"] for a, b in pairs)
    figure = predicted_figure(measured, {"model": shifted(measured, 1.1)})
    joint = next(t for t in figure.data if t.meta["role"] == "joint")
    assert len(joint.x) == 3 * 4
    assert joint.x[1] == pairs[0][0]["output_tok_per_s"] * 1.1
    assert joint.x[2] is None


def test_measured_is_filled_and_predictions_are_hollow() -> None:
    """Shape as well as colour: a second model has another."""
    measured = made_up_result()
    figure = predicted_figure(measured, {"mine": measured, HOSTILE: measured})
    points = [t for t in figure.data if t.meta["role"] == "points"]
    assert [t.marker.symbol for t in points] == ["square-open", "diamond-open", "circle"]
    assert points[-1].name == "measured"
    assert "<img" not in figure.to_json()


def test_the_table_has_both_numbers_of_every_cell() -> None:
    """Measured → predicted."""
    measured = made_up_result()
    first = predicted_rows(measured, measured)[0]
    assert first["load"] == "1 req/s"
    left, right = first["inside targets"].split(" → ")
    assert left == right


def test_errors_carry_their_sign() -> None:
    """A prediction that is too low is as bad as one too high, and another thing."""
    found = {"measured": 100.0, "predicted": 79.0, "error_share": -0.21}
    row = {"request_rate": 2.0, "ttft_ms": {"p50": found}, "gap_ms": {"p95": {**found, "error_share": 0.08}}}
    first, second = held_out_rows([row])
    assert (first["figure"], first["measured"], first["off by"]) == ("first token p50", "100\xa0ms", "−21\xa0%")
    assert second["off by"] == "+8\xa0%"
    assert signed_share(0.0) == "+0\xa0%"


def test_a_profile_without_a_held_out_run_says_so() -> None:
    """Nobody knows how far off it is; else the largest error is named."""
    assert "Nobody" in error_sentence(None)
    assert "at most 12\xa0% off" in error_sentence(0.12)
    assert "order of magnitude" in error_sentence(0.6)


def test_a_machine_that_changed_meanwhile_is_said() -> None:
    """A fifth is usual; twice as slow, or as fast, is another machine."""
    assert pace_sentence(None) is None
    assert pace_sentence(1.2) is None
    assert "2.00 times as long" in (pace_sentence(2.0) or "")
    assert "0.50 times as long" in (pace_sentence(0.5) or "")


def test_what_was_not_measured_is_said_to_be_extrapolated() -> None:
    """Longer prompts and larger batches than the calibration had; a profile that does not say is not doubted."""
    seen = {"prompt_tokens": 1024.0, "seqs": 16.0}
    assert beyond_sentences(seen, 1024, 16) == []
    assert len(beyond_sentences(seen, 4000, 64)) == 2
    assert beyond_sentences({}, 4000, 64) == []
