"""Who was in each iteration: rows are requests, widths are time, so that one prompt that holds up all is seen. PURE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.views import theme
from app.words import ENGLISH, Words
from runner.analysis.gaps import gap_table
from runner.simulator.step_log import StepLog

MAX_ROWS = 14
PROMPT_ROWS = 9  # of them for prompts that are computed in the window
MAX_BARS = 220  # of one scheduler: a phone still scrolls
LONGEST_NS = 30_000_000_000  # a window never is longer
Kind = Literal["prefill", "decode", "padding", "held", "waits"]
Answers = Mapping[int, tuple[int | None, int]]  # request -> ns of its first token (None: it got none) and of its end


@dataclass(frozen=True, slots=True)
class Window:
    """What to look at, ns since the cell's origin: something of `request` that took `ms`. `stall`: a gap in an answer,
    else the wait for its first token."""

    from_ns: int
    until_ns: int
    request: int
    ms: float
    stall: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a request's row. `steps` iterations alike; tokens and ms are of one of them, `own` of the request in
    it; `seqs` requests were in it. Waiting has no iteration: steps 0."""

    request: int
    kind: Kind
    begin_ns: int
    end_ns: int
    steps: int = 0
    own: int = 0
    tokens: int = 0
    seqs: int = 0
    ms: float = 0.0


def worst_window(requests: pd.DataFrame, classes: Sequence[str]) -> Window | None:
    """Around the longest gap in an answer of these classes; where answers come in one piece, around the batch of the
    longest wait. `requests`: rows of analysis' request table of one cell. None when nothing was answered.
    """
    counted = requests["latency_counts"].to_numpy(dtype=bool) & requests["in_window"].to_numpy(dtype=bool)
    rows = requests[counted & requests["class_name"].isin(list(classes)).to_numpy()].reset_index(drop=True)
    if rows.empty:
        return None
    gaps = gap_table(rows)
    longest = int(gaps.gap_us.argmax()) if len(gaps.gap_us) else -1
    if longest >= 0 and gaps.gap_us[longest] > 0:
        end, length = int(gaps.at_ns[longest]), int(gaps.gap_us[longest]) * 1000
        pad = max(length // 3, 8 * int(np.median(gaps.gap_us)) * 1000)
        victim = int(rows["request"].iloc[gaps.row[longest]])
        return _window(end - length - pad, end + pad, victim, length / 1e6, stall=True)
    slowest = rows.loc[rows["ttft_ms"].idxmax()]
    end = int(slowest["end_ns"])
    ends = requests["end_ns"].to_numpy(dtype=np.float64, na_value=np.nan)
    before = [int(v) for v in ends if v < end]
    begin = max([*before, int(slowest["sent_ns"])])
    pad = (end - begin) // 10
    return _window(begin - pad, end + pad, int(slowest["request"]), float(slowest["ttft_ms"]), stall=False)


def _window(from_ns: int, until_ns: int, request: int, ms: float, *, stall: bool) -> Window:
    return Window(max(0, from_ns), min(until_ns, max(0, from_ns) + LONGEST_NS), request, ms, stall)


def bars_of(log: StepLog, answers_ns: Answers) -> list[Bar]:
    """The log as bars, a request's in the order of time, with its waiting between them."""
    found: dict[int, list[Bar]] = {}
    for step in log.steps:
        for order, own, kind in step.parts:
            request = log.requests[order][0].request
            bar = Bar(request, kind, step.begin_ns, step.end_ns, 1, own, step.tokens, len(step.parts), step.cost_ms)
            found.setdefault(order, []).append(bar)
    out: list[Bar] = []
    for order, (spec, came_ns) in log.requests.items():
        first_ns, end_ns = answers_ns.get(spec.request, (None, log.until_ns))
        if came_ns < log.until_ns and end_ns > log.from_ns:
            span = (max(came_ns, log.from_ns), min(end_ns, log.until_ns))
            out += _with_waits(found.get(order, []), spec.request, span, first_ns)
    return out


def _with_waits(bars: Sequence[Bar], request: int, span_ns: tuple[int, int], first_ns: int | None) -> list[Bar]:
    """Between its bars a request waits for its prompt, or, once its first token is out, is held up."""
    out: list[Bar] = []
    at, end_ns = span_ns
    for begin_ns, bar in [*((b.begin_ns, b) for b in bars), (end_ns, None)]:
        if begin_ns > at:
            out.append(Bar(request, "waits" if first_ns is None or first_ns > at else "held", at, begin_ns))
        if bar is not None:
            out.append(bar)
            at = bar.end_ns
    return out


def chosen_rows(bars: Sequence[Bar], victim: int, from_ns: int, until_ns: int, most: int = MAX_ROWS) -> list[int]:
    """Requests to show, by number: the victim, those whose prompts take most of the window (they hold up the others),
    then those who wait for most of it.
    """
    prompt_ns: dict[int, int] = {}
    idle_ns: dict[int, int] = {}
    for bar in bars:
        idle_ns.setdefault(bar.request, 0)
        told = prompt_ns if bar.kind == "prefill" else idle_ns if bar.kind in ("held", "waits") else {}
        told[bar.request] = told.get(bar.request, 0) + min(bar.end_ns, until_ns) - max(bar.begin_ns, from_ns)
    prompts = sorted(prompt_ns, key=lambda r: (-prompt_ns[r], r))[: most * PROMPT_ROWS // MAX_ROWS]
    first = [victim] if victim in idle_ns else []
    ranked = dict.fromkeys([*first, *prompts, *sorted(idle_ns, key=lambda r: (-idle_ns[r], r))])
    return sorted(list(ranked)[:most])


def fewer_bars(bars: Sequence[Bar], most: int = MAX_BARS) -> list[Bar]:
    """Iterations alike and one after the other become one bar, more and more of them until there are few enough."""
    limit = 1
    merged = list(bars)
    while len(merged) > most and limit < 1_000_000:
        limit *= 2
        merged = _merge(bars, limit)
    return merged


def _merge(bars: Sequence[Bar], limit: int) -> list[Bar]:
    out: list[Bar] = []
    for bar in bars:
        last = out[-1] if out else None
        alike = (
            last is not None
            and (last.request, last.kind, last.end_ns) == (bar.request, bar.kind, bar.begin_ns)
            and last.steps
            and last.steps + bar.steps <= limit
            # decodes beside a prompt are not like those without one
            and (last.tokens == last.seqs) == (bar.tokens == bar.seqs)
        )
        if last is not None and alike:
            steps = last.steps + bar.steps
            ms = (last.ms * last.steps + bar.ms * bar.steps) / steps
            out[-1] = replace(last, end_ns=bar.end_ns, steps=steps, ms=ms)
        else:
            out.append(bar)
    return out


def steps_figure(
    panels: Mapping[str, tuple[StepLog, Answers]],
    victim: int,
    words: Words = ENGLISH,
    *,
    dark: bool = False,
) -> go.Figure:
    """One panel a scheduler (its log, and what came of the requests), one below the other on one time axis.

    Each at most 14 rows and 220 bars. The victim's row is marked with an arrow.
    """
    fig = make_subplots(
        rows=max(1, len(panels)), cols=1, shared_xaxes=True, vertical_spacing=0.09,
        subplot_titles=[theme.plain(name) for name in panels] or None,
    )  # fmt: skip
    theme.dress(fig, dark=dark, height=150 + 300 * max(1, len(panels)))
    shown: set[str] = set()
    for row, (log, answers_ns) in enumerate(panels.values(), start=1):
        bars = bars_of(log, answers_ns)
        rows = chosen_rows(bars, victim, log.from_ns, log.until_ns)
        drawn = fewer_bars([b for b in bars if b.request in rows])
        names = {r: f"▸ {r}" if r == victim else str(r) for r in rows}
        specs = {spec.request: spec for spec, _ in log.requests.values()}
        about = {
            r: words.text(
                "{class_name} {number}: {prompt} tokens in, {output} out",
                class_name=specs[r].class_name,
                number=r,
                prompt=words.count(specs[r].prompt_tokens),
                output=words.count(specs[r].output_tokens),
            )
            for r in rows
        }
        for kind, style in _styles(words, dark).items():
            mine = [b for b in drawn if b.kind == kind]
            if mine:
                _add_bars(fig, mine, names, about, style, row, kind not in shown, words)
                shown.add(kind)
        fig.update_yaxes(
            type="category", categoryorder="array", categoryarray=[names[r] for r in rows], autorange="reversed",
            title_text=words.text("request"), tickfont={"size": 11}, row=row, col=1,
        )  # fmt: skip
        fig.update_xaxes(range=[log.from_ns / 1e9, log.until_ns / 1e9], row=row, col=1)
    fig.update_xaxes(title_text=words.text("time in the cell (s)"), row=max(1, len(panels)), col=1)
    fig.update_layout(barmode="overlay", bargap=0.2)
    return fig


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    fill: str
    pattern: str
    line: str


def _styles(words: Words, dark: bool) -> dict[Kind, _Style]:
    edge = "#101418" if dark else "#FFFFFF"
    return {
        "waits": _Style(words.text("waits for its prompt's turn"), theme.GREY, ".", "rgba(0,0,0,0)"),
        "held": _Style(words.text("held up in its answer"), theme.OKABE_ITO[5], "x", "rgba(0,0,0,0)"),
        "prefill": _Style(words.text("prompt (prefill)"), theme.OKABE_ITO[1], "/", edge),
        "decode": _Style(words.text("token (decode)"), theme.OKABE_ITO[0], "", edge),
        "padding": _Style(words.text("row kept for the batch"), theme.OKABE_ITO[4], "-", edge),
    }


def _add_bars(
    fig: go.Figure,
    bars: Sequence[Bar],
    names: Mapping[int, str],
    about: Mapping[int, str],
    style: _Style,
    row: int,
    in_legend: bool,
    words: Words,
) -> None:
    light = style.pattern in (".", "x")  # nothing is computed: a pattern on no ground
    fig.add_bar(
        orientation="h",
        y=[names[b.request] for b in bars],
        base=[round(b.begin_ns / 1e9, 6) for b in bars],
        x=[round((b.end_ns - b.begin_ns) / 1e9, 6) for b in bars],
        width=0.5 if light else 0.86,
        marker={
            "color": style.fill,
            "line": {"color": style.line, "width": 0 if light else 0.5},
            "pattern": {
                "shape": style.pattern,
                "size": 6,
                "solidity": 0.35,
                "fillmode": "replace" if light else "overlay",
                **({} if light else {"fgcolor": "#000000", "fgopacity": 0.45}),
            },
        },
        text=[f"{theme.plain(about[b.request])}<br>{_hover(b, style.name, words)}" for b in bars],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
        name=style.name,
        legendgroup=style.name,
        showlegend=in_legend,
        row=row,
        col=1,
    )


def _hover(bar: Bar, name: str, words: Words) -> str:
    if not bar.steps:
        return f"{name}: {words.ms((bar.end_ns - bar.begin_ns) / 1e6)}"
    lines = [
        words.text("{what}: {own} of the iteration's {tokens} tokens", what=name, own=words.count(bar.own),
                   tokens=words.count(bar.tokens)),
        words.text("{ms}, {seqs} requests in the batch", ms=words.ms(bar.ms), seqs=words.count(bar.seqs)),
    ]  # fmt: skip
    if bar.steps > 1:
        lines.append(words.plural("{n} such iteration", "{n} such iterations", bar.steps))
    return "<br>".join(lines)


def window_sentence(window: Window, name: str, words: Words = ENGLISH) -> str:
    """What the window shows, in words."""
    values = {"name": name, "request": window.request, "time": words.ms(window.ms)}
    if window.stall:
        return words.text(
            "The worst freeze of {name}: request {request} waits {time} in the middle of its answer.", **values
        )
    return words.text(
        "{name} gives whole answers at the end of a batch: request {request} waits {time} for its first word.",
        **values,
    )
