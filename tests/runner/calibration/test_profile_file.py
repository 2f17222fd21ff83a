"""A calibration's profile file: what is written is what is read, by virtual time and by the What-if page."""

from pathlib import Path
from typing import Any

import pytest

from runner.calibration.profile_file import load_calibration, profile_text, write_profile
from runner.errors import ConfigError
from runner.simulator.profile import load_profile
from storage.errors import StorageError

COST = {"a": 8.3, "a_prefill": 9.0, "b": 0.235, "c": 0.0, "d": 2e-05, "e": 4e-06}
ERROR = {"measured": 100.0, "predicted": 110.0, "error_share": 0.1}
ROW = {
    "request_rate": 2.0,
    "requests": 40,
    "ttft_ms": {"p50": ERROR, "p95": {**ERROR, "error_share": -0.3}},
    "gap_ms": {"p50": ERROR, "p95": ERROR},
}


def told(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  (any key of `goodput calibrate --json`)
    facts = {
        "model": 'a "model"\\', "kind": "llama_cpp", "scheduler": "llama_cpp", "max_num_seqs": 4,
        "max_num_batched_tokens": 2048, "kv_tokens": 6144, "kv_tokens_told": True, "cost": COST,
        "cost_low": COST, "cost_high": COST, "fit": {"rows": 60, "median_error_share": 0.01, "worst_error_share": 0.2},
        "measured_up_to": {"prompt_tokens": 1024, "seqs": 4, "context_tokens": 4200}, "held_out": [ROW],
        "sweep_id": "x", "pace_after": 1.02,
    }  # fmt: skip
    return {**facts, **changes}


def test_virtual_time_reads_the_costs(tmp_path: Path) -> None:
    """Each coefficient to six digits, the KV pool, and that it was measured."""
    path = tmp_path / "mine.toml"
    write_profile(path, told())
    profile = load_profile(path)
    assert (profile.cost.a, profile.cost.a_prefill, profile.cost.e) == (8.3, 9.0, 4e-6)
    assert (profile.kv_tokens, profile.estimate, profile.source) == (6144, False, "profile mine.toml")


def test_the_page_reads_the_errors(tmp_path: Path) -> None:
    """The held-out figures, the largest error of them, and up to where anything was measured."""
    path = tmp_path / "mine.toml"
    write_profile(path, told())
    found = load_calibration(path)
    assert found is not None
    assert (found.model, found.scheduler, found.max_num_seqs, found.sweep_id) == ('a "model"\\', "llama_cpp", 4, "x")
    assert found.held_out == (ROW,)
    assert (found.worst_error, found.pace_after) == (0.3, 1.02)
    assert found.measured_up_to["context_tokens"] == 4200


def test_a_profile_without_calibration_has_none(tmp_path: Path) -> None:
    """Anybody may write one by hand; so is one whose held-out run is still to come."""
    path = tmp_path / "mine.toml"
    path.write_text("kv_tokens = 100\n[cost]\na = 1\nb = 1\n")
    assert load_calibration(path) is None
    write_profile(path, told(held_out=[], sweep_id=None, model=None))
    found = load_calibration(path)
    assert found is not None
    assert (found.worst_error, found.held_out, found.model) == (None, (), None)


@pytest.mark.parametrize(
    "table", ["calibration = 3", "[calibration]\nheld_out = [{}]", "[calibration]\nmeasured_up_to = 1"]
)
def test_a_table_that_was_changed_by_hand_is_refused_in_a_sentence(tmp_path: Path, table: str) -> None:
    """Not a traceback on a page."""
    path = tmp_path / "mine.toml"
    path.write_text(table)
    with pytest.raises(ConfigError, match="calibrate anew"):
        load_calibration(path)


def test_a_guess_says_that_it_is_one() -> None:
    """Beside the number, where a person looks for it."""
    assert "kv_tokens = 6144  # a guess" in profile_text(told(kv_tokens_told=False))


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    """As for every file that we write."""
    with pytest.raises(StorageError):
        write_profile(tmp_path / "none" / "mine.toml", told())
