"""Does a search within half the time of the full grid find as good a setting? 30 random worlds in virtual time.

    python -m tests.benchmarks.budget [worlds] [first]

A world: a machine with a model, a workload with targets, a grid of settings and loads around the machine's capacity,
all drawn from its number. The whole grid is run. A setting is worth the most goodput of its cells that keep the target
without overload (of all its cells, where no setting of the grid keeps it). Then a sweep with `budget` = half of what
the grid took, server starts counted in both. A hit: the picked setting is worth at least 95 % of the best one, in at
most half the time. The third column compares goodput at the picked load as well, by the grid's cell there. On one core;
the times are those of the simulated machine.
"""

import random
import sys
import time
from dataclasses import dataclass
from typing import Any

from runner.analysis.prepare import prepare
from runner.analysis.result import score, targets_of
from runner.config import SweepConfig, parse_sweep
from runner.search.ended import ended_cell
from runner.search.race import race_of
from runner.simulator.presets import resolve_preset
from storage.in_memory import tables_of
from tests.benchmarks.virtual_search import searched

WITHIN = 0.95
MACHINES = (
    "rtx3060/llama-3.1-8b/q4_k_m", "rtx3090/llama-3.1-8b/q4_k_m", "rtx4090/qwen2.5-14b/q4_k_m",
    "rtx4060ti/qwen2.5-7b/q4_k_m", "m2-max/llama-3.1-8b/q4_k_m", "m4-pro/qwen2.5-7b/q4_k_m",
    "rx7900xtx/qwen3-14b/q4_k_m", "p40/llama-3.1-8b/q4_k_m", "strix-halo/qwen3-30b-a3b/q4_k_m",
)  # fmt: skip
GRIDS: tuple[dict[str, list[object]], ...] = (
    {"max_num_seqs": [4, 16, 64], "max_num_batched_tokens": [128, 512, 2048]},
    {"max_num_seqs": [1, 2, 4, 8, 16, 32], "max_num_batched_tokens": [256, 1024]},
    {"scheduler": ["vllm_v1", "sarathi", "orca"], "max_num_seqs": [4, 8, 16, 32]},
    {"max_num_batched_tokens": [2048, 1024, 512, 256, 128, 64], "max_num_seqs": [8, 32]},
)


def world(number: int) -> dict[str, Any]:
    """The sweep as plain data."""
    draw = random.Random(number)
    preset = draw.choice(MACHINES)
    prompt, output = draw.choice([(200, 150), (300, 160), (800, 200), (2000, 120), (120, 300)])
    cost = resolve_preset(preset).cost
    ttft_ms, gap_ms = draw.choice([(1000, 150), (2000, 200), (3000, 100)])
    # a target that even an idle machine misses would be nobody's
    ttft_ms, gap_ms = max(ttft_ms, round(4 * prompt * cost.b * 3)), max(gap_ms, round(3 * cost.a + 200 * cost.b))
    classes: list[dict[str, Any]] = [
        {
            "name": "chat",
            "weight": 0.8,
            "prompt_tokens": {"p50": prompt, "p90": 3 * prompt, "max": 4 * prompt},
            "output_tokens": {"p50": output, "p90": 2 * output, "max": 4 * output},
            "slo": {"ttft_ms": ttft_ms, "gap_ms": gap_ms},
        }
    ]
    if draw.random() < 0.4:
        classes.append({"name": "jobs", "weight": 0.2, "prompt_tokens": 2 * prompt, "output_tokens": output})
    seconds = (1.3 * prompt * cost.b + 1.2 * output * (cost.a / 8 + cost.c)) / 1000  # a request's part of the machine
    capacity = 1.0 / seconds
    kind = draw.choice(["vllm", "llama_cpp"])
    return {
        "name": f"world {number}",
        "backend": {"kind": kind, "url": "http://127.0.0.1:1", "preset": preset, "scheduler": "vllm_v1"},
        "control": {"mode": "command", "command": ["start"]},
        "grid": {
            **draw.choice(GRIDS),
            "request_rate": [float(f"{capacity * part:.2g}") for part in (0.25, 0.45, 0.7, 1.0)],
        },
        "run": {
            "duration_s": round(min(max(120, 100 / (0.45 * capacity)), 600)),
            "warmup_s": 30,
            "seed": number,
            "drift_check": False,
        },
        "classes": classes,
    }


def run(config: SweepConfig) -> tuple[dict[str, Any], float]:
    """The result object and the seconds that the machine was busy with it, starts among them."""
    found = searched(config)
    config, cells, targets = found.config, [c.record for c in found.cells], targets_of(found.config)
    requests = [r for c in found.cells for r in c.requests]
    engine = [e for c in found.cells for e in c.engine]
    result = score(prepare(tables_of(found.meta, cells, requests, engine, [])))
    race = race_of(config if config.run.budget else with_budget(config, 1e6))
    ended = [ended_cell(row, targets, cells[row["cell"]], simulated=True) for row in result["cells"]]
    return result, race.used_s(ended)


def with_budget(config: SweepConfig, seconds: float) -> SweepConfig:
    """The same sweep, searched within that time."""
    run = config.run.model_dump(exclude_unset=True) | {"budget": f"{seconds:.0f}s"}
    run.pop("drift_check", None)
    return parse_sweep({**config.model_dump(mode="json", exclude_unset=True), "run": run}, "benchmark")


@dataclass(frozen=True)
class Outcome:
    """Of one world: the picked setting's worth against the best one's, its goodput at the picked load, both times."""

    ratio: float
    at_load: float
    full_s: float
    used_s: float
    cells: tuple[int, int]
    text: str

    @property
    def hit(self) -> bool:
        return self.ratio >= WITHIN and self.used_s <= 0.5 * self.full_s


def judge(number: int) -> Outcome:
    config = parse_sweep(world(number), "benchmark")
    full, full_s = run(config)
    part, used_s = run(with_budget(config, full_s / 2))
    picked, alpha = part["choice"], config.run.share_target
    sound = [c for c in full["cells"] if "overload" not in c["flags"]] or full["cells"]
    counted = [c for c in sound if (c["share"] or 0.0) >= alpha] or sound
    best = max(counted, key=_goodput)
    mine = [c for c in counted if c["setting"] == picked["setting"]]
    worth = max(map(_goodput, mine), default=0.0)
    same = next(c for c in full["cells"] if (c["setting"], c["load"]) == (picked["setting"], picked["load"]))
    told = f"{_short(picked)} share {same['share']:.2f}, best {_short(best)} share {best['share']:.2f}"
    most = _goodput(best) or 1.0
    return Outcome(worth / most, _goodput(same) / most, full_s, used_s, (len(full["cells"]), len(part["cells"])), told)


def _goodput(cell: dict[str, Any]) -> float:
    return float(cell["goodput_per_s"] or 0.0)


def _short(choice: dict[str, Any]) -> str:
    return "/".join(str(v) for v in choice["setting"].values()) + f" at {choice['request_rate']:g}/s"


def main(worlds: int, first: int) -> int:
    hits, began = 0, time.process_time()
    print("world  setting  at load  time   cells   picked")
    for number in range(first, first + worlds):
        o = judge(number)
        hits += o.hit
        print(
            f"{number:5}  {o.ratio:6.1%}   {o.at_load:6.1%}  {o.used_s / o.full_s:5.1%}  {o.cells[1]:2}/{o.cells[0]}  "
            f"{'' if o.hit else 'MISS '}{o.text}",
            flush=True,
        )
    print(f"{hits} of {worlds} within 5 % in at most half the time; {time.process_time() - began:.0f} s of CPU")
    return 0 if hits >= 0.9 * worlds else 1


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in [*sys.argv[1:], *("30", "1")[len(sys.argv) - 1 :]])))
