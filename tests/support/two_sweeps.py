"""Pairs of made-up sweeps to be compared: the same arrivals, answered as a test wants. NOT measured on anything."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from runner.analysis.prepare import Prepared, prepare
from storage.records import CellRecord, RequestRecord
from storage.tables import SweepTables
from tests.support.tables import make_cell, make_config, make_request, make_tables

Answer = Callable[[int], tuple[float, list[float]]]  # request -> TTFT in ms, gaps in ms
N = 120


def quick(i: int) -> tuple[float, list[float]]:
    """Well inside targets of 1 s / 150 ms; TTFT and gaps differ from request to request."""
    return 100.0 + 3.0 * (i * 7 % 40), [20.0 + i % 5] * 10


def slow(i: int) -> tuple[float, list[float]]:
    """Three requests of four are late."""
    ttft, gaps = quick(i)
    return (1500.0 + ttft if i % 4 else 300.0), [g * 2 for g in gaps]


def jittered(seed: int) -> Answer:
    """As `quick`, but for chance: every request up to 20 % faster or slower."""

    def answer(i: int) -> tuple[float, list[float]]:
        by = 1.0 + 0.2 * float(np.random.default_rng([seed, i]).uniform(-1, 1))
        ttft, gaps = quick(i)
        return ttft * by, [g * by for g in gaps]

    return answer


def sweep_tables(
    answers: Sequence[Answer] = (quick,),
    settings: Sequence[dict[str, Any]] = ({"max_num_seqs": 4},),
    *,
    seed: int = 1,
    load: dict[str, float] | None = None,
    repeats: int = 1,
    n: int = N,
    first: int = 0,
    class_of: Callable[[int], str] = lambda i: "chat",
    **config: Any,  # noqa: ANN401
) -> SweepTables:
    """One cell of 100 s a setting and repeat: `n` requests at moments of the seed; `first` numbers the first."""
    load = load or {"request_rate": 1.2}
    cells: list[CellRecord] = []
    requests: list[RequestRecord] = []
    for repeat in range(repeats):
        due = np.sort(np.random.default_rng(seed + repeat).uniform(0, 99_000, n))
        for answer, setting in zip(answers, settings, strict=True):
            cell = len(cells)
            cells.append(make_cell(cell, setting=setting, load=load, repeat=repeat))
            for i in range(n):
                ttft, gaps = answer(i + repeat)
                name = class_of(i)
                requests.append(
                    make_request(first + i, at_ms=due[i], ttft_ms=ttft, gaps_ms=gaps, cell=cell, class_name=name)
                )
    grid: dict[str, list[Any]] = {}
    for place in [*settings, load]:
        for key, value in place.items():
            grid.setdefault(key, [])
            grid[key] += [value] if value not in grid[key] else []
    run = {"duration_s": 100, "warmup_s": 0, "seed": seed, "repeats": repeats, "drift_check": False}
    settings_of = make_config(**{"grid": grid, "run": run, **config})
    return make_tables(requests, cells=cells, config=settings_of)


def sweep(*args: Any, **kwargs: Any) -> Prepared:  # noqa: ANN401
    """`sweep_tables`, prepared."""
    return prepare(sweep_tables(*args, **kwargs))
