"""The built-in engine over real HTTP: its batch is told from outside as it tells it itself, and its bound is found."""

from pathlib import Path
from typing import Any

import pytest

from runner.analysis.result import build_result
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.small_sweeps import quick_config

# 25 ms a step, so that bursts stand out on a busy machine too
COST = {"a": 25.0, "b": 0.02, "c": 0.2}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Twelve users, once with 4 seats and once with 32."""
    data = open_data_folder(tmp_path_factory.mktemp("observed") / "data")
    config = quick_config(
        backend={"kind": "simulated", "cost": COST, "kv_tokens": 20_000},
        grid={"max_num_seqs": [4, 32], "max_num_batched_tokens": [4096], "max_concurrency": [12]},
        run={"duration_s": 3.0, "warmup_s": 1.0, "drain_s": 1.0, "scrape_interval_s": 0.25, "drift_check": False},
        classes=[{"name": "chat", "weight": 1, "prompt_tokens": 16, "output_tokens": 30}],
    )
    sweep_id = enqueue(data, config, "test")
    run_one(data, sweep_id, lambda _: None)
    return build_result(read_sweep(sweep_folder(Path(data), sweep_id)))


def test_the_batch_seen_from_outside_is_the_one_the_engine_counts(result: dict[str, Any]) -> None:
    """Tokens that arrive together, on average and at most, against sequences a step by the engine's own counter."""
    for cell, seats in zip(result["cells"], (4, 12), strict=True):
        engine = cell["engine"]
        assert engine["batch_seqs_mean"] == pytest.approx(seats, rel=0.15)
        assert engine["arrivals_together_mean"] == pytest.approx(engine["batch_seqs_mean"], rel=0.2)
        assert engine["arrivals_together_max"] <= seats


def test_seats_that_all_are_taken_are_the_bound_and_free_ones_are_not(result: dict[str, Any]) -> None:
    """Twelve users wait for 4 seats; with 32 seats there is nothing to wait for."""
    four, many = result["cells"]
    assert four["bound"]["by"] == "seats"
    assert many["bound"]["by"] == "load"
    assert [(b["setting"]["max_num_seqs"], b["by"]) for b in result["bounds"]] == [(4, "seats"), (32, "load")]


def test_the_engines_first_token_time_is_near_what_the_client_saw(result: dict[str, Any]) -> None:
    """Both are means over the window; the client's holds the way there and back, and on a busy machine more."""
    engine = result["cells"][0]["engine"]
    assert engine["server_ttft_mean_s"] == pytest.approx(engine["client_ttft_mean_s"], rel=0.35)
