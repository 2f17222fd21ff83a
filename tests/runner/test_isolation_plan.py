"""The isolation experiment as a sweep: which cells it has, how it is sized, and its verdict in virtual time."""

from typing import Any

import pytest

from runner.analysis.result import score
from runner.config import SweepConfig, parse_sweep
from runner.errors import ConfigError
from runner.isolation_plan import Pace, Wishes, usual_sweep, with_arms
from runner.load.workload import build_trace
from runner.plan import plan_cells
from runner.simulated_sweep import VirtualSweep
from runner.what_if import in_memory

COST = {"a": 8.3, "b": 0.235, "c": 0.1, "d": 2e-4, "e": 4e-6}  # schedulers.md: a 3090 with an 8B model at Q4
CHAT = {
    "name": "chat", "rate": 0.6, "prompt_tokens": 300, "output_tokens": 160, "slo": {"ttft_ms": 1000, "gap_ms": 150},
}  # fmt: skip
JOBS = {"name": "jobs", "dump": {"count": 60, "at_s": 10}, "prompt_tokens": 2000, "output_tokens": 300}
ENGINE = {"kind": "simulated", "cost": COST, "kv_tokens": 90_000, "max_num_seqs": 16, "max_num_batched_tokens": 512}
VLLM = {"kind": "vllm", "url": "http://127.0.0.1:8000"}


def sweep(**changes: Any) -> SweepConfig:  # noqa: ANN401  (any part of a sweep file)
    raw = {
        "name": "t",
        "backend": ENGINE,
        "grid": {"jobs_max_in_flight": [60]},
        "run": {"duration_s": 110, "warmup_s": 10, "drain_s": 30, "scrape_interval_s": 1},
        "classes": [CHAT, JOBS],
    }
    return parse_sweep({**raw, **changes}, "t")


def test_every_way_is_a_cell_and_the_background_alone_the_last() -> None:
    """Caps of none, of those below the pile, and of the whole pile, with and without priority; then a window alone."""
    cells = plan_cells(with_arms(sweep(), (4, 2, 100)))
    assert [(c.setting["policy"], c.load["jobs_max_in_flight"]) for c in cells] == [
        *[("fcfs", cap) for cap in (0, 2, 4, 60)], *[("priority", cap) for cap in (0, 2, 4, 60)], ("fcfs", 60),
    ]  # fmt: skip
    assert cells[-1].load["only"] == "jobs"


def test_the_background_comes_behind_the_chats_for_a_server_that_heeds_priorities() -> None:
    """Lower goes first; equal priorities would make the policy no policy."""
    chat, jobs = with_arms(sweep(classes=[{**CHAT, "priority": 3}, JOBS]), (2,)).classes
    assert (chat.priority, jobs.priority) == (3, 4)


@pytest.mark.parametrize(
    ("backend", "control", "varied"),
    [
        (VLLM, {}, False),
        (VLLM, {"mode": "process", "command": ["vllm", "serve", "--scheduling-policy", "{policy}"]}, True),
        (VLLM, {"mode": "process", "command": ["vllm", "serve"]}, False),
        (VLLM, {"mode": "manual"}, True),
        ({**VLLM, "kind": "llama_cpp"}, {"mode": "manual"}, False),
        ({**ENGINE, "scheduler": "llama_cpp"}, {}, False),
    ],
)
def test_server_priority_is_tried_where_the_server_has_it_and_can_be_given_it(
    backend: dict[str, Any], control: dict[str, Any], varied: bool
) -> None:
    """A server that runs as it is can't be given another policy, and llama.cpp has none."""
    found = with_arms(sweep(backend=backend, **({"control": control} if control else {})), (2,))
    assert ("policy" in found.grid) is varied


def test_a_running_server_that_takes_priorities_gets_them_as_a_load() -> None:
    """It can't be given another policy, but the background can go among the chats or behind them."""
    found = with_arms(sweep(backend=VLLM), (2,), heeds_priority=True)
    assert found.grid["jobs_priority"] == (0, 1)
    assert not found.server_grid
    sent = [build_trace(found.classes, cell.load, 120, 1).open_loop for cell in plan_cells(found)[:2]]
    assert [{s.priority for s in specs if s.class_name == "jobs"} for specs in sent] == [{0}, {1}]
    assert {s.priority for specs in sent for s in specs if s.class_name == "chat"} == {0}


def test_priorities_as_a_load_are_arms_like_those_of_a_policy() -> None:
    """On an engine whose policy is priority already: the same gain, named the same."""
    raw = {**ENGINE, "policy": "priority"}
    grid = {"jobs_max_in_flight": [0, 4, 60], "jobs_priority": [0, 1]}
    found = score(in_memory(VirtualSweep(sweep(backend=raw, grid=grid), None, {})))["isolation"]
    share = {arm["arm"]: arm["share"] for arm in found["arms"]}
    assert list(share) == ["alone", "as it is", "cap 4", "server priority", "cap 4 + server priority"]
    assert share["as it is"] < share["server priority"]
    assert found["load"] == {}


def test_the_first_setting_and_load_of_a_sweep_file_are_the_present_ones() -> None:
    """Its other settings are another question."""
    found = with_arms(sweep(grid={"max_num_seqs": [16, 64], "load_scale": [1, 2], "jobs_max_in_flight": [4]}), (2,))
    assert found.grid["max_num_seqs"] == (16,)
    assert found.grid["load_scale"] == (1,)
    assert found.grid["jobs_max_in_flight"] == (0, 2, 60)
    assert found.run.alone == "jobs"


@pytest.mark.parametrize("classes", [[CHAT], [{k: v for k, v in CHAT.items() if k != "slo"}]])
def test_both_sides_are_needed(classes: list[dict[str, Any]]) -> None:
    """Somebody who waits, and something that can wait."""
    with pytest.raises(ConfigError, match="one without"):
        with_arms(sweep(classes=classes, grid={"chat_max_in_flight": [4]}), (2,))


def test_the_usual_load_follows_the_pace_of_the_server() -> None:
    """1 ms a prompt token and 20 ms an output token: a chat of some 140 and 75 tokens takes 1.64 s, so 0.18 a second
    fill a third of the time; 120 of them need 667 s, and in those a pile of 667 s / 1.55 s = 430 jobs of 625 and 46."""
    found = usual_sweep("nas", {"kind": "openai", "url": "http://127.0.0.1:1"}, Pace(1.0, 20.0), None, Wishes())
    chat, jobs = found.classes
    assert chat.rate == pytest.approx(0.18, rel=0.1)
    assert found.run.duration_s == pytest.approx(120 / (chat.rate or 1), abs=0.1)
    assert jobs.dump is not None
    assert jobs.dump.count == pytest.approx(430, rel=0.1)
    assert jobs.dump.at_s == found.run.warmup
    assert found.name == "Isolation: nas"


def test_a_small_context_gets_short_prompts() -> None:
    """Half of what the usual load needs: all lengths are halved, and the longest request fits."""
    found = usual_sweep("x", {"kind": "openai", "url": "http://127.0.0.1:1"}, Pace(1.0, 20.0), 700, Wishes())
    for c in found.classes:
        assert (c.prompt_tokens.max or 0) + (c.output_tokens.max or 0) <= 700
    assert found.classes[0].prompt_tokens.p50 == 50


def test_what_is_wished_goes_before_the_pace() -> None:
    """And without a pace, which only a server that runs can show, it has to be said."""
    backend = {"kind": "openai", "url": "http://127.0.0.1:1"}
    found = usual_sweep("x", backend, None, None, Wishes((3,), 40.0, 2.0, 5, 700.0, 90.0))
    chat, jobs = found.classes
    assert (chat.rate, jobs.dump and jobs.dump.count, found.run.duration_s) == (2.0, 5, 40.0)
    assert chat.slo is not None
    assert (chat.slo.ttft_ms, chat.slo.gap_ms) == (700.0, 90.0)
    assert found.grid["indexing_max_in_flight"] == (0, 3, 5)
    with pytest.raises(ConfigError, match="--chat-rate R --jobs N"):
        usual_sweep("x", backend, None, None, Wishes(jobs=5))


def test_in_virtual_time_a_cap_protects_the_chats_and_the_jobs_take_longer() -> None:
    """The order of schedulers.md: as it is < caps <= alone; the more are let in at once, the sooner they are done."""
    prepared = in_memory(VirtualSweep(with_arms(sweep(), (2, 4)), None, {}))
    found = score(prepared)["isolation"]
    share = {arm["arm"]: arm["share"] for arm in found["arms"]}
    ends = {arm["arm"]: arm["background"]["makespan_s"] for arm in found["arms"] if arm["background"]}
    assert share["as it is"] < share["cap 4"] <= share["cap 2"] <= share["alone"]
    assert share["as it is"] < share["server priority"]
    assert ends["cap 2"] > ends["cap 4"] > ends["as it is"] >= ends["a time window of its own"]
    assert found["verdict"] in ("arm", "window")


@pytest.mark.parametrize(
    ("asked", "cut"), [({"stop_by": "07:00"}, False), ({"stop_hopeless": True}, True), ({}, False)]
)
def test_no_arm_is_cut_short_unless_the_file_says_so(asked: dict[str, Any], cut: bool) -> None:
    """A cell that is given up does not tell how long the background takes."""
    found = with_arms(sweep(run={"duration_s": 20, "warmup_s": 2, **asked}), (2,))
    assert found.run.stops_hopeless is cut
