"""Workload: who sends what and when, the same in every setting."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import RequestClass
from runner.errors import ConfigError
from runner.load.trace_file import TraceRow
from runner.load.words import WORDS
from runner.load.workload import (
    KEY_WORDS,
    PromptScale,
    RequestSpec,
    Trace,
    build_trace,
    in_flight_caps,
    make_prompt,
    share_out,
)

MIX = {"p50": 300, "p90": 1200, "max": 4000}


def cls(name: str = "chat", **kw: object) -> RequestClass:
    return RequestClass.model_validate({"name": name, "prompt_tokens": 32, "output_tokens": 16, **kw})


def of(trace: Trace, name: str) -> list[RequestSpec]:
    return [s for s in trace.open_loop if s.class_name == name]


def spec(**kw: object) -> RequestSpec:
    base: dict[str, Any] = {
        "request": 0, "class_name": "chat", "priority": 0, "offset_ns": 0, "prompt_tokens": 50, "output_tokens": 5,
        "prompt_key": 123456789, "class_index": 0,
    }  # fmt: skip
    return RequestSpec(**{**base, **kw})


def test_weights_share_the_request_rate():
    """request_rate is the total of the classes with a weight; rate classes come on top of it."""
    classes = [cls("chat", weight=3, arrival="constant"), cls("rag", weight=1, arrival="constant"),
               cls("bulk", rate=0.5, arrival="constant")]  # fmt: skip
    trace = build_trace(classes, {"request_rate": 4.0}, 100, seed=1)
    assert {n: len(of(trace, n)) for n in ("chat", "rag", "bulk")} == {"chat": 300, "rag": 100, "bulk": 50}


def test_requests_are_numbered_by_arrival_and_keep_their_class_index():
    """Numbers run 0, 1, ... by offset over all classes; class_index runs 0, 1, ... within each."""
    trace = build_trace([cls("chat", weight=1), cls("rag", weight=1, priority=5)], {"request_rate": 5.0}, 30, seed=3)
    assert [s.request for s in trace.open_loop] == list(range(len(trace.open_loop)))
    assert all(a.offset_ns <= b.offset_ns for a, b in itertools.pairwise(trace.open_loop))
    for name, priority in (("chat", 0), ("rag", 5)):
        own = of(trace, name)
        assert [s.class_index for s in own] == list(range(len(own)))
        assert {s.priority for s in own} == {priority}


@given(seed=st.integers(0, 10_000), rate=st.floats(0.5, 20), factor=st.floats(1, 8))
def test_lengths_follow_the_index_at_every_rate(seed: int, rate: float, factor: float):
    """The i-th request of a class has the same lengths whatever the rate."""
    classes = [cls("chat", weight=0.7, prompt_tokens=MIX, output_tokens={"uniform": [1, 500]}), cls("rag", weight=0.3)]
    slow, fast = (of(build_trace(classes, {"request_rate": r}, 20, seed), "chat") for r in (rate, rate * factor))
    assert len(fast) >= len(slow)
    assert [(s.prompt_tokens, s.output_tokens) for s in slow] == [
        (s.prompt_tokens, s.output_tokens) for s in fast[: len(slow)]
    ]


@given(seed=st.integers(0, 10_000))
def test_adding_a_class_changes_no_other(seed: int):
    """A class's arrivals, lengths and prompts are its own: a new class beside it leaves them as they were."""
    chat = cls("chat", rate=3, arrival="gamma", cv=2, prompt_tokens=MIX, output_tokens=MIX)
    alone = of(build_trace([chat], {}, 20, seed), "chat")
    beside = of(build_trace([cls("a", rate=9), chat, cls("z", dump={"count": 5, "at_s": 1})], {}, 20, seed), "chat")

    def own(s: RequestSpec) -> tuple[object, ...]:
        return s.offset_ns, s.prompt_tokens, s.output_tokens, s.prompt_key, s.class_index

    assert [own(s) for s in alone] == [own(s) for s in beside]


def test_salt_changes_prompts_only():
    """Another cell gets the same arrivals and lengths, but no prompt that the cell before had (B14)."""
    classes = [cls(weight=1, prompt_tokens=MIX)]
    a, b = (build_trace(classes, {"request_rate": 5.0}, 60, 1, salt=s).open_loop for s in (0, 1))
    assert [(s.offset_ns, s.prompt_tokens) for s in a] == [(s.offset_ns, s.prompt_tokens) for s in b]
    assert not {s.prompt_key for s in a} & {s.prompt_key for s in b}


@pytest.mark.parametrize("seed", [1, 2])
def test_lognormal_lengths_hit_p50_and_p90(seed: int):
    """About 20,000 lognormal lengths have the asked p50 and p90 within 5 standard errors, and none is above max."""
    c = cls(rate=200, prompt_tokens=MIX, output_tokens={"p50": 160, "p90": 400, "max": 1000})
    specs = build_trace([c], {}, 100, seed).open_loop
    for lengths, p50, p90, top in (
        (np.array([s.prompt_tokens for s in specs]), 300, 1200, 4000),
        (np.array([s.output_tokens for s in specs]), 160, 400, 1000),
    ):
        n = len(lengths)
        assert np.mean(lengths <= p50) == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / n) + 0.003)  # + whole tokens
        assert np.mean(lengths <= p90) == pytest.approx(0.9, abs=5 * math.sqrt(0.09 / n) + 0.003)
        assert lengths.max() == top
        assert lengths.min() >= 1


def test_fixed_uniform_and_degenerate_lengths():
    """Fixed is fixed, uniform covers both ends evenly, p50 = p90 is constant, a max below the median is obeyed."""
    c = cls(rate=100, prompt_tokens={"uniform": [3, 6]}, output_tokens={"p50": 9, "p90": 9})
    specs = build_trace([c], {}, 100, 1).open_loop
    counts = np.bincount([s.prompt_tokens for s in specs], minlength=8)
    assert counts[:3].sum() + counts[7:].sum() == 0
    assert counts[3:7] / len(specs) == pytest.approx([0.25] * 4, abs=5 * math.sqrt(0.19 / len(specs)))
    assert {s.output_tokens for s in specs} == {9}
    cut = build_trace([cls(rate=10, output_tokens={"p50": 100, "p90": 200, "max": 7})], {}, 10, 1).open_loop
    assert max(s.output_tokens for s in cut) == 7


def test_load_scale_multiplies_rates_and_speeds_traces_up():
    """load_scale 2 doubles the rate of rate classes and halves the offsets of a trace; dumps stay."""
    classes = [cls("bulk", rate=1, arrival="constant"), cls("log", trace="x.csv"),
               cls("jobs", dump={"count": 3, "at_s": 4})]  # fmt: skip
    rows = {"log": [TraceRow(1.0), TraceRow(6.0), TraceRow(30.0)]}
    trace = build_trace(classes, {"load_scale": 2.0}, 10, 1, rows=rows)
    assert len(of(trace, "bulk")) == 20
    assert [s.offset_ns for s in of(trace, "log")] == [500_000_000, 3_000_000_000]
    assert [s.offset_ns for s in of(trace, "jobs")] == [4_000_000_000] * 3


def test_a_trace_slowed_down_beyond_all_measure_sends_what_is_due_at_once():
    """Its later requests come after the end of any run, and none before its beginning."""
    rows = {"chat": [TraceRow(0.0), TraceRow(1.0), TraceRow(1e6)]}
    trace = build_trace([cls(trace="t.csv")], {"load_scale": 1e-300}, 60, 1, rows=rows)
    assert [s.offset_ns for s in trace.open_loop] == [0]


def test_a_weight_that_is_next_to_nothing_sends_nothing():
    """Beside a large one its share of a small rate is no number any more."""
    trace = build_trace([cls(weight=1e9), cls("rare", weight=5e-324)], {"request_rate": 1.0}, 60, 1)
    assert of(trace, "rare") == []


def test_trace_rows_bring_their_lengths():
    """Recorded lengths go before the class's own; where the file has none, the class's are used; order is by time."""
    c = cls("log", trace="x.csv", prompt_tokens=11, output_tokens=12)
    rows = {"log": [TraceRow(2.0, 100, None), TraceRow(1.0, 7, 8)]}
    specs = build_trace([c], {}, 10, 1, rows=rows).open_loop
    assert [(s.offset_ns, s.prompt_tokens, s.output_tokens) for s in specs] == [
        (1_000_000_000, 7, 8), (2_000_000_000, 100, 12),
    ]  # fmt: skip


def test_dump_after_the_end_is_not_sent():
    """Nothing is scheduled at or after the total."""
    assert build_trace([cls(dump={"count": 3, "at_s": 10})], {}, 10, 1).open_loop == ()


def test_max_concurrency_runs_the_weights_as_one_pool():
    """max_concurrency = 5 is one pool of 5 workers that draws classes by weight; rate classes stay open loop."""
    classes = [cls("chat", weight=0.8, prompt_tokens=MIX), cls("rag", weight=0.2), cls("bulk", rate=2)]
    trace = build_trace(classes, {"max_concurrency": 5}, 10, 1)
    assert {s.class_name for s in trace.open_loop} == {"bulk"}
    (pool,) = trace.closed_loops
    assert (pool.workers, pool.think_ns) == (5, 0)
    specs = list(itertools.islice(pool.specs(), 5000))
    assert specs == list(itertools.islice(pool.specs(), 5000))
    chats = sum(s.class_name == "chat" for s in specs)
    assert chats / 5000 == pytest.approx(0.8, abs=5 * math.sqrt(0.16 / 5000))
    assert {s.offset_ns for s in specs} == {None}
    # the i-th chat is the same request as in the open loop
    in_open_loop = of(build_trace(classes, {"request_rate": 50.0}, 10, 1), "chat")
    assert [s.prompt_tokens for s in specs if s.class_name == "chat"][:300] == [
        s.prompt_tokens for s in in_open_loop[:300]
    ]


def test_closed_loops_never_share_a_request_number():
    """Several closed loops beside an open one number their requests apart, whoever is faster."""
    classes = [cls("a", closed={"concurrency": 2, "think_s": 1.5}), cls("b", closed={"concurrency": 3}),
               cls("c", rate=2)]  # fmt: skip
    trace = build_trace(classes, {}, 10, 1)
    assert [(p.workers, p.think_ns) for p in trace.closed_loops] == [(2, 1_500_000_000), (3, 0)]
    a, b = (
        [s.request for s in itertools.islice(p.specs(), n)] for p, n in zip(trace.closed_loops, (50, 9), strict=True)
    )
    numbers = [s.request for s in trace.open_loop] + a + b
    assert len(set(numbers)) == len(numbers)


def test_max_concurrency_without_weights_varies_the_closed_classes():
    """With closed classes alone, max_concurrency is their total, shared as they share their own."""
    classes = [cls("a", closed={"concurrency": 6}), cls("b", closed={"concurrency": 2})]
    assert [p.workers for p in build_trace(classes, {"max_concurrency": 4}, 10, 1).closed_loops] == [3, 1]


@pytest.mark.parametrize(
    ("total", "weights", "shares"),
    [(4, [0.8, 0.2], [3, 1]), (10, [1, 1, 1], [4, 3, 3]), (1, [0.5, 0.5], [1, 1]), (7, [5], [7]), (8, [99, 1], [8, 1])],
)
def test_share_out_by_largest_remainder(total: int, weights: list[float], shares: list[int]):
    """Whole workers by largest remainder, at least one each."""
    assert share_out(total, weights) == shares


@pytest.mark.parametrize(
    ("classes", "load", "words"),
    [
        ([cls(weight=1)], {"load_scale": 2.0}, "class chat has a weight"),
        ([cls(rate=1)], {"max_concurrency": 2}, "no class has a weight or closed"),
    ],
)
def test_a_load_that_reaches_no_class_is_refused(classes: list[RequestClass], load: dict[str, Any], words: str):
    """A load axis that would change nothing, or a weight without a rate, is said instead of run."""
    with pytest.raises(ConfigError, match=words):
        build_trace(classes, load, 10, 1)


def test_in_flight_caps_from_grid_go_first():
    """The grid's cap goes before the class's own; a class with neither has none."""
    classes = [cls("chat", rate=1), cls("bulk", rate=1, max_in_flight=8), cls("rag", rate=1, max_in_flight=3)]
    assert in_flight_caps(classes, {"bulk_max_in_flight": 2}) == {"bulk": 2, "rag": 3}
    assert in_flight_caps(classes, {"bulk_max_in_flight": 0}) == {"bulk": 0, "rag": 3}


@given(
    tokens=st.integers(1, 3000), key=st.integers(0, 2**64 - 1), per_word=st.floats(0.5, 3), overhead=st.floats(0, 60)
)
def test_prompt_has_the_words_that_make_the_tokens(tokens: int, key: int, per_word: float, overhead: float):
    """The number of words is (tokens - overhead) / tokens per word, at least 1, all common words."""
    text = make_prompt(spec(prompt_tokens=tokens, prompt_key=key), PromptScale(per_word, overhead))
    words = text.split(" ")
    assert len(words) == max(1, round((tokens - overhead) / per_word))
    assert set(words) <= set(WORDS)


@given(key=st.integers(0, 2**64 - 1))
def test_first_words_spell_the_key(key: int):
    """The first 8 words give the 64-bit key back, so two keys never have the same beginning."""
    words = make_prompt(spec(prompt_key=key), PromptScale()).split()[:KEY_WORDS]
    assert KEY_WORDS == 8
    assert sum(WORDS.index(w) * len(WORDS) ** i for i, w in enumerate(words)) == key


def test_prompts_are_reproducible():
    """The same seed, class and index give the same prompt; another seed, class or index another."""

    def first(name: str, seed: int) -> list[str]:
        trace = build_trace([cls(name, rate=5, arrival="constant")], {}, 2, seed)
        return [make_prompt(s, PromptScale()) for s in trace.open_loop]

    assert first("chat", 1) == first("chat", 1)
    assert len({*first("chat", 1), *first("chat", 2), *first("rag", 1)}) == 30


def test_shared_prefix_is_common_to_the_class_alone():
    """A shared prefix of 20 tokens is the same 20 words in all of a class, then every prompt goes its own way."""
    a, b, other = (
        make_prompt(spec(prompt_key=k, class_name=n), PromptScale(), shared_prefix_tokens=20).split()
        for k, n in ((1, "chat"), (2, "chat"), (1, "rag"))
    )
    assert len(a) == len(b) == len(other) == 50
    assert a[:20] == b[:20]
    assert a[20] != b[20]
    assert a[:20] != other[:20]


@pytest.mark.parametrize(("tokens", "shared"), [(5, 0), (8, 0), (12, 4), (300, 292)])
def test_shared_prefix_leaves_room_for_the_key(tokens: int, shared: int):
    """A prefix longer than the prompt is shortened, so that prompts still differ."""
    a, b = (
        make_prompt(spec(prompt_tokens=tokens, prompt_key=k), PromptScale(), shared_prefix_tokens=1000).split()
        for k in (1, 2)
    )
    assert len(a) == tokens
    assert a[:shared] == b[:shared]
    assert a[shared] != b[shared]


def test_words_are_distinct_and_plain():
    """The word list has no double, and each word is lower-case ASCII letters."""
    assert len(set(WORDS)) == len(WORDS) >= 256
    assert all(w.isascii() and w.isalpha() and w.islower() for w in WORDS)
