"""What protects chat from a pile of background work: the order of the ways, on a 3090-like 8B at Q4 with a small pool.

240 background jobs are dumped on the server at 30 s while chats come at 0.6/s. Shares are of chats whose first token
came within 2 s and whose P99 gap stayed within 150 ms.
"""

from functools import cache

import numpy as np

from runner.config import RequestClass
from runner.load.workload import build_trace
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.settings import ServerSettings
from runner.simulator.state import Knobs, Policy
from runner.simulator.virtual_time import Span, VirtualRequest, run_virtual

S = 1_000_000_000
PROFILE = EngineProfile(CostModel(a=8.3, b=0.235, c=0.1, d=2e-4, e=4e-6), 32_768, False, "3090-like, 8B at Q4")
CHAT = {
    "name": "chat",
    "rate": 0.6,
    "prompt_tokens": {"p50": 300, "p90": 1200, "max": 4000},
    "output_tokens": {"p50": 160, "p90": 400, "max": 1000},
}
BACKGROUND = {
    "name": "background",
    "dump": {"count": 240, "at_s": 30},
    "priority": 1,
    "prompt_tokens": {"p50": 1200, "p90": 3000, "max": 6000},
    "output_tokens": {"p50": 300, "p90": 600, "max": 1000},
}


@cache
def chat_share(seats: int = 16, policy: Policy = "fcfs", cap: int | None = None, background: bool = True) -> float:
    """Share of chats that got what they were promised."""
    classes = [RequestClass.model_validate(c) for c in ([CHAT, BACKGROUND] if background else [CHAT])]
    settings = ServerSettings(PROFILE, Knobs(seats, 512, policy=policy))
    span = Span(600 * S, 200 * S, 600 * S, 60 * S)
    caps = {} if cap is None else {"background": cap}
    run = run_virtual(build_trace(classes, {}, 600.0, seed=1), settings, span, max_in_flight=caps)
    return float(np.mean([_kept(r) for r in run.requests if r.spec.class_name == "chat"]))


def _kept(request: VirtualRequest) -> bool:
    times = request.times_ns
    if request.fate != "ok" or times[0] - request.scheduled_ns > 2 * S:
        return False
    return len(times) < 2 or bool(np.percentile(np.diff(times), 99) <= 0.15 * S)


def test_the_order_of_the_ways_to_protect_chat():
    """FCFS < priority < a cap of 8 <= a cap of 4 <= with priority too <= no background work at all."""
    fcfs, priority = chat_share(), chat_share(policy="priority")
    cap_8, cap_4, both, alone = (
        chat_share(cap=8), chat_share(cap=4), chat_share(cap=4, policy="priority"), chat_share(background=False),
    )  # fmt: skip
    assert fcfs < priority - 0.1
    assert priority < cap_8 <= cap_4 <= both <= alone
    assert alone > 0.95


def test_priority_with_free_seats_and_a_full_pool_is_worse_than_a_cap():
    """64 seats let background work fill the pool and every iteration; priority takes back KV, but never a seat."""
    assert chat_share(64, "priority") < chat_share(16, "priority")
    assert chat_share(64, "priority") < chat_share(cap=8)
