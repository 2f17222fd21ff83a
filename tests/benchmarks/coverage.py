"""How often the 95 % intervals hold the truth: many short runs in virtual time against very long ones.

    python -m tests.benchmarks.coverage [runs] [world[/seconds] …]       (400 runs of chat/120; worlds: chat, mixed)

Every run is made, analysed and scored as a sweep is; only its seed differs. Wanted: 92 to 98 of 100. How often is known
no better than the number of runs allows, so each figure has its own 95 % interval (`between`): `*` marks one that lies
outside as a whole, `~` one that is outside by no more than chance makes of so many runs. At 400 runs an interval that
holds in 95 % shows as 92.9 to 97.1 in 95 of 100 tables.

A bound that is null because the run was too short for it holds everything on that side; `both` says how many runs had
both bounds, and `width` the median of what lies between them. A rate whose window is too short has no interval at all
and is not counted; `n` says how many runs are. The table goes to stdout, progress to stderr.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runner.analysis.gaps import Bools, Floats, gap_table
from runner.analysis.goodput import judge
from runner.analysis.intervals import paired_shares, wilson
from runner.analysis.percentiles import LEVELS, nearest_rank
from runner.analysis.prepare import CellFacts, Prepared
from runner.analysis.result import score, targets_of
from runner.analysis.score import verdicts_of
from runner.config import parse_sweep
from runner.simulated_sweep import VirtualSweep
from runner.simulator.virtual_server import for_virtual_time
from runner.what_if import in_memory

LONG_S, LONG_RUNS = 3600.0, 8
LONG_SEED = 1_000_000  # the runs that stand for the truth share no seed with those that are tried
WANTED = (92.0, 98.0)
LATENCIES = {"TTFT": "ttft_ms", "E2E": "e2e_ms", "TPOT": "tpot_ms", "gap": "gap_ms"}
RATES = {"goodput": "goodput_per_s", "output tok/s": "output_tok_per_s"}
HEAD = "| window | interval | load | truth | held | between | both | width | n |\n|---|---|---|---|---|---|---|---|---|"

Bounds = tuple[float | None, float | None]
CHAT = {
    "name": "chat",
    "prompt_tokens": {"p50": 300, "p90": 1200, "max": 4000},
    "output_tokens": {"p50": 160, "p90": 400, "max": 1000},
    "slo": {"ttft_ms": 1000, "gap_ms": 150},
}


@dataclass(frozen=True)
class World:
    """A server, its load, and two settings to be compared; `rates`: low, middle, near the knee (requests/s)."""

    backend: Mapping[str, Any]
    grid: Mapping[str, list[int]]  # one key with two values
    rates: Mapping[str, float]
    classes: list[dict[str, Any]]

    def raw(self, window_s: float, seed: int) -> dict[str, Any]:
        return {
            "name": "coverage",
            "backend": {"kind": "simulated", **self.backend},
            "grid": {**self.grid, "request_rate": list(self.rates.values())},
            "run": {"duration_s": window_s, "warmup_s": 30, "seed": seed},
            "classes": self.classes,
        }


WORLDS = {
    "chat": World(
        {"preset": "rtx3090/llama-3.1-8b/q4_k_m", "scheduler": "vllm_v1", "max_num_batched_tokens": 512},
        {"max_num_seqs": [8, 10]},
        {"low": 1.0, "middle": 1.5, "knee": 2.0},
        [{**CHAT, "weight": 1}],
    ),
    # bursts, two classes, another scheduler and a slower machine
    "mixed": World(
        {"preset": "rtx3060/llama-3.1-8b/q4_k_m", "scheduler": "llama_cpp"},
        {"max_num_seqs": [6, 8]},
        {"low": 0.2, "middle": 0.35, "knee": 0.5},
        [
            {**CHAT, "weight": 0.8, "arrival": "gamma", "cv": 1.5, "slo": {"ttft_ms": 3000, "gap_ms": 1500}},
            {
                "name": "rag", "weight": 0.2, "prompt_tokens": {"p50": 1500, "p90": 3000, "max": 4000},
                "output_tokens": {"p50": 80, "p90": 200, "max": 400}, "slo": {"ttft_ms": 8000, "gap_ms": 1500},
            },
        ],
    ),
}  # fmt: skip


@dataclass
class Tally:
    """One interval at one load: how often it held the truth."""

    held: int = 0
    both: int = 0
    runs: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, bounds: Bounds, truth: float) -> None:
        low, high = bounds
        self.runs += 1
        slack = 1e-9 * abs(truth)
        self.held += (low is None or low - slack <= truth) and (high is None or truth <= high + slack)
        if low is not None and high is not None:
            self.both += 1
            self.widths.append(high - low)


def sweep(world: World, window_s: float, seed: int) -> Prepared:
    config = parse_sweep(world.raw(window_s, seed), "coverage")
    return in_memory(VirtualSweep(for_virtual_time(config), None, {}))


def outcomes(prepared: Prepared) -> list[tuple[Bools, Bools]]:
    """Of each cell: its window's requests with targets in order of arrival, met and judged."""
    own = verdicts_of(prepared, judge(prepared.requests, targets_of(prepared.config)), None)
    window = prepared.requests["in_window"].to_numpy(dtype=bool)
    return [(own.met[f.rows][window[f.rows]], own.judged[f.rows][window[f.rows]]) for f in prepared.cells]


def latencies(prepared: Prepared, facts: CellFacts) -> dict[str, Floats]:
    """What the percentiles of one cell are of, in ms."""
    rows = prepared.requests.iloc[facts.rows].reset_index(drop=True)
    chosen = (rows["in_window"] & rows["latency_counts"]).to_numpy(dtype=bool)
    streamed = chosen & ~rows["buffered"].to_numpy(dtype=bool)
    found = {n: rows[k].to_numpy(dtype=np.float64)[chosen] for n, k in LATENCIES.items() if k in rows}
    return found | {"gap": gap_table(rows).of_rows(streamed).gap_ms}


def truth_of(world: World) -> dict[tuple[int, str], float]:
    """(cell, metric) -> value over all long runs; the difference of the settings stands at the first one's cells.

    Percentiles are the mean of those of each long run.
    """
    sums: defaultdict[tuple[int, str], float] = defaultdict(float)
    for run in range(LONG_RUNS):
        prepared = sweep(world, LONG_S, LONG_SEED + run)
        for place, (facts, (met, judged)) in enumerate(zip(prepared.cells, outcomes(prepared), strict=True)):
            for name, value in (("met", met.sum()), ("judged", judged.sum()), ("tokens", facts.output_slices.sum())):
                sums[place, name] += float(value)
            for name, values in latencies(prepared, facts).items():
                known = values[~np.isnan(values)]
                for level, q in LEVELS.items():
                    sums[place, f"{name} {level}"] += nearest_rank(known, q) / LONG_RUNS
        print(f"truth {run + 1}/{LONG_RUNS}", file=sys.stderr)
    loads = len(world.rates)
    for place in range(2 * loads):
        sums[place, "share"] = sums[place, "met"] / sums[place, "judged"]
        sums[place, "goodput"] = sums[place, "met"] / LONG_S / LONG_RUNS
        sums[place, "output tok/s"] = sums[place, "tokens"] / LONG_S / LONG_RUNS
    for place in range(loads):
        sums[place, "paired difference"] = sums[place, "share"] - sums[place + loads, "share"]
    return sums


def bounds_of(prepared: Prepared, loads: int) -> Iterator[tuple[int, str, Bounds]]:
    """Everything one short run claims."""
    rows = score(prepared)["cells"]
    for place, row in enumerate(rows):
        yield place, "share", (row["share_low"], row["share_high"])
        for name, key in RATES.items():
            if row[f"{key}_low"] is not None:
                yield place, name, (row[f"{key}_low"], row[f"{key}_high"])
        for name, key in LATENCIES.items():
            for level in LEVELS:
                if row[key][level] is not None:
                    yield place, f"{name} {level}", (row[key][f"{level}_low"], row[key][f"{level}_high"])
    found = outcomes(prepared)
    for place in range(loads):
        (a, could_a), (b, could_b) = found[place], found[place + loads]
        both = could_a & could_b
        deff = max(rows[place]["design_effect"], rows[place + loads]["design_effect"])
        _, low, high = paired_shares(a[both], b[both], deff)
        yield place, "paired difference", (low, high)


def main(runs: int, parts: Sequence[str]) -> None:
    began = time.process_time()
    truths: dict[str, Mapping[tuple[int, str], float]] = {}
    for part in parts:
        name, _, seconds = part.partition("/")
        window_s, world = float(seconds or 120), WORLDS[name]
        truth = truths[name] = truths.get(name) or truth_of(world)
        tallies: defaultdict[tuple[str, int], Tally] = defaultdict(Tally)
        for run in range(1, runs + 1):
            for place, metric, bounds in bounds_of(sweep(world, window_s, 1000 * run), len(world.rates)):
                tallies[metric, place].add(bounds, truth[place, metric])
            if run % 20 == 0:
                print(f"{name}, {window_s:.0f} s: {run}/{runs}", file=sys.stderr)
        print(f"\n{HEAD}")
        marks = [show(f"{name} {window_s:.0f} s", world, *key, truth, tally) for key, tally in sorted(tallies.items())]
        chance, beyond = (marks.count(mark) for mark in "~*")
        print(f"\n{runs} runs, {len(marks)} intervals: {chance} outside within chance, {beyond} beyond it")
    print(f"{time.process_time() - began:.0f} s of CPU", file=sys.stderr)


def show(told: str, world: World, metric: str, place: int, truth: Mapping[tuple[int, str], float], tally: Tally) -> str:
    """Prints the row; the mark: empty where wanted, ~ outside within chance, * beyond it."""
    ((key, settings),) = world.grid.items()
    load, setting = list(world.rates)[place % len(world.rates)], str(settings[place // len(world.rates)])
    if metric == "paired difference":
        setting = f"{settings[0]} - {settings[1]}"
    held = 100.0 * tally.held / tally.runs
    low, high = (100.0 * side for side in wilson(tally.held, tally.runs))
    inside = WANTED[0] <= held <= WANTED[1]
    mark = "" if inside else "~" if low <= WANTED[1] and high >= WANTED[0] else "*"
    width = f"{np.median(tally.widths):.3g}" if tally.widths else "-"
    print(
        f"| {told} | {metric} | {load}, {key} {setting} | {truth[place, metric]:.4g} | {held:.1f} % {mark} | "
        f"{low:.1f} … {high:.1f} | {100.0 * tally.both / tally.runs:.0f} % | {width} | {tally.runs} |",
        flush=True,
    )
    return mark


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 400, sys.argv[2:] or ["chat/120"])
