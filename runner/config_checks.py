"""What must hold between the parts of a sweep file. PURE. Each check raises ValueError: one plain sentence."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.config import SweepConfig

LOAD_AXES = ("request_rate", "load_scale", "max_concurrency")
OF_A_CLASS = ("_max_in_flight", "_priority")  # behind its name: load axes of that class
MOST_REQUESTS = 10_000_000  # of one class in one cell
MOST_WORKERS = 100_000  # of closed loops in one cell: each is a task and a stream
MOST_BITS = 128  # of a whole number; a seed may well have that many


def too_large(raw: object) -> str | None:
    """The key of a whole number that no other program would take, and Python would not even print; null without one."""
    waiting = [("", raw)]
    for key, value in waiting:
        if isinstance(value, dict):
            waiting += [(f"{key}.{name}".lstrip("."), inner) for name, inner in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [(key, inner) for inner in value]
        elif isinstance(value, int) and value.bit_length() > MOST_BITS:
            return key
    return None


def is_load_key(key: str) -> bool:
    """True for request_rate, load_scale, max_concurrency, `only`, <class>_max_in_flight and <class>_priority."""
    return key in (*LOAD_AXES, "only") or key.endswith(OF_A_CLASS)


def check_grid(config: "SweepConfig") -> None:
    if not config.grid:
        raise ValueError("grid is empty: give at least one list, such as request_rate = [1.0]")
    for key, values in config.grid.items():
        if key == "only":
            raise ValueError('grid.only is no setting; run.alone = "class" measures a class by itself')
        if not re.fullmatch(r"[a-z][a-z0-9_]*", key):
            raise ValueError(f"grid key {key!r} must be lower-case letters, digits and underscores")
        if not values:
            raise ValueError(f"grid.{key} is an empty list: give at least one value")
        if len({(isinstance(v, bool), v) for v in values}) != len(values):
            raise ValueError(f"grid.{key} lists a value twice")
        positive_ints = ("max_concurrency", "max_num_seqs", "max_num_batched_tokens", "kv_tokens",
                         "prefill_instances", "decode_instances")  # fmt: skip
        capped = key.endswith("_max_in_flight")
        if key in positive_ints or capped:
            least = 0 if capped else 1
            if not all(isinstance(v, int) and not isinstance(v, bool) and v >= least for v in values):
                raise ValueError(f"grid.{key} needs whole numbers of at least {least}")
            if key == "max_concurrency" and any(int(v) > MOST_WORKERS for v in values):
                raise ValueError(f"grid.max_concurrency goes up to {MOST_WORKERS:,} streams at once: give fewer")
        elif key in LOAD_AXES and not all(
            isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0 for v in values
        ):
            raise ValueError(f"grid.{key} needs numbers above 0")
        elif key.endswith("_priority") and not all(type(v) is int and abs(v) < 2**31 for v in values):
            raise ValueError(f"grid.{key} needs whole numbers; lower ones go first")
    loads = [k for k in LOAD_AXES if k in config.grid]
    if len(loads) > 1:
        raise ValueError(f"grid has {' and '.join(loads)}: give one load axis")
    by_weight = any(c.weight is not None for c in config.classes)
    if by_weight and not any(k in config.grid for k in LOAD_AXES):
        raise ValueError("classes with a weight need request_rate or max_concurrency in grid")
    if by_weight and "load_scale" in config.grid:
        raise ValueError("load_scale scales classes with a rate or a trace; classes with a weight need request_rate")
    if "request_rate" in config.grid and not by_weight:
        raise ValueError("grid has request_rate, but no class has a weight to share it")
    if "max_concurrency" in config.grid and not by_weight and not any(c.closed for c in config.classes):
        raise ValueError("grid has max_concurrency, but no class has a weight or closed = { concurrency = … }")


def check_caps_of_none(config: "SweepConfig") -> None:
    """A cap of 0 keeps a class from being sent at all: the baseline beside which background work is judged."""
    unsent = [c for c in config.classes if 0 in config.grid.get(f"{c.name}_max_in_flight", ())]
    for c in unsent:
        if c.slo is not None:
            raise ValueError(
                f"grid.{c.name}_max_in_flight = 0 would send none of {c.name}, which has targets; 0 is for background "
                "classes, without slo: use at least 1"
            )
    if unsent and len(unsent) == len(config.classes):
        raise ValueError(f"grid.{unsent[0].name}_max_in_flight = 0 would leave nothing to send: use at least 1")


def check_arrivals(config: "SweepConfig") -> None:
    """Every class must send something in the time a cell has, and no more than fits into memory."""
    total_s = config.run.warmup + config.run.duration_s
    scale = max((float(v) for v in config.grid.get("load_scale", ())), default=1.0)
    rates = [float(v) for v in config.grid.get("request_rate", ())] + [(c.rate or 0.0) * scale for c in config.classes]
    if max(rates, default=0.0) * total_s > MOST_REQUESTS:
        raise ValueError(f"a cell would send over {MOST_REQUESTS:,} requests: lower the rate or run.duration_s")
    for c in config.classes:
        if c.dump and c.dump.at_s >= total_s:
            raise ValueError(f"classes.{c.name}.dump.at_s is behind the end of a cell, which takes {total_s:g} s")


def check_search(config: "SweepConfig") -> None:
    """A sweep that chooses its own cells has no use for keys that say which there shall be."""
    run = config.run
    key = "find_rate" if run.find_rate else "budget"
    if not run.find_rate and run.budget is None:
        return
    if run.find_rate and run.budget is not None:
        raise ValueError("run.find_rate and run.budget each choose the cells to measure: give one of them")
    for other, off in (("repeats", 1), ("drift_check", "auto"), ("alone", None)):
        if (value := getattr(run, other)) not in (off, False):
            told = str(value).lower() if isinstance(value, bool) else value
            raise ValueError(f"run.{other} = {told} has no use beside run.{key}, which chooses the cells: leave it out")
    if not any(c.slo for c in config.classes):
        raise ValueError(f"run.{key} needs targets to search by: give a class slo = {{ ttft_ms = 1000, gap_ms = 150 }}")
    scaled = any(c.rate is not None or c.trace is not None for c in config.classes)
    if run.find_rate and not scaled and not any(axis in config.grid for axis in LOAD_AXES):
        raise ValueError("run.find_rate needs a load to raise: give request_rate or max_concurrency in grid")
