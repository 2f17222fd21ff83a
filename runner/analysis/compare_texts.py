"""What a comparison says: the verdict in one sentence, and what a reader must know beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from runner.analysis.choice import describe_load, describe_setting, percent
from runner.analysis.differences import BETTER_WHEN_LESS, PROMISES, Difference
from runner.analysis.sides import Matched, Side

Json = dict[str, Any]

METRIC_NAMES = {
    "share": "share inside the targets",
    "goodput_per_s": "good requests per second",
    "ttft_p50_ms": "TTFT P50",
    "ttft_p95_ms": "TTFT P95",
    "gap_p95_ms": "gap P95",
    "output_tok_per_s": "output tokens per second",
}

# id -> template of the verdict; {metric} is a name, {a} and {b} are written with their units
TEXTS = {
    "worse": "B is worse than A: {metric} {b} instead of {a}, with {setting} at {load}.",
    "better": "B is better than A: {metric} {b} instead of {a}, with {setting} at {load}.",
    "worse_class": "B is worse than A for {class_name}: {metric} {b} instead of {a}, with {setting} at {load}.",
    "better_class": "B is better than A for {class_name}: {metric} {b} instead of {a}, with {setting} at {load}.",
    "mixed": (
        "B is better in some and worse in other respects: worst is {metric}, {b} instead of {a}, with {setting} at "
        "{load}."
    ),
    "mixed_class": (
        "B is better in some and worse in other respects: worst is {metric} of {class_name}, {b} instead of {a}, with "
        "{setting} at {load}."
    ),
    "noise": "The difference is noise: nothing that was measured sets A and B apart.",
    "cant_tell": "Nothing can be said: too little was measured on both sides alike.",
    "doubtful": "Nothing can be said: the measurement itself is in doubt wherever A and B can be compared.",
    "failed": "B is worse than A: with {setting} at {load} it failed ({kind}), and A did not.",
    "failed_before": "B is better than A: with {setting} at {load} A failed ({kind}), and B did not.",
    "unmatched": "Nothing can be compared: A and B have no setting and load in common.",
}

# id -> template of a note
NOTES = {
    "different_seed": "Not in pairs: the arrivals come from different seeds, so small differences cannot be seen.",
    "different_classes": "Not in pairs: the classes of requests are not the same.",
    "different_arrivals": "Not in pairs: requests did not arrive at the same moments.",
    "different_lengths": "Not in pairs: prompts or answers were not asked for in the same lengths.",
    "closed_loop": "Not in pairs: with a fixed number at once, a request comes when the one before has ended.",
    "targets": "The targets differ: both are judged by those of A.",
    "ignored": "Matched without {keys}: A and B have no value of it in common.",
    "left_a": "Only A measured {points}.",
    "left_b": "Only B measured {points}.",
    "doubts": "With {setting} at {load} the measurement itself is in doubt ({flags}): it is not judged.",
    "holm": "{count} differences were looked at, so each had to be clearer than one alone (Holm).",
    "simulated": "One side is simulated and the other measured: the difference is also that of model and machine.",
}
MOST_NAMED = 3


def reason_of(verdict: str, points: Sequence[Json], found: Sequence[Sequence[Difference]]) -> Json:
    template = verdict if points else "unmatched"
    if verdict == "cant_tell" and points and all(p["doubts"] for p in points):
        template = "doubtful"
    values: Json = {}
    wanted = "better" if verdict == "better" else "worse"
    failed = [p for p in points if p["failed"] and p["verdict"] == wanted]
    if failed and verdict in ("worse", "better", "mixed"):
        point = failed[0]
        template = "failed" if wanted == "worse" else "failed_before"
        values = {
            "point": points.index(point),
            **_place(point),
            "kind": str(point["failed"]["error_kind"]).replace("_", " "),
        }
    elif verdict in ("worse", "better", "mixed"):
        rows = [(p, d) for p, row in zip(points, found, strict=True) for d in row if d.verdict == wanted]
        point, d = max(rows, key=_weight)
        values = {"point": points.index(point), **_place(point), "metric": d.metric, "a": d.a, "b": d.b}
        if d.class_name is not None:
            template, values = f"{verdict}_class", {**values, "class_name": d.class_name}
    shown = dict(values)
    if "metric" in values:
        metric = values["metric"]
        shown |= {"metric": METRIC_NAMES[metric], **{side: written(metric, values[side]) for side in ("a", "b")}}
    return {"reason": TEXTS[template].format(**shown), "reason_template": TEXTS[template], "reason_values": values}


def _place(point: Json) -> Json:
    return {"setting": _settings(point["setting_a"], point["setting_b"]), "load": describe_load(point["load"])}


def _settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """What both have alike, then what differs."""
    if a == b:
        return describe_setting(a)
    alike = {k: v for k, v in b.items() if k in a and a[k] == v}
    differ = [f"{k} {b.get(k, '-')} instead of {a.get(k, '-')}" for k in dict.fromkeys([*b, *a]) if k not in alike]
    return ", ".join([describe_setting(alike)] * bool(alike) + differ)


def _weight(row: tuple[Json, Difference]) -> tuple[bool, bool, bool, float]:
    """What is worth the sentence: promises first, the share before goodput, all classes together before one of them."""
    _, d = row
    return d.metric in PROMISES, d.metric == "share", d.class_name is None, _size(d)


def _size(d: Difference) -> float:
    return abs((d.difference or 0.0) / d.a) if d.a else float("inf")


def written(metric: str, value: float) -> str:
    if metric == "share":
        return percent(value)
    if metric in BETTER_WHEN_LESS:
        return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"
    return f"{value:.3g}/s"


def notes_of(
    sides: tuple[Side, Side],
    matched: Matched,
    points: Sequence[Json],
    found: Sequence[Sequence[Difference]],
    other_targets: bool,
) -> list[Json]:
    notes: list[tuple[str, Json]] = [(why, {}) for why in dict.fromkeys(p["unpaired"] for p in points) if why]
    if other_targets:
        notes.append(("targets", {}))
    if matched.ignored and points:
        notes.append(("ignored", {"keys": ", ".join(matched.ignored)}))
    for name, left in (("left_a", matched.left_a), ("left_b", matched.left_b)):
        if left and points:
            told = [f"{describe_setting(s.setting)} at {describe_load(s.load)}" for s in left]
            notes.append((name, {"points": "; ".join(told[:MOST_NAMED]) + ("; …" if len(told) > MOST_NAMED else "")}))
    notes += [
        ("doubts", {"point": i, **_place(p), "flags": ", ".join(p["doubts"])})
        for i, p in enumerate(points)
        if p["doubts"]
    ]
    if len({bool(p.tables.meta["simulated"]) for side in sides for p in side.sweeps}) > 1:
        notes.append(("simulated", {}))
    count = sum(d.p is not None for point in found for d in point)
    if count > 1:
        notes.append(("holm", {"count": count}))
    return [
        {"type": kind, "text": NOTES[kind].format(**values), "template": NOTES[kind], "values": values}
        for kind, values in notes
    ]
