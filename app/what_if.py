"""The what-if form: machine, load and schedulers -> the plain data of a sweep in virtual time. Imports no Streamlit."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app import forms
from app.words import Words
from runner.config import Length, RequestClass, SweepConfig
from runner.config_errors import plain_error
from runner.engines.knowledge import longest_tokens
from runner.errors import ConfigError
from runner.load.event_rate import mean_tokens
from runner.plan import count_points
from runner.saved_backends import FILE as BACKENDS
from runner.simulator.capacity import capacity_per_s
from runner.simulator.cost_model import largest_safe_token_budget
from runner.simulator.presets import EngineProfile
from runner.simulator.settings import USUAL_CONTEXT_TOKENS, USUAL_GAP_MS
from runner.simulator.state import BLOCK_TOKENS

MOST_CELLS = 60
MOST_TOKENS = 2_000_000  # of all answers: a second or two on two slow cores, and some 100 MB
LOADS = (0.25, 0.5, 0.9)  # of what the machine could do with full batches
MOST_S = 4 * 3600.0  # of a cell, however slow the machine: the engine is looked at all the time
LOOKS = 500  # at the engine in a cell, or one every 5 s


def profile_files(data_dir: Path) -> list[Path]:
    """TOML files of the data folder, and of its folder `profiles`, that may hold a cost model."""
    found = [*data_dir.glob("*.toml"), *(data_dir / "profiles").glob("*.toml")]
    return sorted(p for p in found if p.name != BACKENDS)


def class_tables(classes: Iterable[RequestClass]) -> list[dict[str, Any]]:
    """Classes of an earlier sweep as a sweep file would say them, those that replay a recorded trace left out.

    A class with a rate of its own gets it as its weight, so that the rates of the page are the total of all.
    """
    out = []
    for c in classes:
        if c.trace is None:
            told = c.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
            out.append({**{k: v for k, v in told.items() if k != "rate"}, **({"weight": c.rate} if c.rate else {})})
    return out


def workload_tables(workload: str) -> list[dict[str, Any]]:
    """Classes of a workload of the new-sweep form, as a sweep file would say them."""
    tables: list[dict[str, Any]] = forms.sweep_data("", {}, [], forms.WORKLOADS[workload], {})["classes"]
    return tables


def classes_of(tables: Sequence[Mapping[str, Any]]) -> list[RequestClass]:
    """The tables as classes. Raises ConfigError."""
    try:
        return [RequestClass.model_validate(t) for t in tables]
    except ValidationError as e:
        raise ConfigError(f"classes: {plain_error(e)}") from None


def load_axis(classes: Sequence[Mapping[str, Any]]) -> str:
    """request_rate, or max_concurrency where all come in closed loops."""
    return "request_rate" if any(c.get("weight") for c in classes) else "max_concurrency"


def usual_loads(axis: str, capacity: float, max_num_seqs: int) -> str:
    """What stands in the field at first: three rates up to near the capacity, or numbers of users at once."""
    if axis == "max_concurrency":
        return ", ".join(dict.fromkeys(str(max(1, round(max_num_seqs * share))) for share in LOADS))
    return ", ".join(dict.fromkeys(f"{share * capacity:.2g}" for share in LOADS))


def duration_s(axis: str, loads: str, capacity: float, requests: int) -> float:
    """Measured seconds in which the middle load sees about so many requests."""
    rates = sorted(
        float(v) for v in forms.parse_values(loads) if isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0
    )
    rate = rates[len(rates) // 2] if rates and axis == "request_rate" else 0.6 * capacity
    return min(max(20.0, float(f"{requests / rate:.2g}")), MOST_S)


def usual_budget(profile: EngineProfile, max_num_seqs: int) -> int:
    """The power of two, 32 to 2048, below the largest safe token budget for the usual target, in tokens."""
    context = min(profile.kv_tokens, max_num_seqs * USUAL_CONTEXT_TOKENS)
    try:
        safe = largest_safe_token_budget(profile.cost, USUAL_GAP_MS, max_num_seqs, context)
    except ValueError:
        return 2048
    return int(2 ** min(max(5, safe.bit_length() - 1), 11))


def sweep_raw(
    name: str,
    speed: Mapping[str, str],
    classes: Sequence[Mapping[str, Any]],
    schedulers: Sequence[str],
    loads: str,
    seconds: float,
    limits: tuple[int, int],
    pool_tokens: int,
) -> dict[str, Any]:
    """The sweep as a sweep file would say it. `speed`: {"preset": …} or {"profile": …}; `limits`: max_num_seqs and
    max_num_batched_tokens.

    static and orca reserve room for the longest request there is, and no more; llama_cpp's slots share the context, as
    is usual for it: with parts of their own, slots for this many would be too short for long prompts.
    """
    seqs, budget = limits
    lengths = [[Length.model_validate(_length(c[k])) for k in ("prompt_tokens", "output_tokens")] for c in classes]
    longest = max((sum(map(longest_tokens, pair)) for pair in lengths), default=0)
    backend = {
        "kind": "simulated",
        **speed,
        "max_num_seqs": seqs,
        "max_num_batched_tokens": budget,
        "max_model_len": max(BLOCK_TOKENS, min(longest, pool_tokens // BLOCK_TOKENS * BLOCK_TOKENS)),
        **({"kv_unified": True} if "llama_cpp" in schedulers else {}),
    }
    return {
        "name": name,
        "backend": backend,
        "grid": {"scheduler": list(schedulers), load_axis(classes): forms.parse_values(loads)},
        "run": {"duration_s": seconds, "scrape_interval_s": min(max(0.25, round(seconds / LOOKS, 2)), 5.0)},
        "classes": [dict(c) for c in classes],
    }


def _length(value: object) -> object:
    return {"fixed": value} if isinstance(value, int) else value


def context_tokens(classes: Sequence[RequestClass]) -> float:
    """KV tokens of an answer halfway through a request of mean length, of the class where they are most."""
    return max(mean_tokens(c.prompt_tokens) + mean_tokens(c.output_tokens) / 2 for c in classes)


def size_of(config: SweepConfig, profile: EngineProfile) -> tuple[int, float]:
    """(cells, tokens of all their answers at most: what is asked for, whether it is reached or not; closed loops ask
    for what the machine could answer)."""
    seconds = config.run.warmup + config.run.duration_s
    rates = [float(v) for v in config.grid.get("request_rate", ())]
    mix = [c for c in config.classes if c.weight]
    weights = sum(c.weight or 1.0 for c in mix)
    output = sum((c.weight or 1.0) / weights * mean_tokens(c.output_tokens) for c in mix)
    cells, schedulers = count_points(config), len(config.grid["scheduler"])
    dumped = sum(c.dump.count * mean_tokens(c.output_tokens) for c in config.classes if c.dump)
    users = sum(c.closed.concurrency for c in config.classes if c.closed)
    scales = [float(v) / users for v in config.grid.get("max_concurrency", ())] if users else []
    looped = sum(_loop_tokens(config, profile, scale, seconds) for scale in scales or [1.0] * (cells // schedulers))
    return cells, schedulers * (sum(rates) * seconds * output + looped) + cells * dumped


def _loop_tokens(config: SweepConfig, profile: EngineProfile, scale: float, seconds: float) -> float:
    """Tokens of the answers of all closed loops in one cell, each with the machine to itself."""
    tokens = 0.0
    for c in config.classes:
        if c.closed is not None:
            workers = scale * c.closed.concurrency
            seqs = min(config.backend.max_num_seqs or math.ceil(workers), math.ceil(workers))
            per_s = capacity_per_s(profile, [c], seqs)
            if c.closed.think_s:
                per_s = min(per_s, workers / c.closed.think_s)
            tokens += (workers + per_s * seconds) * mean_tokens(c.output_tokens)
    return tokens


def too_large(cells: int, tokens: float) -> bool:
    """True for more than a page should compute while somebody waits. `tokens`: of all answers."""
    return cells > MOST_CELLS or tokens > MOST_TOKENS


def how_to_run(speed: Mapping[str, str], w: Words) -> str:
    """The comment of a saved sweep file."""
    if "profile" in speed:
        return w.text(
            "goodput simulate what-if.toml\nfrom the folder of {profile}, or with its path below",
            profile=speed["profile"],
        )
    return "goodput simulate what-if.toml"


def to_toml(raw: Mapping[str, Any], comment: str = "") -> str:
    """A sweep as the text of a sweep file: tables of plain values, [[classes]] with inline tables."""
    lines = [f"# {line}" for line in comment.splitlines()] + [f"name = {_toml(raw['name'])}"]
    if isinstance(raw["backend"], str):  # the name of a saved one
        lines.append(f"backend = {_toml(raw['backend'])}")
    for table in ("backend", "control", "grid", "run"):
        if isinstance(raw.get(table), Mapping):
            lines += ["", f"[{table}]", *(f"{k} = {_toml(v)}" for k, v in raw[table].items())]
    for c in raw["classes"]:
        lines += ["", "[[classes]]", *(f"{k} = {_toml(v)}" for k, v in c.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    # numbers, truth values and strings are written in TOML as in JSON
    return json.dumps(value, ensure_ascii=False)
