"""How often the interval of `--find-rate` holds the largest rate that a server keeps for hours. In virtual time.

    python -m tests.benchmarks.find_rate [searches] [world …]       (20 searches of each world)

The truth: runs of an hour each at rates that close in on the one where the class that gives way first keeps 90 %. Each
search has arrivals of its own. Wanted: 90 of 100 intervals hold it. `off by` is the median of how far the answer is
from the truth, with its sign; `interval` the median of its upper by its lower end; `time` what a search takes on the
server. The table goes to stdout, single searches to stderr.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from runner.analysis.intervals import wilson
from runner.analysis.result import score
from runner.config import SweepConfig, parse_sweep
from runner.search.lanes import axis_of, lanes_of
from runner.search.max_rates import of_lane_told
from runner.simulated_sweep import VirtualSweep
from runner.simulator.virtual_server import for_virtual_time
from runner.what_if import in_memory
from tests.benchmarks.coverage import CHAT, WORLDS
from tests.benchmarks.virtual_search import searched

LONG_S, LONG_RUNS, STEPS = 3600.0, 4, 6
LONG_SEED = 2_000_000  # the runs that stand for the truth share no seed with those that are tried
HEAD = "| world | truth | held | off by | interval | time | probes | outcomes |\n|---|---|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Server:
    """One setting under one workload; `between`: requests/s between which its limit lies, the first one kept."""

    backend: Mapping[str, Any]
    setting: Mapping[str, list[int]]
    classes: list[dict[str, Any]]
    window_s: float
    between: tuple[float, float]

    def config(self, rates: list[float], window_s: float, seed: int, **run: object) -> SweepConfig:
        raw = {
            "name": "find rate",
            "backend": {"kind": "simulated", **self.backend},
            "grid": {**self.setting, "request_rate": rates},
            "run": {"duration_s": window_s, "warmup_s": 30, "seed": seed, **run},
            "classes": self.classes,
        }
        return parse_sweep(raw, "benchmark")


SERVERS = {
    # eight seats are the limit: first tokens wait
    "seats": Server(WORLDS["chat"].backend, {"max_num_seqs": [8]}, WORLDS["chat"].classes, 120.0, (1.6, 2.6)),
    # two classes, bursts, a slower machine
    "mixed": Server(WORLDS["mixed"].backend, {"max_num_seqs": [6]}, WORLDS["mixed"].classes, 300.0, (0.3, 0.9)),
    # seats for all and long prompts: a large token budget freezes running answers, which no queue tells
    "gaps": Server(
        {"preset": "rtx3090/llama-3.1-8b/q4_k_m", "scheduler": "vllm_v1", "max_num_batched_tokens": 2048},
        {"max_num_seqs": [64]},
        [{**CHAT, "weight": 1, "slo": {"ttft_ms": 3000, "gap_ms": 300}}],
        120.0,
        (0.3, 4.0),
    ),
}


def share_at(server: Server, rate: float) -> float:
    """Over long runs, of the class that keeps the least."""
    met: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for run in range(LONG_RUNS):
        config = for_virtual_time(server.config([rate], LONG_S, LONG_SEED + run))
        (row,) = score(in_memory(VirtualSweep(config, None, {})))["cells"]
        met.update({name: c["met"] for name, c in row["classes"].items() if c["judged"]})
        judged.update({name: c["judged"] for name, c in row["classes"].items() if c["judged"]})
    return min(met[name] / n for name, n in judged.items())


def truth_of(server: Server) -> float:
    """The rate at which the share is the target, requests/s."""
    target = server.config([1.0], 60.0, 1).run.share_target
    (low, kept), (high, lost) = ((rate, share_at(server, rate)) for rate in server.between)
    if not kept >= target > lost:
        raise ValueError(f"the limit is not between {low} and {high}: {kept:.3f}, {lost:.3f}")
    for _ in range(STEPS):
        rate = math.sqrt(low * high)
        share = share_at(server, rate)
        low, kept, high, lost = (rate, share, high, lost) if share >= target else (low, kept, rate, share)
    return low * (high / low) ** ((kept - target) / (kept - lost))


@dataclass(frozen=True)
class Answer:
    """`told`: the entry of max_rates."""

    told: Mapping[str, Any]
    took_s: float

    def holds(self, truth: float) -> bool:
        return (self.told["low"] or 0.0) <= truth <= (self.told["high"] or math.inf)


def search(server: Server, seed: int) -> Answer:
    low, high = server.between
    found = searched(server.config([low, math.sqrt(low * high), high], server.window_s, seed, find_rate=True))
    (lane,) = lanes_of(found.config)
    told = of_lane_told(lane, found.ended, axis_of(found.config), found.config.run.share_target)
    return Answer(told, sum(e.took_s for e in found.ended))


def main(searches: int, names: list[str]) -> int:
    began, held, tried = time.process_time(), 0, 0
    rows = []
    for name in names:
        truth, answers = truth_of(SERVERS[name]), []
        print(f"{name}: {truth:.3g} requests/s", file=sys.stderr)
        for seed in range(1, searches + 1):
            answers.append(search(SERVERS[name], 1000 * seed))
            told = answers[-1].told
            mark = "" if answers[-1].holds(truth) else "  MISS"
            line = f"{seed:4} {told['outcome']} {told['load']} {told['low']} … {told['high']}"
            print(f"{line}, {told['probes']} probes{mark}", file=sys.stderr)
        rows.append(_row(name, truth, answers))
        held, tried = held + sum(a.holds(truth) for a in answers), tried + len(answers)
    low, high = wilson(held, tried)
    print("\n".join([HEAD, *rows]))
    print(f"\n{held} of {tried} intervals held the truth ({low:.0%} to {high:.0%} of all would)")
    print(f"{time.process_time() - began:.0f} s of CPU", file=sys.stderr)
    return 0 if held >= 0.9 * tried else 1


def _row(name: str, truth: float, answers: list[Answer]) -> str:
    known = [a.told for a in answers if a.told["low"] and a.told["high"] and a.told["load"]]
    off = median(t["load"] / truth - 1 for t in known) if known else math.nan
    wide = median(t["high"] / t["low"] for t in known) if known else math.nan
    outcomes = ", ".join(f"{n} {what}" for what, n in Counter(a.told["outcome"] for a in answers).most_common())
    held, probes = sum(a.holds(truth) for a in answers), median(a.told["probes"] for a in answers)
    minutes = median(a.took_s for a in answers) / 60
    return (
        f"| {name} | {truth:.3g}/s | {held} of {len(answers)} | {off:+.1%} | {wide:.2f} | {minutes:.0f} min | "
        f"{probes:.0f} | {outcomes} |"
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 20, sys.argv[2:] or list(SERVERS)))
