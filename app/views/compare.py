"""Two sweeps side by side: what differs, by how much, and whether that is more than noise. PURE.

Takes the object of `runner.analysis.compare.compare`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.words import ENGLISH, NOTHING, Words
from runner.analysis.differences import BETTER_WHEN_LESS

Comparison = Mapping[str, Any]
METRICS = ("share", "goodput_per_s", "ttft_p50_ms", "ttft_p95_ms", "gap_p95_ms", "output_tok_per_s")
MOST_NAMED = 3
MOST_CHANGE = 3.0  # a figure's axis ends here: thrice as much says enough


def metric_names(words: Words = ENGLISH) -> dict[str, str]:
    """Metric -> its name in a table or figure."""
    return {
        "share": words.text("share inside the targets"),
        "goodput_per_s": words.text("good requests per second"),
        "ttft_p50_ms": "TTFT P50",
        "ttft_p95_ms": "TTFT P95",
        "gap_p95_ms": words.text("gap P95"),
        "output_tok_per_s": words.text("output tokens per second"),
    }


def verdict_names(words: Words = ENGLISH) -> dict[str, str]:
    """Verdict -> word of a table."""
    return {
        "better": words.text("better"),
        "worse": words.text("worse"),
        "mixed": words.text("better and worse"),
        "noise": words.text("noise"),
        "cant_tell": words.text("can't tell"),
    }


def comparison_sentence(comparison: Comparison, words: Words = ENGLISH) -> str:
    """The verdict over everything."""
    values = dict(comparison["reason_values"])
    if "point" in values:
        point = comparison["points"][values.pop("point")]
        values |= {"setting": _setting_text(point, words), "load": c.load_name(point, words)}
    if "metric" in values:
        metric = values["metric"]
        values |= {side: _value(metric, values[side], words) for side in ("a", "b")}
        values["metric"] = metric_names(words)[metric]
    return words.text(comparison["reason_template"], **values)


def note_sentences(comparison: Comparison, words: Words = ENGLISH) -> list[str]:
    """What to know beside the verdict: why not in pairs, what was left aside."""
    return [words.text(n["template"], **_note_values(n, comparison, words)) for n in comparison["notes"]]


def _note_values(note: Mapping[str, Any], comparison: Comparison, words: Words) -> dict[str, Any]:
    values = dict(note["values"])
    if note["type"] in ("left_a", "left_b"):
        left = comparison["unmatched"][note["type"][-1]]
        told = [point_name({**p, "setting_a": p["setting"], "setting_b": p["setting"]}, words) for p in left]
        values["points"] = "; ".join(told[:MOST_NAMED]) + ("; …" if len(told) > MOST_NAMED else "")
    if "point" in values:
        point = comparison["points"][values["point"]]
        values |= {"setting": _setting_text(point, words), "load": c.load_name(point, words)}
        values["flags"] = "; ".join(c.flag_text(flag, words) for flag in point["doubts"])
    if "count" in values:
        values["count"] = words.count(values["count"])
    return values


def differs_rows(comparison: Comparison, words: Words = ENGLISH) -> list[dict[str, str]]:
    """Only what differs between the sweeps: where, key, a, b as text."""
    places = {
        "setting": words.text("setting"),
        "control": words.text("start command"),
        "backend": words.text("backend"),
        "server": words.text("server's own words"),
        "environment": words.text("machine and versions"),
        "workload": words.text("workload"),
        "run": words.text("run"),
    }
    return [
        {"where": places.get(d["where"], d["where"]), "key": str(d["key"]), "a": _text(d["a"]), "b": _text(d["b"])}
        for d in comparison["differs"]
    ]


def _text(value: object) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def difference_rows(comparison: Comparison, words: Words = ENGLISH) -> list[dict[str, str]]:
    """A row a metric and point: point, metric, a, b, difference, verdict, all as text."""
    names, said = metric_names(words), verdict_names(words)
    rows = []
    for point in comparison["points"]:
        where = point_name(point, words)
        if point["failed"]:
            kind = c.error_text(str(point["failed"]["error_kind"]), words)
            told = words.text("failed: {kind}", kind=kind)
            side = point["failed"]["side"]
            rows.append({"point": where, "metric": NOTHING, "a": NOTHING, "b": NOTHING, side: told}
                        | {"difference": NOTHING, "verdict": said[point["verdict"]]})  # fmt: skip
        asked = [(names[metric], metric, found) for metric, found in point["metrics"].items()]
        asked += [(_of_class(name, words), "share", own["share"]) for name, own in point["classes"].items()]
        rows += [
            {
                "point": where,
                "metric": name,
                "a": _value(metric, found["a"], words),
                "b": _value(metric, found["b"], words),
                "difference": difference_text(metric, found, words),
                "verdict": _verdict(found, said, words),
            }
            for name, metric, found in asked
        ]
    return rows


def _of_class(name: str, words: Words) -> str:
    return words.text("{metric} of {name}", metric=metric_names(words)["share"], name=name)


def _verdict(found: Mapping[str, Any], said: Mapping[str, str], words: Words) -> str:
    if found["verdict"] == "cant_tell" and found["needs"]:
        return words.text("n too small (needs {n})", n=words.count(found["needs"]))
    return said[found["verdict"]]


def point_name(point: Mapping[str, Any], words: Words = ENGLISH) -> str:
    """`max_num_seqs 8 at 2 req/s`; of two settings both."""
    return words.text("{setting} at {load}", setting=_setting_text(point, words), load=c.load_name(point, words))


def _setting_text(point: Mapping[str, Any], words: Words) -> str:
    """What both settings have alike, then what differs: `max_num_seqs 8, threads 1 instead of 2`."""
    a, b = point["setting_a"], point["setting_b"]
    if a == b:
        return c.setting_name(a, list(a), words)
    alike = [k for k in b if k in a and a[k] == b[k]]
    parts = [c.setting_name(b, alike, words)] if alike else []
    for key in dict.fromkeys([*b, *a]):
        if key not in alike:
            old, new = (str(side[key]) if key in side else NOTHING for side in (a, b))
            parts.append(words.text("{key} {b} instead of {a}", key=key, a=old, b=new))
    return ", ".join(parts)


def _value(metric: str, value: float | None, words: Words) -> str:
    if metric == "share":
        return words.share(value)
    return words.ms(value) if metric.endswith("_ms") else words.per_s(value)


def difference_text(metric: str, found: Mapping[str, Any], words: Words = ENGLISH) -> str:
    """`−24 % (−30 % to −18 %)`: the change and its 95 % interval, of a share in points."""
    if found["difference"] is None:
        return NOTHING
    scale = 1.0 if metric == "share" else abs(found["a"]) if found["a"] else None
    if scale is None:
        return NOTHING
    unit = words.text("points") if metric == "share" else "%"
    change, low, high = (None if found[k] is None else 100 * found[k] / scale for k in ("difference", "low", "high"))
    text = f"{_signed(change, words)}\u00a0{unit}"
    return text if low is None else f"{text} ({_signed(low, words)} … {_signed(high, words)})"


def _signed(value: float | None, words: Words) -> str:
    if value is None:
        return NOTHING
    shown = words.number(abs(value), 1 if abs(value) < 9.95 else 0)
    nothing = not any(d in shown for d in "123456789")
    return shown if nothing else ("−" if value < 0 else "+") + shown


def comparison_figure(comparison: Comparison, words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """Change in % with its interval, a row a metric, a marker a point; filled where it is more than noise. An arrow
    beside each metric points to where better is."""
    names, said = metric_names(words), verdict_names(words)
    points = [p for p in comparison["points"] if p["metrics"]]
    fig = theme.figure(words.text("change (%; share: points)"), "", dark=dark, height=160 + 44 * len(METRICS))
    for index, point in enumerate(points[: theme.MAX_SERIES]):
        style = theme.series_style(index)
        rows = [(m, _percent(m, point["metrics"][m])) for m in METRICS]
        known = [(m, *values) for m, values in rows if values is not None]
        beyond = [point["metrics"][m]["verdict"] in ("better", "worse") for m, *_ in known]
        place = [METRICS.index(m) + _aside(index, len(points)) for m, *_ in known]
        fig.add_scatter(
            x=[change for _, change, _, _ in known],
            y=place,
            error_x={
                "type": "data",
                "array": [high - change for _, change, _, high in known],
                "arrayminus": [change - low for _, change, low, _ in known],
                "thickness": 1.5,
            },
            mode="markers",
            marker={
                "color": style["colour"],
                "symbol": [style["symbol"] + ("" if sure else "-open") for sure in beyond],
                "size": 10,
            },
            name="<br>".join(map(theme.plain, [c.load_name(point, words), *_setting_text(point, words).split(", ")])),
            customdata=[
                [
                    theme.plain(names[m]),
                    difference_text(m, point["metrics"][m], words),
                    said[point["metrics"][m]["verdict"]],
                ]
                for m, *_ in known
            ],
            hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{customdata[2]}<extra></extra>",
        )
    fig.add_vline(x=0, line={"color": theme.ink(dark), "width": 1})
    fig.update_yaxes(
        tickvals=list(range(len(METRICS))), ticktext=[f"{theme.plain(names[m])} {_better(m)}" for m in METRICS],
        range=[len(METRICS) - 0.5, -0.5],
    )  # fmt: skip
    return fig


def _better(metric: str) -> str:
    """Where better is."""
    return "←" if metric in BETTER_WHEN_LESS else "→"


def _percent(metric: str, found: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Change, low and high in % of A (a share in points), cut where more says no more; None without an interval."""
    scale = 1.0 if metric == "share" else abs(found["a"] or 0.0)
    if found["low"] is None or not scale:
        return None
    cut = [min(max(found[k] / scale, -1.0), MOST_CHANGE) * 100 for k in ("difference", "low", "high")]
    return cut[0], min(cut[1], cut[0]), max(cut[2], cut[0])


def _aside(index: int, count: int) -> float:
    """Points of one metric lie beside each other within 0.6 of a row."""
    shown = min(count, theme.MAX_SERIES)
    return 0.6 * ((index + 0.5) / shown - 0.5)


def comparison_text(comparison: Comparison) -> str:
    """For a terminal: what differs, a line a point, the notes, and the verdict last."""
    words = ENGLISH
    out = [f"A  {_sweeps(comparison['a'])}", f"B  {_sweeps(comparison['b'])}"]
    out += [f"   {d['where']} {d['key']}: {d['a']} -> {d['b']}" for d in differs_rows(comparison, words)]
    head = ["setting", "load", "share", "goodput", "TTFT P50", "TTFT P95", "gap P95", "output tok/s", "verdict"]
    lines = [head]
    for point in comparison["points"]:
        lines += [_line(point, words), *_class_lines(point, words)]
    if len(lines) > 1:
        out += ["", *_aligned(lines), ""]
    return "\n".join([*out, *note_sentences(comparison, words), comparison_sentence(comparison, words)])


def _sweeps(side: Mapping[str, Any]) -> str:
    ids = " + ".join(str(s["sweep_id"]) for s in side["sweeps"])
    return f"{ids}  {side['name']}"


def _line(point: Mapping[str, Any], words: Words) -> list[str]:
    shown = [_both(metric, point["metrics"].get(metric), words) for metric in METRICS]
    told = verdict_names(words)[point["verdict"]]
    if point["failed"]:
        told += f": {point['failed']['side'].upper()} failed"
    return [_setting_text(point, words), c.load_name(point, words), *shown, told]


def _class_lines(point: Mapping[str, Any], words: Words) -> list[list[str]]:
    """The share of each class below its point."""
    empty = [""] * len(METRICS)
    shares = {name: _both("share", own["share"], words) for name, own in point["classes"].items()}
    return [[f"  of {name}", "", share, *empty] for name, share in shares.items()]


def _both(metric: str, found: Mapping[str, Any] | None, words: Words) -> str:
    if found is None:
        return NOTHING
    sign = {"better": " better", "worse": " WORSE"}.get(found["verdict"], "")
    return " -> ".join(_value(metric, found[side], words) for side in ("a", "b")) + sign


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return ["  ".join(v.ljust(w) for v, w in zip(line, widths, strict=True)).rstrip() for line in lines]
