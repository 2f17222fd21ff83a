"""Rows and samples of a cell give what its bound is judged by; real recordings are judged as their counters say."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.analysis.prepare import prepare
from runner.analysis.result import build_result
from storage.queries import read_sweep
from storage.records import EngineSample, RequestRecord
from tests.support.tables import SECOND, make_cell, make_config, make_request, make_tables

SAMPLE = Path(__file__).parents[2] / "fixtures" / "version_1_sweep"


def samples(n: int = 10, **columns: float) -> list[EngineSample]:
    """One look a second with these values."""
    return [EngineSample(0, i * 10 * SECOND, "metrics", 1.0, **columns) for i in range(n)]  # type: ignore[arg-type]


def bound(
    setting: dict[str, Any], engine: list[EngineSample], requests: list[RequestRecord], **backend: object
) -> dict[str, Any]:
    grid = {**{key: [value] for key, value in setting.items()}, "request_rate": [1.0]}
    config = make_config(backend={"kind": "simulated", **backend}, grid=grid)
    cells = [make_cell(setting=setting)]
    (cell,) = [
        c for c in build_result(make_tables(requests, engine, cells=cells, config=config))["cells"] if c["bound"]
    ]
    found: dict[str, Any] = cell["bound"]
    return found


def steady(n: int = 90, **changes: object) -> list[RequestRecord]:
    return [make_request(i, at_ms=1000 * i, gaps_ms=[10] * 5, **changes) for i in range(n)]  # type: ignore[arg-type]


def test_the_limit_of_several_engines_is_theirs_together() -> None:
    """Two engines of 4 seats run 8 at most: 6 running is below it, 8 with a queue is the seats."""
    below = samples(running=6.0, waiting=0.0, engines=2.0)
    assert bound({"max_num_seqs": 4}, below, steady())["text"].startswith(
        "The load was the bound, not the setting: limit 8"
    )
    assert bound({"max_num_seqs": 4}, samples(running=8.0, waiting=2.0, engines=2.0), steady())["by"] == "seats"


def test_seats_that_the_server_tells_stand_in_for_a_limit() -> None:
    """No max_num_seqs in the grid, but a slot list of 4."""
    found = bound({"scheduler": "vllm_v1"}, samples(running=4.0, waiting=1.0, seats=4.0), steady())
    assert found["by"] == "seats"
    assert "limit 4, reached 100% of the time" in found["text"]


@pytest.mark.parametrize(("scheduler", "by"), [("vllm_v1", "token_budget"), ("static", "load"), ("orca", "load")])
def test_long_prompts_are_the_budgets_matter_where_there_is_one(scheduler: str, by: str) -> None:
    """Prompts of 600 tokens at 512 a step take two; static and orca take a prompt whole."""
    setting = {"max_num_seqs": 8, "max_num_batched_tokens": 512, "scheduler": scheduler}
    assert bound(setting, samples(running=2.0, waiting=0.0), steady(prompt_tokens=600))["by"] == by


def test_a_cache_is_full_when_a_usual_prompt_finds_no_room() -> None:
    """80 % of 1,000 tokens used: full for prompts of 300, not for prompts of 100."""
    engine = samples(running=3.0, waiting=1.0, kv_cache_usage=0.8)
    setting = {"max_num_seqs": 8, "kv_tokens": 1000}
    assert bound(setting, engine, steady(prompt_tokens=100))["by"] != "kv"
    full = bound(setting, engine, steady(prompt_tokens=300))
    assert full["by"] == "kv"
    assert "KV full at 3" in full["text"]


def test_a_cache_of_reserved_places_is_full_when_one_more_finds_no_room() -> None:
    """Two of 41 % each leave 18 %: a third does not fit, whatever its prompt; one of 41 % leaves room for another."""
    setting = {"max_num_seqs": 8, "scheduler": "orca"}
    assert bound(setting, samples(running=2.0, waiting=4.0, kv_cache_usage=0.82), steady())["by"] == "kv"
    assert bound(setting, samples(running=1.0, waiting=4.0, kv_cache_usage=0.41), steady())["by"] != "kv"


def test_steps_full_of_tokens_for_a_while_are_the_budgets_matter() -> None:
    """Of ten looks 10 s apart, the steps between the first three held 500 of 512 tokens: a fifth of the window."""
    totals = [(0, 0), (50_000, 100), (100_000, 200), *((100_000 + n, 200 + n) for n in range(10, 80, 10))]
    engine = [
        replace(s, iteration_tokens_total=float(tokens), iterations_total=float(steps))
        for s, (tokens, steps) in zip(samples(running=2.0, waiting=0.0), totals, strict=True)
    ]
    found = bound({"max_num_seqs": 8, "max_num_batched_tokens": 512}, engine, steady())
    assert found["by"] == "token_budget"
    assert "steps full of tokens (budget 512) 20% of the time" in found["text"]
    assert bound({"max_num_seqs": 8, "max_num_batched_tokens": 1024}, engine, steady())["by"] == "load"


def test_answers_cut_off_for_want_of_kv_are_evidence() -> None:
    """llama.cpp ends all running streams when its unified cache is full, and throws nobody out."""
    cut = make_request(99, at_ms=500, gaps_ms=[10] * 5, outcome="error", error_kind="context_overflow")
    found = bound({"max_num_seqs": 8}, samples(running=3.0, waiting=0.0), [*steady(), cut])
    assert found["by"] == "kv"
    assert "1 answer cut off for want of KV" in found["text"]


def test_without_metrics_streams_at_the_limit_are_the_seats() -> None:
    """Three at once are asked for, one at a time is served: with max_num_seqs 1 that is its limit."""
    requests = [make_request(i, at_ms=1000 * i, ttft_ms=2000, gaps_ms=[100] * 9) for i in range(90)]
    found = bound({"max_num_seqs": 1}, [], requests)
    assert found["by"] == "seats"
    assert "the server does not tell" in found["text"]


def test_the_recorded_sweep_is_judged_and_its_batch_seen_from_outside() -> None:
    """On llama.cpp the batch told by its counters and the one told by arrivals alone agree within 5 % in every cell;
    one slot is bound by its seats, eight slots only by the load."""
    result = build_result(read_sweep(SAMPLE))
    for cell in result["cells"]:
        engine = cell["engine"]
        assert engine["arrivals_together_mean"] == pytest.approx(engine["batch_seqs_mean"], rel=0.05)
        assert engine["arrivals_together_max"] == engine["running_max"]
    by = {(c["setting"]["max_num_seqs"], c["load"]["request_rate"]): c["bound"]["by"] for c in result["cells"]}
    assert {by[1, rate] for rate in (0.7, 1.2)} == {"seats"}
    assert {by[8, rate] for rate in (0.7, 1.2)} == {"load"}
    assert (by[4, 0.7], by[4, 1.2]) == ("load", "seats")


def test_a_cell_that_was_not_measured_has_no_bound() -> None:
    """Failed and pending cells: null."""
    cells = [make_cell(0, status="failed")]
    assert {c["bound"] for c in build_result(make_tables(cells=cells))["cells"]} == {None}
    assert {facts.seen for facts in prepare(make_tables(cells=cells)).cells} == {None}
