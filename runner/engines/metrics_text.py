"""Prometheus text -> fields of an EngineSample. PURE."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from runner.engines.metric_names import ITERATION_TOKENS_BUCKET, PROCESS_START

_MEAN_FIELDS = ("kv_cache_usage",)  # a share: engines behind one address are averaged, everything else adds up
_HITS_BESIDE_PROMPT = "llamacpp:prompt_tokens_cached_total"
_BUSY_SLOTS = "llamacpp:n_busy_slots_per_decode"
_MORE_NAMES = (_HITS_BESIDE_PROMPT, _BUSY_SLOTS, PROCESS_START)
# ranks of one engine tell the same numbers each: only the first is counted
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")


@dataclass(frozen=True, slots=True)
class Point:
    """One sample line: name, labels, value (null for NaN and infinities), the server's own time if it gave one."""

    name: str
    labels: Mapping[str, str]
    value: float | None
    timestamp_ms: float | None = None


def parse_points(text: str) -> list[Point]:
    """Every sample of an exposition. A line that cannot be read costs that line, never the scrape."""
    try:
        return [_point(s) for s in _samples(text)]
    except (ValueError, IndexError, KeyError):
        return [p for line in text.splitlines() for p in _points_of_line(line)]


def _samples(text: str) -> Iterable[Sample]:
    return (sample for family in text_string_to_metric_families(text) for sample in family.samples)


def _points_of_line(line: str) -> list[Point]:
    if line.startswith("#"):
        return []
    try:
        return [_point(s) for s in _samples(line + "\n")]
    except (ValueError, IndexError, KeyError):
        return []


def _point(sample: Sample) -> Point:
    stamp = None if sample.timestamp is None else float(sample.timestamp) * 1000.0  # the parser divides by 1000
    value = float(sample.value)
    return Point(sample.name, sample.labels, value if math.isfinite(value) else None, stamp)


def read_fields(text: str, names: Mapping[str, Sequence[str]], model: str | None = None) -> dict[str, float | None]:
    """Fields the text tells, for a table field -> metric names (newest first; only the first one present counts).

    Series of several engines add up (shares are averaged); series of another `model` are left out. A field whose
    metric is missing or not a number is null: unknown is not zero. Beside the table's fields: kv_cache_usage_max (the
    fullest engine's), engines (how many were put together) and server_start_s.
    """
    wanted_names = {_bare(n) for some in names.values() for n in some} | set(_MORE_NAMES)
    points = _of_model(parse_points(_lines_of(text, wanted_names)), model)
    by_name: dict[str, list[Point]] = {}
    for point in points:
        by_name.setdefault(point.name, []).append(point)
    found = {f: next(filter(None, (_series(by_name, n) for n in wanted)), []) for f, wanted in names.items()}
    fields = {f: _together(f, values) for f, values in found.items()}
    fields["kv_cache_usage_max"] = max((v for v in found.get("kv_cache_usage", []) if v is not None), default=None)
    fields["engines"] = float(len(found.get("running", []))) or None
    started = _series(by_name, PROCESS_START)
    fields["server_start_s"] = started[0] if len(started) == 1 else None
    return fields | _llama_cpp_totals(fields, by_name)


def read_iteration_buckets(text: str, model: str | None = None) -> str | None:
    """The histogram of tokens a step as a JSON object: upper bound -> steps with at most so many tokens, since the
    server started, all engines together. Null without one. vLLM counts a prompt that took several steps whole, in its
    last one.
    """
    points = parse_points(_lines_of(text, {ITERATION_TOKENS_BUCKET}))
    counts: dict[str, float] = {}
    for point in _of_model(points, model):
        bound = point.labels.get("le", "")
        if point.value is not None and _is_number(bound):
            counts[bound] = counts.get(bound, 0.0) + point.value
    return json.dumps(counts) if counts else None


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _bare(name: str) -> str:
    return name.partition("{")[0]


def _series(by_name: Mapping[str, Sequence[Point]], name: str) -> list[float | None]:
    """Values of the series of that name, under its own spelling or else with an underscore for the colon."""
    bare, _, condition = name.partition("{")
    points = by_name.get(bare) or by_name.get(bare.replace(":", "_", 1)) or []
    label, _, value = condition.rstrip("}").partition("=")
    return [p.value for p in points if not label or p.labels.get(label) == value.strip('"')]


def _lines_of(text: str, names: set[str]) -> str:
    """The few lines that matter: a page of vLLM has thousands, and parsing them all costs tens of milliseconds."""
    spelled = names | {n.replace(":", "_", 1) for n in names}
    lines = [line for line in text.splitlines() if line.partition("{")[0].partition(" ")[0] in spelled]
    return "\n".join(lines) + "\n"


def _of_model(points: list[Point], model: str | None) -> list[Point]:
    """The model's own series; all of them when none carries its name (an alias, or a server without the label)."""
    points = [p for p in points if all(p.labels.get(rank, "0") == "0" for rank in _RANKS)]
    named = [p for p in points if "model_name" in p.labels]
    if model is None or not any(p.labels["model_name"] == model for p in named):
        return points
    return [p for p in points if p.labels.get("model_name", model) == model]


def _together(field: str, values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    if not known:
        return None
    return sum(known) / len(known) if field in _MEAN_FIELDS else sum(known)


def _llama_cpp_totals(
    fields: Mapping[str, float | None], by_name: Mapping[str, Sequence[Point]]
) -> dict[str, float | None]:
    """What llama.cpp tells in pieces.

    Its prompt counter leaves cached tokens out, vLLM's has them in: add them, and the sum is also what was looked up
    in the cache. Its busy slots are a lifetime mean: times the steps it is a total that can be subtracted.
    """
    totals: dict[str, float | None] = {}
    cached = next(iter(_series(by_name, _HITS_BESIDE_PROMPT)), None)
    prompt = fields.get("prompt_tokens_total")
    if cached is not None and prompt is not None:
        totals["prompt_tokens_total"] = totals["prefix_cache_queries_total"] = prompt + cached
    busy = next(iter(_series(by_name, _BUSY_SLOTS)), None)
    steps = fields.get("iterations_total")
    if busy is not None and steps is not None:
        totals["iteration_seqs_total"] = busy * steps
    return totals
