"""The new-sweep form: table rows and fields -> the plain data of a sweep file, and what is worth saying about it. PURE.

Nothing is checked twice: runner.config.parse_sweep says what is wrong, in one sentence.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.presets import WORKLOADS as PRESETS
from app.presets import with_targets
from app.words import Words
from runner.config import LOAD_AXES, Backend, Scalar, SweepConfig, is_load_key
from runner.engines.knowledge import engine_oddities, longest_tokens
from runner.errors import ConfigError
from runner.estimate import cell_seconds, count_starts, sweep_seconds
from runner.plan import count_points
from runner.search.course import expected_cells
from runner.simulator.command import DEFAULT_KV_TOKENS
from runner.simulator.cost_model import largest_safe_token_budget
from runner.simulator.presets import DEFAULT_PRESET, EngineProfile, list_presets, resolve_preset
from runner.simulator.profile import cost_from
from runner.simulator.state import Knobs

ASK_FROM_CELLS = 1_000
PLAN_UP_TO = 20_000  # more cells are counted, not listed
NEEDED_N = 36  # requests of a class in a cell, below which no p90 and no share worth its name exists
Row = Mapping[Any, Any]

WORKLOADS: dict[str, list[dict[str, Any]]] = {name: with_targets(w.rows, None) for name, w in PRESETS.items()}
SERVER_ROWS = (
    {"key": "max_num_seqs", "values": "4, 16, 64"},
    {"key": "max_num_batched_tokens", "values": "256, 2048"},
)


@dataclass(frozen=True)
class Size:
    """How much a sweep is: cells, server starts (None: too many to list) and seconds."""

    cells: int
    starts: int | None
    seconds: float


def first_grid(load: tuple[str, str], settings: Iterable[str] = ()) -> list[dict[str, str]]:
    """What a sweep varies at first: server settings by name, then the load axis with its values."""
    usual = {row["key"]: row["values"] for row in SERVER_ROWS}
    rows = [{"key": key, "values": usual.get(key, "")} for key in settings]
    return [*rows, {"key": load[0], "values": load[1]}]


def parse_values(text: str) -> list[Scalar]:
    """`4, 16, 64` -> [4, 16, 64]; words stay words, true and false become booleans."""
    return [_scalar(part.strip()) for part in text.split(",") if part.strip()]


def _scalar(text: str) -> Scalar:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def known(value: object) -> bool:
    """False for an empty field of a table: None, NaN or an empty text."""
    return value is not None and value == value and value != ""


def sweep_data(
    name: str,
    backend: Mapping[str, Any] | str,
    grid: Iterable[Row],
    classes: Iterable[Row],
    run: Mapping[str, Any],
    traces: Collection[str] = (),
) -> dict[str, Any]:
    """The sweep as a sweep file would say it. `backend`: a table, or the name of a saved one.

    Settings of a server that runs already can only be changed by hand: the live page asks for each. `traces`: names of
    those that may be replayed; raises ConfigError for any other, since a name from a browser must not become a path.
    """
    levels = {
        str(r["key"]).strip(): parse_values(str(r["values"]))
        for r in grid
        if known(r.get("key")) and known(r.get("values"))
    }
    out = {
        "name": name,
        "backend": backend if isinstance(backend, str) else {k: v for k, v in backend.items() if known(v)},
        "grid": levels,
        "run": dict(run),
        "classes": [_class(row, traces) for row in classes if known(row.get("name"))],
    }
    by_hand = not isinstance(backend, str) and backend.get("kind") != "simulated" and not all(map(is_load_key, levels))
    return {**out, "control": {"mode": "manual"}} if by_hand else out


def _class(row: Row, traces: Collection[str]) -> dict[str, Any]:
    out: dict[str, Any] = {"name": row["name"], "priority": int(row["priority"]) if known(row.get("priority")) else 0}
    for key in ("prompt", "output"):
        out[f"{key}_tokens"] = _length(row, key)
    for key in ("weight", "rate"):
        if known(row.get(key)):
            out[key] = float(row[key])
    if known(row.get("closed")):
        think = {"think_s": float(row["think_s"])} if known(row.get("think_s")) else {}
        out["closed"] = {"concurrency": int(row["closed"]), **think}
    if known(row.get("dump")):
        at_s = float(row["dump_at_s"]) if known(row.get("dump_at_s")) else 0.0
        out["dump"] = {"count": int(row["dump"]), "at_s": at_s}
    if known(row.get("trace")):
        if row["trace"] not in traces:
            raise ConfigError(
                f"classes.{row['name']}.trace: {str(row['trace'])[:80]!r} is not a trace that was kept here"
            )
        out["trace"] = row["trace"]
    if known(row.get("ttft_ms")) or known(row.get("gap_ms")):
        out["slo"] = {k: float(row[k]) for k in ("ttft_ms", "gap_ms") if known(row.get(k))}
    return out


def _length(row: Row, key: str) -> dict[str, Any]:
    if not known(row.get(f"{key}_p90")):
        return {"fixed": int(row[f"{key}_p50"])} if known(row.get(f"{key}_p50")) else {}
    found: dict[str, Any] = {name: row.get(f"{key}_{name}") for name in ("p50", "p90", "max")}
    return {name: int(value) if name == "max" else float(value) for name, value in found.items() if known(value)}


def preset_parts(device: str | None = None, model: str | None = None) -> list[str]:
    """What can be picked next: devices, then models that fit the device, then quantizations that fit both."""
    rows = [name.split("/") for name in list_presets()]
    if device is None:
        return list(dict.fromkeys(d for d, _, _ in rows))
    if model is None:
        return list(dict.fromkeys(m for d, m, _ in rows if d == device))
    return [q for d, m, q in rows if (d, m) == (device, model)]


def usual(options: Sequence[str]) -> int:
    """Place of the part of the default preset among the options, else the first."""
    return next((i for i, option in enumerate(options) if option in DEFAULT_PRESET.split("/")), 0)


def size_of(config: SweepConfig) -> Size:
    """Cells, starts and time of a sweep, also of an absurdly large one; of a search as expected."""
    cells = count_points(config)
    if cells > PLAN_UP_TO:
        return Size(cells, None, cells * cell_seconds(config))
    plans = expected_cells(config)
    return Size(len(plans), count_starts(plans), sweep_seconds(config, plans))


def safe_budgets(config: SweepConfig, speed: EngineProfile | None = None) -> dict[int, int]:
    """Answers at once -> the largest token budget at which so many still keep the tightest gap target.

    Each answer stands halfway through a request of median length, of the class where that is longest. `speed`: what a
    calibration of the server, or the file of the built-in engine's profile, says; else it is that of the preset or the
    cost of the config. Empty where nothing is known of the speed, no class has a target, or every budget is safe.
    """
    gaps = [c.slo.gap_ms for c in config.classes if c.slo]
    speed = speed or _own_speed(config.backend)
    if speed is None or not gaps:
        return {}
    pool = config.backend.kv_tokens or speed.kv_tokens
    context = max(_median(c.prompt_tokens) + _median(c.output_tokens) / 2 for c in config.classes)
    found = {}
    for seqs in _at_once(config):
        try:
            found[seqs] = largest_safe_token_budget(speed.cost, min(gaps), seqs, min(pool, round(seqs * context)))
        except ValueError:
            return {}
    return found


def _own_speed(backend: Backend) -> EngineProfile | None:
    if backend.kind != "simulated" or backend.profile:
        return None
    if backend.cost:
        cost = cost_from(backend.cost.model_dump(exclude_none=True), "cost")
        return EngineProfile(cost, backend.kv_tokens or DEFAULT_KV_TOKENS, False, "cost given by hand")
    return resolve_preset(backend.preset or DEFAULT_PRESET)


def _at_once(config: SweepConfig) -> list[int]:
    """How many answers may run at once: as varied, as set, or as many as are asked for."""
    for told in (config.grid.get("max_num_seqs"), [config.backend.max_num_seqs], config.grid.get("max_concurrency")):
        if found := [v for v in told or () if isinstance(v, int) and v > 0]:
            return list(dict.fromkeys(found))
    return [Knobs().max_num_seqs] if config.backend.kind == "simulated" else []


def _median(length: Any) -> float:  # noqa: ANN401  (runner.config.Length)
    if length.uniform:
        return float(sum(length.uniform)) / 2
    return float(length.fixed or length.p50)


def oddities(
    config: SweepConfig, w: Words, context_tokens: int | None = None, speed: EngineProfile | None = None
) -> list[str]:
    """What is allowed but probably not meant, a sentence each. `context_tokens`: of one request, where the server that
    runs has told them; `speed`: as for `safe_budgets`."""
    told = [w.text(o.template, **o.values) for o in engine_oddities(config.backend.kind, None, config)]
    told += _over_context(config, context_tokens, w)
    told += [*_few_requests(config, w), *_too_long(config, w)]
    return [*told, *_large_budgets(config, w, speed), *_run(config, w)]


def _few_requests(config: SweepConfig, w: Words) -> list[str]:
    rates = [float(v) for v in config.grid.get("request_rate", ()) if not isinstance(v, str)]
    weights = sum(c.weight for c in config.classes if c.weight)
    out = []
    for c in config.classes:
        if rates and c.weight and c.slo:
            n = min(rates) * c.weight / weights * config.run.duration_s
            if n < NEEDED_N:
                out.append(
                    w.text(
                        "At {rate} req/s a cell sees about {n} requests of class {name}; a share needs {needed}. "
                        "Measure longer or at a higher rate.",
                        rate=w.significant(min(rates)),
                        n=w.count(n),
                        name=c.name,
                        needed=w.count(NEEDED_N),
                    )
                )
    return out


def _too_long(config: SweepConfig, w: Words) -> list[str]:
    if config.backend.kind != "simulated" or config.backend.cost or config.backend.profile:
        return []
    pool = config.backend.kv_tokens or resolve_preset(config.backend.preset or DEFAULT_PRESET).kv_tokens
    return [
        w.text(
            "The longest request of class {name} ({longest} tokens) does not fit the KV cache of {pool} tokens.",
            name=c.name,
            longest=w.count(longest),
            pool=w.count(pool),
        )
        for c in config.classes
        if (longest := longest_tokens(c.prompt_tokens) + longest_tokens(c.output_tokens)) > pool
    ]


def _over_context(config: SweepConfig, context_tokens: int | None, w: Words) -> list[str]:
    longest = {c.name: longest_tokens(c.prompt_tokens) + longest_tokens(c.output_tokens) for c in config.classes}
    return [
        w.text(
            "The longest request of class {name} ({longest} tokens) does not fit the {context} tokens that this server "
            "has for one request.",
            name=name,
            longest=w.count(tokens),
            context=w.count(context_tokens),
        )
        for name, tokens in longest.items()
        if context_tokens and tokens > context_tokens
    ]


def _large_budgets(config: SweepConfig, w: Words, speed: EngineProfile | None) -> list[str]:
    budgets = [v for v in config.grid.get("max_num_batched_tokens", ()) if isinstance(v, int)]
    safe = max(safe_budgets(config, speed).values(), default=None)
    if safe is None or not budgets or min(budgets) <= safe:
        return []
    return [w.text("Every token budget is above {safe}: long prompts will freeze running answers.", safe=w.count(safe))]


def _run(config: SweepConfig, w: Words) -> list[str]:
    out = []
    if not any(c.slo for c in config.classes):
        out.append(w.text("No class has targets: raw output will be measured, goodput can't be judged."))
    if config.run.warmup < 30:
        out.append(
            w.text("Warm-up is only {seconds} s: read the result as indicative.", seconds=w.count(config.run.warmup))
        )
    if not any(k in config.grid for k in LOAD_AXES) and len(config.server_grid) == len(config.grid):
        out.append(w.text("The load is the same in every cell: the limit of a setting will not be seen."))
    return out
