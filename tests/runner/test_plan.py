"""Which cells a sweep has and in which order: few restarts, or the best information first, and the drift check last."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.config import SweepConfig
from runner.estimate import count_starts
from runner.load.workload import build_trace
from runner.plan import checks_drift, count_cells, count_points, plan_cells, trace_seed
from tests.support.small_sweeps import quick_config


def config(grid: dict[str, list[object]], **run: object) -> SweepConfig:
    return quick_config(grid=grid, run={"duration_s": 1.0, "warmup_s": 0.2, "drain_s": 2.0, **run})


@given(st.lists(st.integers(1, 4), min_size=3, max_size=3), st.integers(1, 3), st.booleans())
def test_every_cell_is_planned_once_and_counted_right(sizes: list[int], repeats: int, hurried: bool) -> None:
    """In both orders: each setting at each load in each repeat, numbered from 0."""
    keys = ("max_num_seqs", "max_num_batched_tokens", "request_rate")
    grid: dict[str, list[object]] = {k: [8 * v for v in range(1, n + 1)] for k, n in zip(keys, sizes, strict=True)}
    found = config(grid, repeats=repeats, drift_check=False, **({"stop_by": "07:00"} if hurried else {}))
    cells = plan_cells(found)
    assert [c.cell for c in cells] == list(range(count_cells(found)))
    points = {(*c.setting.values(), *c.load.values(), c.repeat) for c in cells}
    assert len(points) == len(cells) == sizes[0] * sizes[1] * sizes[2] * repeats


def test_one_key_changes_between_one_setting_and_the_next() -> None:
    """The second key turns round instead of jumping back: (1, 32), (1, 64), (4, 64), (4, 32)."""
    cells = plan_cells(config({"max_num_seqs": [1, 4], "max_num_batched_tokens": [32, 64], "request_rate": [9, 5]}))
    assert [tuple(c.setting.values()) for c in cells[::2]] == [(1, 32), (1, 64), (4, 64), (4, 32)]
    assert [c.load["request_rate"] for c in cells] == [9, 5] * 4
    assert count_starts(cells) == 4


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_neighbours_differ_in_one_key_for_any_grid(sizes: list[int]) -> None:
    """Whatever the lengths of the lists."""
    keys = ("max_num_seqs", "max_num_batched_tokens", "kv_tokens")
    grid: dict[str, list[object]] = {k: [16 * v for v in range(1, n + 1)] for k, n in zip(keys, sizes, strict=False)}
    settings = [c.setting for c in plan_cells(config({**grid, "request_rate": [1.0]}))]
    assert all(sum(a[k] != b[k] for k in a) == 1 for a, b in pairwise(settings))


def test_with_an_hour_to_stop_by_each_setting_is_seen_at_the_middle_load_first() -> None:
    """Then at the loads beside it, then at the rest from near to far; every other pass goes backwards."""
    grid: dict[str, list[object]] = {"max_num_seqs": [1, 2], "request_rate": [1, 16, 4, 2, 8]}
    cells = plan_cells(config(grid, stop_by="07:00"))
    assert [(c.setting["max_num_seqs"], c.load["request_rate"]) for c in cells] == [
        (1, 4), (2, 4),
        (2, 8), (2, 2), (1, 8), (1, 2),
        (1, 16), (1, 1), (2, 16), (2, 1),
    ]  # fmt: skip
    assert count_starts(cells) == 4  # a plain order needs 2, three passes at most 3 a setting


def test_the_first_cell_stands_last_once_more_when_drift_is_checked() -> None:
    """Same setting, load, arrivals and lengths as cell 0; a repeat number that no other cell has."""
    found = config({"max_num_seqs": [2, 8], "request_rate": [5.0]}, repeats=2, drift_check=True, seed=7)
    cells = plan_cells(found)
    first, last = cells[0], cells[-1]
    assert (last.setting, last.load, last.repeat, last.drift) == (first.setting, first.load, 2, True)
    assert [c.drift for c in cells] == [False] * 4 + [True]
    assert count_cells(found) == len(cells) == 5
    assert [trace_seed(found, c) for c in cells] == [7, 7, 8, 8, 7]


@pytest.mark.parametrize(
    ("rates", "duration_s", "cool_down_s", "wanted"),
    [
        (4, 270.0, 0.0, True),  # 4 x (30 + 270) s = 20 min
        (4, 269.0, 0.0, False),
        (4, 200.0, 70.0, True),  # pauses count
        (3, 3000.0, 0.0, False),  # one cell more would be a third
    ],
)
def test_left_to_itself_a_sweep_of_20_minutes_checks_drift(
    rates: int, duration_s: float, cool_down_s: float, wanted: bool
) -> None:
    """And one of fewer than four cells never does."""
    run = {"duration_s": duration_s, "warmup_s": 30.0, "cool_down_s": cool_down_s}
    grid = {"request_rate": [float(r) for r in range(1, rates + 1)]}
    found = quick_config(grid=grid, run=run, backend={"kind": "openai", "url": "http://127.0.0.1:1"})
    assert checks_drift(found) is wanted
    assert len(plan_cells(found)) == count_cells(found) == rates + wanted
    assert count_points(found) == rates
    assert not checks_drift(quick_config(grid=grid, run=run))  # the built-in engine's speed is a cost model's


def test_a_class_alone_is_one_more_cell_with_nobody_beside_it() -> None:
    """`run.alone`: in the first setting, held back as little as anywhere; no other class is sent, and no load axis."""
    jobs = {"name": "jobs", "dump": {"count": 5, "at_s": 0.5}, "prompt_tokens": 8, "output_tokens": 4}
    found = quick_config(
        grid={"max_num_seqs": [1, 4], "request_rate": [9], "jobs_max_in_flight": [0, 5, 2]},
        run={"duration_s": 1.0, "warmup_s": 0.2, "drain_s": 2.0, "alone": "jobs"},
        classes=[*(c.model_dump(exclude_none=True) for c in quick_config().classes), jobs],
    )
    cells = plan_cells(found)
    assert len(cells) == count_cells(found) == 7
    assert (cells[-1].setting, cells[-1].load) == ({"max_num_seqs": 1}, {"jobs_max_in_flight": 5, "only": "jobs"})
    sent = build_trace(found.classes, cells[-1].load, 1.2, 1)
    assert [spec.class_name for spec in sent.open_loop] == ["jobs"] * 5
    assert not sent.closed_loops
