"""Before and after: what is worse is called worse, what is noise noise, and what cannot be told is not told."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.analysis.compare import compare
from runner.analysis.differences import Difference, adjust
from runner.analysis.percentiles import nearest_rank
from runner.analysis.prepare import Prepared, prepare
from runner.analysis.sections import Sections, estimates, steps_of
from runner.config import Slo
from runner.errors import ConfigError
from storage.records import ClientSample
from tests.support.tables import CHAT, SECOND, make_cell, make_request, make_tables
from tests.support.two_sweeps import Answer, N, jittered, quick, slow, sweep, sweep_tables

METRICS = {"share", "goodput_per_s", "ttft_p50_ms", "ttft_p95_ms", "gap_p95_ms", "output_tok_per_s"}


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    (point,) = found["points"]
    return {name: m["verdict"] for name, m in point["metrics"].items()}


def notes(found: dict[str, Any]) -> set[str]:
    return {n["type"] for n in found["notes"]}


def test_a_sweep_beside_itself_is_noise_in_everything() -> None:
    """No difference, no p value below 1, nothing listed as different, and nothing for a script to stop at."""
    found = compare([sweep()], [sweep()])
    (point,) = found["points"]
    assert set(point["metrics"]) == METRICS
    assert {(m["difference"], m["p"], m["verdict"]) for m in point["metrics"].values()} == {(0.0, 1.0, "noise")}
    assert (found["verdict"], found["regression"], found["differs"]) == ("noise", False, [])
    assert point["paired"] is True
    assert found["matched_by"] == "setting_and_load"
    json.dumps(found, allow_nan=False)


def test_chance_from_request_to_request_is_noise() -> None:
    """The same trace with every time up to 20 % off on both sides: nothing is called better or worse."""
    found = compare([sweep([jittered(1)])], [sweep([jittered(2)])])
    assert found["points"][0]["metrics"]["ttft_p50_ms"]["difference"] != 0
    assert set(verdicts(found).values()) == {"noise"}
    assert found["reason"].startswith("The difference is noise")


def test_what_is_slower_is_worse_and_the_other_way_round_better() -> None:
    """Three of four requests late: share 1 against 1/4, exactly; a script stops at it, and not at the reverse."""
    found = compare([sweep()], [sweep([slow])])
    share = found["points"][0]["metrics"]["share"]
    assert (share["a"], share["b"], share["difference"], share["n_a"], share["n_b"]) == (1.0, 0.25, -0.75, N, N)
    assert share["low"] <= -0.75 <= share["high"] < 0
    assert {k for k, v in verdicts(found).items() if v == "worse"} == METRICS - {"output_tok_per_s"}
    assert (found["verdict"], found["regression"]) == ("worse", True)
    assert found["reason"] == (
        "B is worse than A: share inside the targets 25 % instead of 100 %, with max_num_seqs 4 at 1.2 requests/s."
    )
    back = compare([sweep([slow])], [sweep()])
    assert (back["verdict"], back["regression"]) == ("better", False)


def test_a_slower_server_within_its_targets_is_still_worse() -> None:
    """The promises are kept alike, so the times decide; the sentence names the one that moved most."""
    found = compare([sweep()], [sweep([lambda i: (3 * quick(i)[0], quick(i)[1])])])
    assert {k for k, v in verdicts(found).items() if v == "worse"} == {"ttft_p50_ms", "ttft_p95_ms"}
    assert (found["verdict"], found["regression"]) == ("worse", True)
    assert "TTFT P" in found["reason"]


def test_promises_go_before_times() -> None:
    """More requests inside the targets by slower first tokens (all of them just in time) is better, not mixed."""
    before = sweep([lambda i: (50.0 if i % 3 else 1200.0, [20.0] * 10)])
    found = compare([before], [sweep([lambda i: (900.0, [20.0] * 10)])])
    assert verdicts(found)["ttft_p50_ms"] == "worse"
    assert (found["points"][0]["verdict"], found["verdict"], found["regression"]) == ("better", "better", False)


def test_a_difference_too_small_to_matter_is_noise_however_sure() -> None:
    """Every first token 2 % later: beyond its interval, but below what one start of a server differs from the next."""
    found = compare([sweep()], [sweep([lambda i: (1.02 * quick(i)[0], quick(i)[1])])])
    ttft = found["points"][0]["metrics"]["ttft_p50_ms"]
    assert ttft["p_adjusted"] < 0.05
    assert ttft["smallest"] > ttft["difference"] > 0
    assert ttft["verdict"] == "noise"


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("different_seed", {"seed": 2}),
        ("different_arrivals", {"n": N - 20}),
        ("closed_loop", {"load": {"max_concurrency": 4}}),
        ("different_lengths", {"answers": [lambda i: (100.0, [20.0] * (11 + i % 3))]}),
        ("different_classes", {"classes": [{**CHAT, "name": "talk"}]}),
    ],
)
def test_what_was_not_the_same_trace_is_not_compared_in_pairs(why: str, changes: dict[str, Any]) -> None:
    """Each reason is told by name and as a note, and independent intervals are given where there are requests."""
    common = {"load": changes["load"]} if "load" in changes else {}
    found = compare([sweep(**common)], [sweep(**changes)])
    assert (found["points"][0]["paired"], found["points"][0]["unpaired"]) == (False, why)
    assert why in notes(found)
    assert found["regression"] is False


def test_other_classes_do_not_part_the_pairs() -> None:
    """A background class that only B has changes the numbers of requests, not the chats that are compared."""
    tables = sweep_tables(first=1, classes=[CHAT, {**CHAT, "name": "batch", "weight": None, "rate": 0.1, "slo": None}])
    chats = [make_request(0, at_ms=1.0, class_name="batch")]
    batch = make_tables(chats).requests
    mixed = pd.concat([tables.requests, batch]).sort_values(["cell", "scheduled_ns"], ignore_index=True)
    both = prepare(type(tables)(tables.meta, tables.cells, mixed, tables.engine, tables.client))
    found = compare([sweep()], [both])
    assert found["points"][0]["paired"] is True
    assert {d["key"].split(".")[0] for d in found["differs"] if d["where"] == "workload"} == {"batch"}


def test_independent_intervals_are_wider_than_paired_ones() -> None:
    """The same answers under another seed: the same difference in share, less surely."""
    half = [lambda i: (500.0 if i % 2 else 1500.0, [20.0])]
    most = [lambda i: (500.0 if i % 2 or i % 10 == 0 else 1500.0, [20.0])]
    paired, apart = compare([sweep(half)], [sweep(most)]), compare([sweep(half)], [sweep(most, seed=9)])
    share, other = (f["points"][0]["metrics"]["share"] for f in (paired, apart))
    assert share["difference"] == pytest.approx(other["difference"], abs=1e-9)
    assert other["high"] - other["low"] > 1.5 * (share["high"] - share["low"])


def test_the_setting_that_differs_is_left_aside_and_loads_are_matched() -> None:
    """Two threads against one: nothing in common but the load, which is matched by; the setting is what differs."""
    found = compare([sweep(settings=[{"threads": 2}])], [sweep([slow], settings=[{"threads": 1}])])
    assert (found["matched_by"], found["ignored_setting_keys"]) == ("load", ["threads"])
    assert found["differs"] == [{"where": "setting", "key": "threads", "a": 2, "b": 1}]
    assert found["verdict"] == "worse"
    assert "threads 1 instead of 2" in found["reason"]


def test_what_both_sides_have_is_matched_and_the_rest_is_listed() -> None:
    """Setting 4 is on both sides (as 4 and as 4.0), 8 only on B's; a side with several others sends its choice."""
    found = compare([sweep(settings=[{"threads": 4}])], [sweep([quick, slow], [{"threads": 4.0}, {"threads": 8}])])
    assert [p["setting_b"] for p in found["points"]] == [{"threads": 4.0}]
    assert found["unmatched"] == {"a": [], "b": [{"setting": {"threads": 8}, "load": {"request_rate": 1.2}}]}
    assert "left_b" in notes(found)
    chosen = compare([sweep()], [sweep([slow, quick], [{"max_num_seqs": 8}, {"max_num_seqs": 16}])])
    assert [p["setting_b"] for p in chosen["points"]] == [{"max_num_seqs": 16}]


def test_nothing_in_common_can_tell_nothing() -> None:
    """Other loads: no point, said in a sentence."""
    found = compare([sweep()], [sweep(load={"request_rate": 3.0})])
    assert (found["points"], found["verdict"], found["regression"]) == ([], "cant_tell", False)
    assert found["reason"].startswith("Nothing can be compared")


def test_a_setting_that_fails_now_is_worse() -> None:
    """B ran out of memory where A was measured: there are no numbers, and a script must stop."""
    config = {"grid": {"max_num_seqs": [4], "request_rate": [1.2]}}
    cell = make_cell(
        0, load={"request_rate": 1.2}, status="failed", error_kind="out_of_memory",
        window_start_ns=None, window_end_ns=None,
    )  # fmt: skip
    tables = sweep_tables(**config)
    failed = prepare(make_tables([], cells=[cell], config=sweep().config, meta=tables.meta))
    found = compare([sweep()], [failed])
    assert found["points"][0]["failed"] == {"side": "b", "error_kind": "out_of_memory"}
    assert (found["verdict"], found["regression"]) == ("worse", True)
    assert "failed (out of memory)" in found["reason"]
    assert compare([failed], [sweep()])["verdict"] == "better"
    assert compare([failed], [failed])["verdict"] == "cant_tell"


def test_a_doubtful_measurement_is_not_judged() -> None:
    """Our own client was too slow on B's side: its numbers are shown, and nothing follows from them."""
    tables = sweep_tables([slow])
    client = make_tables(client=[ClientSample(0, s * SECOND, 500.0, 0.1, 1) for s in range(100)]).client
    busy = prepare(type(tables)(tables.meta, tables.cells, tables.requests, tables.engine, client))
    found = compare([sweep()], [busy])
    assert found["points"][0]["doubts"] == ["client_saturated"]
    assert set(verdicts(found).values()) == {"cant_tell"}
    assert found["points"][0]["metrics"]["share"]["b"] == 0.25
    assert (found["verdict"], found["regression"]) == ("cant_tell", False)
    assert "doubts" in notes(found)
    assert found["reason"].startswith("Nothing can be said: the measurement itself is in doubt")


def beside_others(share: float, *changes: Answer) -> Prepared:
    """A sweep during which other programs took this share of the machine's processors."""
    tables = sweep_tables(list(changes or (quick,)))
    client = make_tables(client=[ClientSample(0, s * SECOND, 1.0, 0.1, 1, share) for s in range(100)]).client
    return prepare(type(tables)(tables.meta, tables.cells, tables.requests, tables.engine, client))


def test_a_neighbour_on_one_side_only_is_not_blamed_on_the_server() -> None:
    """Other programs took half of the processors on B's side: nothing follows; on both sides alike, B is judged."""
    found = compare([beside_others(0.02)], [beside_others(0.5, slow)])
    assert found["points"][0]["doubts"] == ["machine_busy"]
    assert found["verdict"] == "cant_tell"
    assert compare([beside_others(0.5)], [beside_others(0.5, slow)])["verdict"] == "worse"


def turned(i: int) -> tuple[float, list[float]]:
    """First tokens that take a quarter longer in the second half of the run."""
    ttft, gaps = quick(i)
    return (ttft if i < N / 2 else 1.25 * ttft, gaps)


def test_a_median_is_not_compared_more_surely_than_it_is_known() -> None:
    """Of unpaired runs the interval of the difference is at least as wide as both sides' own together."""
    calm, changed = sweep(seed=1), sweep([turned], seed=2)
    ttft = [p.cells[0].classes["chat"]["ttft_ms"] for p in (calm, changed)]
    metric = compare([calm], [changed])["points"][0]["metrics"]["ttft_p50_ms"]
    own = math.hypot(*((t["p50_high"] - t["p50_low"]) / 2 for t in ttft))
    assert (metric["high"] - metric["low"]) / 2 >= own * 0.999


def test_a_median_that_a_side_does_not_know_is_not_compared() -> None:
    """A run that turned in its middle tells no interval of its median, so no difference either, but what would do."""
    calm, changed = sweep(seed=1), sweep([lambda i: (100.0 if i < N / 2 else 300.0, quick(i)[1])], seed=2)
    metric = compare([calm], [changed])["points"][0]["metrics"]["ttft_p50_ms"]
    assert changed.cells[0].classes["chat"]["ttft_ms"]["p50_low"] is None
    assert metric["verdict"] == "cant_tell"
    assert metric["needs"] > N


def test_too_few_requests_cannot_tell() -> None:
    """Twelve requests carry neither a share nor a P95; the fewest that would are told."""
    found = compare([sweep(n=12)], [sweep([slow], n=12)])
    metrics = found["points"][0]["metrics"]
    assert (metrics["share"]["verdict"], metrics["share"]["needs"]) == ("cant_tell", 18)
    assert (metrics["ttft_p95_ms"]["verdict"], metrics["ttft_p95_ms"]["needs"]) == ("cant_tell", 72)
    assert metrics["share"]["p"] is None


def test_both_sides_are_judged_by_the_same_targets() -> None:
    """A's, unless others are given; that they differ is said and listed."""
    stricter = [{**CHAT, "slo": {"ttft_ms": 150, "gap_ms": 150}}]
    found = compare([sweep()], [sweep(classes=stricter)])
    assert found["verdict"] == "noise"
    assert "targets" in notes(found)
    assert {"where": "workload", "key": "chat.slo.ttft_ms", "a": 1000.0, "b": 150.0} in found["differs"]
    asked = compare([sweep()], [sweep()], targets={"chat": Slo(ttft_ms=150, gap_ms=150)})
    assert asked["points"][0]["metrics"]["share"]["a"] < 1.0


def test_without_targets_the_times_are_compared() -> None:
    """Two sweeps of background work alone: no share, but times and throughput."""
    background = [{**CHAT, "slo": None}]
    found = compare([sweep(classes=background)], [sweep([slow], classes=background)])
    assert found["points"][0]["metrics"]["share"]["a"] is None
    assert verdicts(found)["share"] == "cant_tell"
    assert verdicts(found)["ttft_p50_ms"] == "worse"
    assert found["verdict"] == "worse"


def test_an_uneasy_machine_asks_for_larger_differences() -> None:
    """A's own first cell, measured again, was 60 % slower: B's 50 % are then nothing that B must answer for."""
    tables = sweep_tables([quick, lambda i: (1.6 * quick(i)[0], quick(i)[1])], [{"max_num_seqs": 4}] * 2)
    cells = tables.cells.assign(repeat=[0, 1])
    uneasy = prepare(type(tables)(tables.meta, cells, tables.requests, tables.engine, tables.client))
    assert uneasy.drift is not None
    half_more = sweep([lambda i: (1.5 * quick(i)[0], quick(i)[1])])
    assert verdicts(compare([sweep()], [half_more]))["ttft_p50_ms"] == "worse"
    assert verdicts(compare([uneasy], [half_more]))["ttft_p50_ms"] == "noise"


def test_runs_in_turns_are_told_apart_by_their_own_spread() -> None:
    """Four runs a side, each steady in itself and 40 % apart from the next: a difference of a tenth drowns in that."""

    def run(by: float) -> Any:  # noqa: ANN401
        return sweep([lambda i: (by * quick(i)[0], quick(i)[1])])

    unsteady = (1.0, 1.4, 0.8, 1.2)
    a, b = [run(by) for by in unsteady], [run(1.1 * by) for by in reversed(unsteady)]
    assert verdicts(compare(a[:1], [run(1.1)]))["ttft_p50_ms"] == "worse"
    found = compare(a, b)
    assert found["points"][0]["cells_a"] == [0, 0, 0, 0]
    assert verdicts(found)["ttft_p50_ms"] == "noise"
    assert verdicts(compare(a, [run(4 * by) for by in unsteady]))["ttft_p50_ms"] == "worse"


@pytest.fixture
def two_classes() -> dict[str, Any]:
    """Every second request is of a class of its own, with the targets of a chat."""
    return {"classes": [CHAT, {**CHAT, "name": "rag"}], "class_of": lambda i: ("chat", "rag")[i % 2]}


def test_a_class_that_got_better_does_not_hide_one_that_got_worse(two_classes: dict[str, Any]) -> None:
    """Half of the chats were late and none is, none of the others was and half are: the share of all is the same three
    quarters, and a script must stop all the same."""

    def late(every: int) -> Any:  # noqa: ANN401
        return lambda i: (1500.0 if i % 4 == every else 100.0, [20.0] * 10)

    found = compare([sweep([late(0)], **two_classes)], [sweep([late(1)], **two_classes)])
    (point,) = found["points"]
    assert point["metrics"]["share"]["difference"] == 0.0
    shares = {name: (m["share"]["a"], m["share"]["b"], m["share"]["verdict"]) for name, m in point["classes"].items()}
    assert shares == {"chat": (0.5, 1.0, "better"), "rag": (1.0, 0.5, "worse")}
    assert (point["verdict"], found["verdict"], found["regression"]) == ("mixed", "mixed", True)
    assert "worst is share inside the targets of rag, 50 % instead of 100 %" in found["reason"]
    json.dumps(found, allow_nan=False)


def test_a_small_class_that_got_worse_is_seen_among_many_others(two_classes: dict[str, Any]) -> None:
    """A third of a class that is a twentieth of the requests: 1.7 points of all, which would be noise."""
    rare = {**two_classes, "n": 600, "class_of": lambda i: "chat" if i % 20 else "rag"}
    found = compare([sweep(**rare)], [sweep([lambda i: (100.0 if i % 60 else 1500.0, quick(i)[1])], **rare)])
    (point,) = found["points"]
    assert point["metrics"]["share"]["verdict"] == "noise"
    assert found["regression"] is True
    assert found["reason"].startswith(
        "B is worse than A for rag: share inside the targets 67 % instead of 100 %, with "
    )


def test_of_one_class_alone_nothing_is_told_twice() -> None:
    """Its share is that of all, and was looked at once."""
    assert compare([sweep()], [sweep([slow])])["points"][0]["classes"] == {}


def test_a_side_without_a_sweep_is_refused() -> None:
    """In a sentence, not as an index error."""
    with pytest.raises(ConfigError, match="a sweep on each side"):
        compare([], [sweep()])


def test_a_family_of_differences_is_adjusted_promises_apart_from_the_rest() -> None:
    """Two points: shares of p .03 and .04 stay .06 (Holm of two), goodput of a pair follows its share; of .01, .02 and
    .5 in the rest the first becomes .03, the second .04."""

    def one(metric: str, p: float | None) -> Difference:
        return Difference(metric, 1.0, 2.0, 0.0, 2.0, p, 0.0, 50, 50, None)

    first = [one("share", 0.03), one("goodput_per_s", 0.001), one("ttft_p50_ms", 0.01), one("ttft_p95_ms", None)]
    second = [one("share", 0.04), one("goodput_per_s", 0.9), one("ttft_p50_ms", 0.02), one("gap_p95_ms", 0.5)]
    found = adjust([first, second], [True, True])
    told = [[None if d.p_adjusted is None else round(d.p_adjusted, 9) for d in point] for point in found]
    assert told == [[0.06, 0.06, 0.03, None], [0.06, 0.06, 0.04, 0.5]]
    apart = adjust([first[:2]], [False])[0]
    assert [d.p_adjusted for d in apart] == [0.03, 0.002]


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=200), st.integers(1, 6))
def test_a_percentile_under_even_weights_is_the_nearest_rank(values: list[float], sections: int) -> None:
    """Reading percentiles from counted steps gives the very value that a sort would, for both percentiles."""
    ms = np.array(values)
    place = np.arange(len(ms)) * sections // len(ms)
    ones = np.ones(sections)
    made = Sections(
        run=np.zeros(sections, dtype=np.int64), seconds=ones, met=ones, judged=ones, tokens=ones,
        values={"ttft": ms, "gap": ms}, places={"ttft": place, "gap": place},
    )  # fmt: skip
    for metric, q in (("ttft_p50_ms", 0.50), ("gap_p95_ms", 0.95)):
        read = estimates(made, ones[None, :], metric, steps_of(made, made, metric))
        assert read.tolist() == [nearest_rank(ms, q)]
