"""The log of iterations against scenarios worked out by hand: an iteration costs 10 ms and 1 ms per prompt token."""

import pytest

from runner.load.workload import RequestSpec, Trace
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.settings import ServerSettings
from runner.simulator.state import Knobs
from runner.simulator.step_log import Step, StepLog
from runner.simulator.virtual_time import Span, VirtualCell, run_virtual

MS = 1_000_000
S = 1_000 * MS
# A: 4 tokens in, 4 out, at 0 ms; B: 30 tokens in, 2 out, at 15 ms
A = RequestSpec(0, "chat", 0, 0, 4, 4, 1, 0)
B = RequestSpec(1, "rag", 0, 15 * MS, 30, 2, 2, 1)
STEPS = {
    # B's prompt has an iteration of its own, and A waits 50 ms for its third token
    "vllm_v0": [
        (0, 14, 4, [(0, 4, "prefill")]),
        (14, 24, 1, [(0, 1, "decode")]),
        (24, 64, 30, [(1, 30, "prefill")]),
        (64, 74, 2, [(0, 1, "decode"), (1, 1, "decode")]),
        (74, 84, 1, [(0, 1, "decode")]),
    ],
    # of 9 tokens a step A takes one and B's prompt the rest: A never waits longer than 18 ms
    "vllm_v1": [
        (0, 14, 4, [(0, 4, "prefill")]),
        (14, 24, 1, [(0, 1, "decode")]),
        (24, 42, 9, [(0, 1, "decode"), (1, 8, "prefill")]),
        (42, 60, 9, [(0, 1, "decode"), (1, 8, "prefill")]),
        (60, 79, 9, [(1, 9, "prefill")]),
        (79, 94, 5, [(1, 5, "prefill")]),
        (94, 104, 1, [(1, 1, "decode")]),
    ],
    # the batch forms for 50 ms, A's prompt is made as long as B's, B's row stays for A's answer
    "static": [
        (50, 120, 60, [(0, 4, "prefill"), (1, 30, "prefill")]),
        (120, 130, 2, [(0, 1, "decode"), (1, 1, "decode")]),
        (130, 140, 2, [(0, 1, "decode"), (1, 1, "padding")]),
        (140, 150, 2, [(0, 1, "decode"), (1, 1, "padding")]),
    ],
}


def run(scheduler: str, log: StepLog | None) -> VirtualCell:
    knobs = Knobs(max_num_seqs=4, max_num_batched_tokens=9 if scheduler == "vllm_v1" else 64, max_model_len=64)
    settings = ServerSettings(EngineProfile(CostModel(a=10, b=1), 1024, False, "test"), knobs, scheduler)
    return run_virtual(Trace((A, B)), settings, Span(S, S, S, S), max_in_flight={}, log=log)


def in_ms(steps: list[Step]) -> list[tuple[float, float, int, list[tuple[int, int, str]]]]:
    return [(s.begin_ns / MS, s.end_ns / MS, s.tokens, list(s.parts)) for s in steps]


@pytest.mark.parametrize("scheduler", STEPS)
def test_every_iteration_of_a_hand_computed_run_is_there(scheduler: str) -> None:
    """Begin, end, tokens, who took part and with what, in the order of time."""
    log = StepLog(0, S)
    run(scheduler, log)
    assert in_ms(log.steps) == STEPS[scheduler]
    assert log.requests == {0: (A, 0), 1: (B, 15 * MS)}


def test_only_what_overlaps_the_window_is_kept() -> None:
    """From 24 ms (an end does not count) to 64 ms (a begin does not count) there is B's prompt alone."""
    log = StepLog(24 * MS, 64 * MS)
    run("vllm_v0", log)
    assert in_ms(log.steps) == STEPS["vllm_v0"][2:3]
    assert log.over


@pytest.mark.parametrize("scheduler", STEPS)
def test_a_log_changes_nothing(scheduler: str) -> None:
    """The answers come at the same nanoseconds with and without one."""
    told = [
        [(r.spec, r.end_ns, r.times_ns.tolist()) for r in run(scheduler, log).requests] for log in (None, StepLog(0, S))
    ]
    assert told[0] == told[1]


def test_the_cost_of_an_iteration_is_its_length() -> None:
    """In ms, from its begin to its end."""
    assert Step(0, 5 * MS, 45 * MS, 30, ()).cost_ms == 40.0
