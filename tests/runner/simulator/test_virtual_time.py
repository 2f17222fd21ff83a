"""A cell in virtual time against the real load generator with the same engine, step by step."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.config import RequestClass
from runner.load.workload import PromptScale, Trace, build_trace, make_prompt
from runner.simulator.ask import block_names
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.schedulers.by_name import SCHEDULERS
from runner.simulator.settings import ServerSettings
from runner.simulator.state import Knobs
from runner.simulator.virtual_engine import VirtualEngine
from runner.simulator.virtual_records import records_of
from runner.simulator.virtual_time import Span, run_virtual
from storage.records import RequestRecord
from tests.support.stepped_server import run_stepped

S = 1_000_000_000
# whole nanoseconds for every decode step: steps taken at once and one by one are then rounded alike
COST = CostModel(a=7.13, b=0.0517, c=0.313, d=0.00117, e=1.3e-6)


def server(
    scheduler: str = "vllm_v1", kv_tokens: int = 4096, max_queue: int | None = None, **knobs: object
) -> ServerSettings:
    profile = EngineProfile(COST, kv_tokens, False, "test")
    chosen = Knobs(**{"max_num_seqs": 6, "max_num_batched_tokens": 256, "max_model_len": 512, **knobs})
    return ServerSettings(profile, chosen, scheduler, max_queue=max_queue)


def classes(*tables: dict[str, Any]) -> list[RequestClass]:
    lengths = {"prompt_tokens": {"uniform": [1, 300]}, "output_tokens": {"uniform": [1, 60]}}
    return [RequestClass.model_validate({**lengths, **t}) for t in tables]


def seen(record: RequestRecord) -> tuple[Any, ...]:
    return (
        record.request,
        record.class_name,
        record.scheduled_ns,
        record.sent_ns,
        record.first_chunk_ns,
        record.end_ns,
        tuple(record.chunk_deltas_us),
        record.outcome,
        record.error_kind,
    )


def both(
    trace: Trace, settings: ServerSettings, span: Span, caps: dict[str, int]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    run = run_virtual(trace, settings, span, max_in_flight=caps)
    records = records_of(run, 0, span.limit_ns, 512)
    stepped = run_stepped(trace, settings, span, caps)
    return sorted(map(seen, records), key=repr), sorted(map(seen, stepped), key=repr)


def near(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Moves over a link end at fractions of a nanosecond: distserve may be a few of them off."""
    times = zip(one[2:6], other[2:6], strict=True)
    same = (*one[:2], len(one[6]), *one[7:]) == (*other[:2], len(other[6]), *other[7:])
    return same and all(a == b or (a is not None and b is not None and abs(a - b) < 100) for a, b in times)


MIX = (
    {"name": "chat", "rate": 12.0},
    {"name": "jobs", "dump": {"count": 12, "at_s": 0.7}, "priority": 3},
    {"name": "users", "closed": {"concurrency": 3, "think_s": 0.31}},
)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_request_is_as_the_real_generator_would_have_it(scheduler: str) -> None:
    """Sent, first token, every gap, end and outcome, to the nanosecond, with all ways a request can come and go."""
    trace = build_trace(classes(*MIX), {}, 3.0, seed=3)
    virtual, stepped = both(trace, server(scheduler), Span(3 * S, S // 10, 7 * S // 10, S // 4), {"jobs": 4})
    assert virtual == stepped
    assert {v[7] for v in stepped} == {"ok", "cancelled", "error"}


KNOBS = st.fixed_dictionaries(
    {
        "max_num_seqs": st.integers(1, 8),
        "max_num_batched_tokens": st.sampled_from([16, 64, 300, 2048]),
        "long_prefill_token_threshold": st.sampled_from([0, 40]),
        "stream_static": st.booleans(),
        "preemption": st.sampled_from(["recompute", "swap"]),
        "reservation": st.sampled_from(["max", "pow2", "oracle"]),
        "prefill_instances": st.integers(1, 2),
        "decode_instances": st.integers(1, 2),
        "kv_unified": st.booleans(),
    }
)


@settings(max_examples=80, derandomize=True)
@given(
    scheduler=st.sampled_from(sorted(SCHEDULERS)),
    policy=st.sampled_from(["fcfs", "priority"]),
    knobs=KNOBS,
    kv_tokens=st.sampled_from([512, 1024, 16384]),
    max_queue=st.sampled_from([None, None, 3]),
    rate=st.floats(1.0, 30.0),
    count=st.integers(1, 20),
    workers=st.integers(1, 4),
    think_s=st.sampled_from([0.0, 0.05]),
    cap=st.integers(0, 5),
    limit_ms=st.sampled_from([300, 60_000]),
    drain_ms=st.sampled_from([0, 200, 60_000]),
    seed=st.integers(0, 10_000),
)
def test_no_load_and_no_setting_makes_a_difference(
    scheduler: str,
    policy: str,
    knobs: dict[str, Any],
    kv_tokens: int,
    max_queue: int | None,
    rate: float,
    count: int,
    workers: int,
    think_s: float,
    cap: int,
    limit_ms: int,
    drain_ms: int,
    seed: int,
) -> None:
    """The same holds for any mix, any scheduler, small pools, queues that refuse, users who do not think."""
    if scheduler == "llama_cpp":
        kv_tokens = 16384
    mix = classes(
        {"name": "chat", "rate": rate, "priority": 1},
        {"name": "jobs", "dump": {"count": count, "at_s": 0.2}, "priority": 3},
        {"name": "users", "closed": {"concurrency": workers, "think_s": think_s}},
    )
    chosen = {**knobs, "policy": policy if scheduler == "vllm_v1" else "fcfs"}
    span = Span(S, drain_ms * 1_000_000, limit_ms * 1_000_000, S // 4)
    engine = server(scheduler, kv_tokens, max_queue, **chosen)
    virtual, stepped = both(build_trace(mix, {}, 1.0, seed), engine, span, {"jobs": cap})
    if scheduler == "distserve":
        assert [pair for pair in zip(virtual, stepped, strict=True) if not near(*pair)] == []
    else:
        assert virtual == stepped


@pytest.mark.parametrize("shared", [0, 15, 40, 64, 500])
def test_prompts_share_the_blocks_that_real_prompts_would(shared: int) -> None:
    """A prefix cache finds as many known blocks as in the words that the real load sends."""
    mix = [RequestClass.model_validate({**MIX[0], "prompt_tokens": {"uniform": [10, 120]}, "output_tokens": 4})]
    specs = build_trace(mix, {}, 3.0, seed=5).open_loop[:12]
    engine = VirtualEngine(server(prefix_caching=True), {"chat": shared})
    for one in specs:
        for other in specs:
            real = [block_names(make_prompt(s, PromptScale(), shared).split()) for s in (one, other)]
            ours = [engine.block_names(s) for s in (one, other)]
            assert [len(n) for n in ours] == [len(n) for n in real]
            assert in_common(*ours) == in_common(*real)


def in_common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_a_prefix_cache_saves_the_shared_words() -> None:
    """The answers say what was cached, and first tokens come sooner than without the cache."""
    mix = [RequestClass.model_validate({**MIX[0], "prompt_tokens": 200, "output_tokens": 4, "rate": 2.0})]
    span, shared = Span(5 * S, S, 60 * S, S), {"chat": 96}
    trace = build_trace(mix, {}, 5.0, seed=5)
    runs = [
        run_virtual(trace, server(prefix_caching=on), span, max_in_flight={}, shared_prefix=shared)
        for on in (True, False)
    ]
    on, off = ([r for r in records_of(run, 0, span.limit_ns, 512) if r.outcome == "ok"] for run in runs)
    assert [r.cached_prompt_tokens for r in on] == [0, *[96] * (len(on) - 1)]
    assert {r.cached_prompt_tokens for r in off} == {0}
    assert sum(r.first_chunk_ns or 0 for r in on) < sum(r.first_chunk_ns or 0 for r in off)
    assert runs[0].samples[-1].prefix_cache_hits_total == sum(r.cached_prompt_tokens or 0 for r in on)
