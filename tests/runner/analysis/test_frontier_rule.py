"""Which points lie on the frontier, the best goodput per load, the highest load that holds."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.frontier import best_by_load, frontier, frontier_chances, is_valid, load_level, sustainable_load


def row(cell: int, tokens: float, goodput: float, *, rate: float = 1.0, share: float = 1.0, **changes: Any) -> Any:  # noqa: ANN401
    return {
        "cell": cell,
        "output_tok_per_s": tokens,
        "goodput_per_s": goodput,
        "load": {"request_rate": rate},
        "status": "ok",
        "flags": [],
        "classes": {"chat": {"share": share}, "background": {"share": None}},
        **changes,
    }


def test_dominated_points_are_off_the_frontier() -> None:
    """Less of both is off, less of one and more of the other is on, and equals are both on."""
    rows = [row(0, 10, 5), row(1, 20, 4), row(2, 9, 4.5), row(3, 20, 4), row(4, 20, 3), row(5, 5, 5)]
    assert frontier(rows) == {0, 1, 3}


def test_invalid_and_unmeasured_points_neither_lie_on_it_nor_dominate() -> None:
    """Failed, overloaded, client-limited and unjudged cells are no points; few samples are."""
    rows = [
        row(0, 99, 99, status="failed"),
        row(1, 99, 99, flags=["overload"]),
        row(2, 99, 99, flags=["client_saturated"]),
        row(3, 99, 99) | {"goodput_per_s": None},
        row(4, 1, 1, flags=["low_n", "server_serialises"]),
    ]
    assert frontier(rows) == {4}
    assert [is_valid(r) for r in rows] == [False] * 4 + [True]


def test_no_cells_no_frontier() -> None:
    """Nothing measured: an empty set, no error."""
    assert frontier([]) == set()
    assert best_by_load([]) == []
    assert sustainable_load([], 0.9) is None


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_frontier_is_exactly_the_non_dominated_points(points: list[tuple[int, int]]) -> None:
    """Equal to the definition checked pair by pair."""
    rows = [row(i, float(t), float(g)) for i, (t, g) in enumerate(points)]
    expected = {
        i for i, (t, g) in enumerate(points) if not any(a >= t and b >= g and (a > t or b > g) for a, b in points)
    }
    assert frontier(rows) == expected


def test_best_by_load_is_the_upper_envelope() -> None:
    """F(load): most goodput of the valid cells at each load, by rising load."""
    rows = [row(0, 1, 1.8, rate=2), row(1, 1, 0.9), row(2, 1, 1.9, rate=2), row(3, 1, 5, rate=2, flags=["send_lag"])]
    assert [(level, r["cell"]) for level, r in best_by_load(rows)] == [(1.0, 1), (2.0, 2)]


def test_sustainable_load_needs_every_repeat() -> None:
    """The largest load whose repeats all hold the share; an overloaded repeat ends it."""
    rows = [
        row(0, 1, 1, rate=1, share=0.99),
        row(1, 1, 1, rate=2, share=0.95),
        row(2, 1, 1, rate=2, share=0.89),
        row(3, 1, 1, rate=4, share=0.95, flags=["overload"]),
    ]
    assert sustainable_load(rows, 0.90) == 1.0
    assert sustainable_load(rows, 0.85) == 2.0
    assert sustainable_load(rows, 0.999) is None


def test_load_level_of_each_axis() -> None:
    """One number for each load axis, null where the file has none."""
    assert load_level({"request_rate": 2.5}) == 2.5
    assert load_level({"max_concurrency": 8, "chat_max_in_flight": 2}) == 8.0
    assert load_level({"chat_max_in_flight": 2}) is None


def test_the_chance_of_being_on_the_frontier_counts_the_draws() -> None:
    """Of four draws the second point beats the first in one; a third that is worse in both every time has none."""
    tokens = np.array([[10, 10, 10, 10], [9, 9, 9, 11], [1, 1, 1, 1]], dtype=float)
    goodput = np.array([[5, 5, 5, 5], [6, 6, 4, 6], [0, 0, 0, 0]], dtype=float)
    assert frontier_chances(tokens, goodput).tolist() == [0.75, 0.75, 0.0]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_one_draw_is_the_frontier_itself(points: list[tuple[int, int]]) -> None:
    """With a single draw a chance is 1 for exactly the points of `frontier`, equals included."""
    values = np.array(points, dtype=float)
    chances = frontier_chances(values[:, :1], values[:, 1:])
    rows = [row(i, tokens, goodput) for i, (tokens, goodput) in enumerate(points)]
    assert {i for i, chance in enumerate(chances) if chance == 1.0} == frontier(rows)
    assert set(chances.tolist()) <= {0.0, 1.0}
