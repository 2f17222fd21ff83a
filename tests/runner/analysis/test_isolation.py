"""What each way of keeping background work apart gives and costs, and which one is taken: exact numbers."""

from typing import Any

import numpy as np
import pytest

from runner.analysis.isolation import difference_of
from runner.analysis.result import build_result
from storage.records import CellRecord, RequestRecord
from tests.support.tables import make_cell, make_config, make_request, make_tables

CHATS, JOBS, WINDOW_S = 100, 10, 100
CLASSES = [
    {"name": "chat", "rate": 1, "prompt_tokens": 10, "output_tokens": 2, "slo": {"ttft_ms": 1000, "gap_ms": 150}},
    {"name": "jobs", "dump": {"count": JOBS, "at_s": 0}, "prompt_tokens": 10, "output_tokens": 2},
]
# cap -> (how many chats are late, seconds until the last job has ended)
Ways = dict[int, tuple[int, float]]
Fates = dict[int, dict[str, Any]]  # cap -> what its cell became
USUAL: Ways = {0: (0, 0.0), 2: (0, 90.0), 4: (1, 60.0), JOBS: (40, 40.0)}


def isolation(ways: Ways, alone_s: float | None = None, fates: Fates | None = None) -> dict[str, Any] | None:
    """The verdict of a sweep with a cell for each cap."""
    found: dict[str, Any] | None = result(ways, alone_s, fates).get("isolation")
    return found


def result(ways: Ways, alone_s: float | None = None, fates: Fates | None = None) -> dict[str, Any]:
    """Of a sweep with a cell for each cap: 100 chats in 100 s, 10 jobs at its start; `fates`: of cells that did not end
    well, without requests."""
    cells: list[CellRecord] = []
    requests: list[RequestRecord] = []
    caps = list(ways.items())
    loads: list[dict[str, Any]] = [{"jobs_max_in_flight": cap} for cap, _ in caps]
    if alone_s is not None:
        caps.append((JOBS, (-1, alone_s)))
        loads.append({"jobs_max_in_flight": JOBS, "only": "jobs"})
    for number, ((cap, (late, ends_s)), load) in enumerate(zip(caps, loads, strict=True)):
        fate = (fates or {}).get(cap) if "only" not in load else None
        cells.append(make_cell(number, setting={}, load=load, **{"window_end_ns": WINDOW_S * 10**9, **(fate or {})}))
        if fate is not None:
            continue
        requests += [_chat(number, i, late) for i in range(CHATS) if late >= 0]
        requests += [_job(number, CHATS + i, ends_s * (i + 1) / JOBS, sent=cap > 0) for i in range(JOBS)]
    config = make_config(
        grid={"jobs_max_in_flight": list(ways)},
        classes=CLASSES,
        run={"duration_s": WINDOW_S, "warmup_s": 0, **({"alone": "jobs"} if alone_s is not None else {})},
    )
    return build_result(make_tables(requests, cells=cells, config=config))


def _chat(cell: int, i: int, late: int) -> RequestRecord:
    """Late ones are spread over the time: neighbours that share their fate would widen every interval."""
    ttft_ms = 2000.0 if (i * late) % CHATS < late else 100.0
    return make_request(i, at_ms=1000.0 * i, ttft_ms=ttft_ms, gaps_ms=[10.0], cell=cell, class_name="chat")


def _job(cell: int, i: int, ends_s: float, *, sent: bool) -> RequestRecord:
    """Ends in the window, or was cut by its end."""
    if not sent or ends_s > WINDOW_S:
        cut = {"outcome": "cancelled", "error_kind": "cancelled", "output_tokens": None}
        return make_request(i, at_ms=0.0, ttft_ms=None, cell=cell, class_name="jobs", **cut)
    return make_request(i, at_ms=0.0, ttft_ms=1000 * ends_s - 10, gaps_ms=[10.0], cell=cell, class_name="jobs")


def arms(found: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    assert found is not None
    return {arm["arm"]: arm for arm in found["arms"]}


def test_the_arm_that_keeps_the_share_and_costs_the_background_least_is_taken() -> None:
    """Caps 2 and 4 both prove 90 %; with 4 the jobs take a minute instead of 40 s, with 2 a minute and a half."""
    found = isolation(USUAL)
    each = arms(found)
    assert [(a, each[a]["kind"], each[a]["share"]) for a in each] == [
        ("alone", "alone", 1.0), ("as it is", "as_is", 0.6), ("cap 2", "cap", 1.0), ("cap 4", "cap", 0.99),
    ]  # fmt: skip
    assert [each[a]["meets_target"] for a in each] == [True, False, True, True]
    ends = {a: each[a]["background"] and each[a]["background"]["makespan_s"] for a in each}
    assert ends == {"alone": None, "cap 2": 90.0, "cap 4": 60.0, "as it is": 40.0}
    assert found is not None
    assert (found["verdict"], found["arm"], found["background"]) == ("arm", "cap 4", "jobs")
    assert "Cap 4: chat share 99 % instead of 60 %" in found["reason"]
    assert found["reason"].endswith("jobs takes 60.0 instead of 40.0 s.")
    assert each["cap 4"]["difference"] == pytest.approx(0.39)
    assert each["as it is"]["difference"] is None


def test_jobs_that_are_left_are_projected_at_the_pace_of_the_others() -> None:
    """Half of ten jobs in 100 s of window: ten would take twice as long as five, and the sentence marks it."""
    found = isolation({**USUAL, 4: (1, 190.0), 2: (20, 90.0)})
    left = arms(found)["cap 4"]["background"]
    assert (left["completed"], left["projected"], left["makespan_s"]) == (5, True, 190.0)
    assert found is not None
    assert found["reason"].endswith("jobs takes ~3.2 instead of 0.7 min.")


def test_nothing_is_needed_where_the_background_does_no_harm() -> None:
    """One late chat of a hundred proves more than 90 %."""
    found = isolation({**USUAL, JOBS: (1, 40.0)})
    assert found is not None
    assert (found["verdict"], found["arm"]) == ("nothing_needed", "as it is")
    assert found["reason"].endswith("jobs takes 40.0 s.")


def test_chats_that_are_late_even_alone_are_not_the_background_s_fault() -> None:
    """Then no way of keeping it apart can help."""
    found = isolation({0: (30, 0.0), 4: (35, 60.0), JOBS: (40, 40.0)})
    assert found is not None
    assert found["verdict"] == "alone_misses"
    assert "even alone the chat share is only 70 %" in found["reason"]


def test_a_window_of_its_own_is_taken_when_nothing_else_keeps_the_share() -> None:
    """Its chats are those of the cell without jobs, its jobs those of the cell without chats."""
    found = isolation({0: (0, 0.0), 4: (30, 60.0), JOBS: (40, 40.0)}, alone_s=20.0)
    window = arms(found)["a time window of its own"]
    assert (window["share"], window["background"]["makespan_s"], window["cells"]) == (1.0, 20.0, [0])
    assert found is not None
    assert found["verdict"] == "window"
    assert found["reason"].endswith("jobs takes 20.0 instead of 40.0 s.")


def test_the_cell_without_chats_is_neither_doubted_nor_chosen() -> None:
    """Nobody asked for anything in it: no "too few samples", and its tokens win no raw throughput."""
    found = result({0: (0, 0.0), 4: (1, 60.0), JOBS: (40, 40.0)}, alone_s=20.0)
    alone = found["cells"][-1]
    assert alone["load"]["only"] == "jobs"
    assert "low_n" not in alone["flags"]
    assert alone["cell"] not in found["choice"]["raw_throughput_cells"]
    assert alone["cell"] not in found["choice"]["cells"]
    assert not alone["on_frontier"]


def test_without_that_window_the_nearest_arm_is_named_as_not_enough() -> None:
    """30 late instead of 40 is no chance, and not what was wanted either."""
    found = isolation({0: (0, 0.0), 4: (30, 60.0), JOBS: (40, 40.0)})
    assert found is not None
    assert (found["verdict"], found["arm"]) == ("none_helps", "cap 4")


def test_what_differs_in_two_chats_only_is_noise() -> None:
    """Nine are late alone and eleven beside the jobs: eleven of 100 may be ten, and two may be chance."""
    found = isolation({0: (9, 0.0), 4: (11, 60.0), JOBS: (11, 40.0)})
    assert found is not None
    assert found["verdict"] == "noise"
    assert "measure longer" in found["reason"].lower()


def test_a_sweep_that_holds_nothing_back_has_no_such_verdict() -> None:
    """A grid with one cap compares nothing."""
    assert isolation({JOBS: (40, 40.0)}) is None


def test_a_step_between_two_parts_is_no_noise() -> None:
    """All 50 chats beside the jobs differ, none of the 50 after them: mean one half, and hardly any doubt.

    Only the part with differences has a variance, 1 in 50 squared, and half the weight: an error of 0.01. Taken
    together there would be ten batch means, five of 1 and five of 0: an error of 0.17.
    """
    mean, low, high, p = difference_of([np.ones(50), np.zeros(50)])
    assert mean == 0.5
    assert high - mean == pytest.approx(2.262 * 0.01, rel=0.001)  # t of ten batches
    assert mean - low == pytest.approx(high - mean)
    assert p < 1e-9


@pytest.mark.parametrize("parts", [[], [np.zeros(0), np.zeros(0)], [np.ones(1)]])
def test_fewer_than_two_common_requests_say_nothing(parts: list[np.ndarray[Any, Any]]) -> None:
    """No difference is claimed, and none ruled out."""
    assert difference_of(parts) == (0.0, -1.0, 1.0, 1.0)


def test_equal_requests_do_not_differ() -> None:
    """Mean 0 with p = 1, not 0/0."""
    assert difference_of([np.zeros(30), np.zeros(9)]) == (0.0, 0.0, 0.0, 1.0)


NO_ROOM = {"status": "failed", "error_kind": "out_of_memory", "error_detail": "no room", "window_end_ns": None}
SKIPPED = {"status": "skipped", "window_end_ns": None}


def test_without_the_background_as_it_is_the_others_still_tell_something() -> None:
    """Its cell failed: why, and that cap 4 keeps the target for sure; nothing differs from what nobody saw."""
    found = isolation(USUAL, fates={JOBS: NO_ROOM})
    each = arms(found)
    assert list(each) == ["alone", "cap 2", "cap 4"]
    assert [arm["difference"] for arm in each.values()] == [None] * 3
    assert found is not None
    assert (found["verdict"], found["arm"]) == ("no_as_is_arm", "cap 4")
    assert found["reason"] == (
        "With jobs as it is nothing can be said, because the server ran out of memory. Cap 4 keeps 90 % for sure: chat "
        f"share 99 % (95 % interval {found['reason_values']['low']} to {found['reason_values']['high']}), jobs takes "
        "60.0 s."
    )
    (lost,) = found["unmeasured"]
    assert (lost["arm"], lost["kind"], lost["status"], lost["error_kind"], lost["error_detail"]) == (
        "as it is", "as_is", "failed", "out_of_memory", "no room",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ways", "fates", "verdict", "arm", "says"),
    [
        ({**USUAL, 2: (30, 90.0), 4: (35, 60.0)}, {JOBS: SKIPPED}, "no_as_is_nearest", "cap 2", "its cell was skipped"),
        ({0: (0, 0.0), 4: (1, 60.0), JOBS: (0, 0.0)}, {4: NO_ROOM, JOBS: NO_ROOM}, "no_as_is_alone", "alone", "memory"),
        ({0: (40, 0.0), 4: (45, 60.0), JOBS: (0, 0.0)}, {JOBS: NO_ROOM}, "no_as_is_alone_misses", "alone", "only 60 %"),
        (USUAL, {2: NO_ROOM, 4: SKIPPED}, "only_as_is", "as it is", "because the server ran out of memory"),
        ({**USUAL, JOBS: (1, 40.0)}, {2: NO_ROOM, 4: NO_ROOM}, "nothing_needed", "as it is", "Nothing is needed"),
    ],
)
def test_what_is_known_is_said_whichever_arm_is_missing(
    ways: Ways, fates: Fates, verdict: str, arm: str, says: str
) -> None:
    """Nearest, only alone, hopeless even alone, only as it is: a sentence each, and the missing arms are listed."""
    found = isolation(ways, fates=fates)
    assert found is not None
    assert (found["verdict"], found["arm"]) == (verdict, arm)
    assert says in found["reason"]
    assert len(found["unmeasured"]) == len(fates)


def test_a_window_of_its_own_counts_without_the_background_as_it_is() -> None:
    """Chats alone are in time and the jobs by themselves take 20 s: that much is known."""
    found = isolation({0: (0, 0.0), 4: (30, 60.0), JOBS: (0, 0.0)}, 20.0, {JOBS: NO_ROOM})
    assert found is not None
    assert (found["verdict"], found["arm"]) == ("no_as_is_arm", "a time window of its own")
    assert found["reason"].endswith("jobs takes 20.0 s.")


def test_an_arm_that_is_still_to_come_is_told_as_such() -> None:
    """The sweep ended before it: neither failed nor forgotten."""
    ways = {cap: way for cap, way in USUAL.items() if cap != JOBS}
    tables_of_three = result({**ways, JOBS: (0, 0.0)}, fates={JOBS: {"status": "running", "window_end_ns": None}})
    found = tables_of_three["isolation"]
    assert found["unmeasured"][0]["status"] == "pending"
    assert "the sweep ended before it was measured" in found["reason"]


def test_nothing_measured_has_no_verdict_here() -> None:
    """Why nothing could be chosen is said by the choice."""
    told = result(USUAL, fates=dict.fromkeys(USUAL, NO_ROOM))
    assert "isolation" not in told
    assert "ran out of memory" in told["choice"]["reason"]


def test_a_cell_that_was_cut_short_is_marked() -> None:
    """What is known of it is of a part of its time."""
    cut = {"error_kind": "hopeless", "error_detail": "cut short"}
    tables = result(USUAL)
    assert [arm["cut"] for arm in tables["isolation"]["arms"]] == [False] * 4
    loads = [{"jobs_max_in_flight": cap} for cap in (0, JOBS)]
    rows = [make_cell(0, setting={}, load=loads[0]), make_cell(1, setting={}, load=loads[1], **cut)]
    requests = [_chat(n, i, 30 * n) for n in (0, 1) for i in range(CHATS)]
    config = make_config(
        grid={"jobs_max_in_flight": [0, JOBS]}, classes=CLASSES, run={"duration_s": WINDOW_S, "warmup_s": 0}
    )
    found = build_result(make_tables(requests, cells=rows, config=config))["isolation"]
    assert {arm["arm"]: arm["cut"] for arm in found["arms"]} == {"alone": False, "as it is": True}
