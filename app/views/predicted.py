"""What was measured and what a cost model predicts for it, point by point. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.views.frontier import HOVER, hover_data
from app.words import ENGLISH, Words
from runner.calibration.fit import CHANGED

LATENCIES = ("ttft_ms", "gap_ms")
SHARES = ("p50", "p95")
LARGE_ERROR = 0.25


def pairs_of(measured: c.Result, predicted: c.Result) -> list[tuple[c.Cell, c.Cell]]:
    """Cells of the same setting, load and repeat that both have."""
    theirs = {_key(x): x for x in c.measured(predicted)}
    return [(x, theirs[_key(x)]) for x in c.measured(measured) if _key(x) in theirs]


def _key(cell: c.Cell) -> str:
    return c.key_of({**(cell.get("setting") or {}), **(cell.get("load") or {}), "repeat": cell.get("repeat") or 0})


def predicted_figure(
    measured: c.Result, others: Mapping[str, c.Result], words: Words = ENGLISH, *, dark: bool = False, height: int = 460
) -> go.Figure:
    """Goodput against raw output: measured points with their frontier, and beside them those of each model (by its
    name), hollow, joined to the measured ones by a thin line."""
    fig = theme.figure(
        words.text("raw output (tokens/s)"), words.text("goodput (requests/s)"), dark=dark, height=height
    )
    mine = c.measured(measured)
    tops = [float(x["goodput_per_s"]) for x in mine]
    for index, (name, result) in enumerate(others.items(), 1):
        pairs = pairs_of(measured, result)
        _add_joints(fig, pairs)
        _add_points(fig, [b for _, b in pairs], name, index, words)
        tops += [float(b["goodput_per_s"]) for _, b in pairs]
    _add_points(fig, mine, words.text("measured"), 0, words)
    top = max(tops, default=1.0) or 1.0
    fig.update_yaxes(range=[-0.04 * top, 1.12 * top])
    return fig


def _add_joints(fig: go.Figure, pairs: Sequence[tuple[c.Cell, c.Cell]]) -> None:
    points = [x for a, b in pairs for x in ((a["output_tok_per_s"], a["goodput_per_s"]),
                                            (b["output_tok_per_s"], b["goodput_per_s"]), (None, None))]  # fmt: skip
    fig.add_scatter(
        x=[x for x, _ in points], y=[y for _, y in points], mode="lines", hoverinfo="skip", showlegend=False,
        line={"color": theme.GREY, "width": 1, "dash": "dot"}, meta={"role": "joint"},
    )  # fmt: skip


def _add_points(fig: go.Figure, cells: Sequence[c.Cell], name: str, index: int, words: Words) -> None:
    """Index 0 is what was measured: filled, with the frontier as a line."""
    style = theme.series_style(index)
    best = [x for x in sorted(cells, key=lambda x: float(x["output_tok_per_s"])) if x.get("on_frontier")]
    line = {"color": style["colour"], "width": 2, "dash": style["dash"]}
    fig.add_scatter(
        x=[x["output_tok_per_s"] for x in best], y=[x["goodput_per_s"] for x in best], mode="lines", line=line,
        hoverinfo="skip", showlegend=False, meta={"role": "frontier"},
    )  # fmt: skip
    fig.add_scatter(
        x=[x["output_tok_per_s"] for x in cells],
        y=[x["goodput_per_s"] for x in cells],
        mode="markers",
        marker={
            "color": style["colour"],
            "size": 11,
            "symbol": style["symbol"] + ("-open" if index else ""),
            "line": {"width": 2, "color": style["colour"]},
        },
        customdata=[hover_data(x, name, words) for x in cells],
        hovertemplate=HOVER,
        name=theme.plain(name),
        meta={"role": "points"},
    )


def predicted_rows(measured: c.Result, predicted: c.Result, words: Words = ENGLISH) -> list[dict[str, str]]:
    """One row a cell: share and latencies as measured and as predicted."""
    names = c.setting_names(measured, words)
    rows = []
    for real, virtual in pairs_of(measured, predicted):
        row = {
            words.text("setting"): names[c.key_of(real.get("setting") or {})],
            words.text("load"): c.load_name(real, words),
            words.text("inside targets"): _pair(words.share(real.get("share")), words.share(virtual.get("share"))),
        }
        for key, title in (("ttft_ms", words.text("first token")), ("gap_ms", words.text("gap"))):
            for share in SHARES:
                told = [words.ms(c.percentile(x, key, share)) for x in (real, virtual)]
                row[f"{title} {share}"] = _pair(*told)
        rows.append(row)
    return rows


def _pair(measured: str, predicted: str) -> str:
    return f"{measured} → {predicted}"


def held_out_rows(held_out: Sequence[Mapping[str, Any]], words: Words = ENGLISH) -> list[dict[str, str]]:
    """The errors of a calibration: a row a figure of its held-out run."""
    titles = {"ttft_ms": words.text("first token"), "gap_ms": words.text("gap")}
    return [
        {
            words.text("load"): words.per_s(row["request_rate"], "req"),
            words.text("figure"): f"{titles[key]} {share}",
            words.text("measured"): words.ms(found["measured"]),
            words.text("predicted"): words.ms(found["predicted"]),
            words.text("off by"): signed_share(found["error_share"], words),
        }
        for row in held_out
        for key in LATENCIES
        for share, found in row[key].items()
    ]


def signed_share(share: float, words: Words = ENGLISH) -> str:
    """+8 %, −21 %."""
    return f"{'+' if share >= 0 else '−'}{words.share(abs(share))}"


def error_sentence(worst: float | None, words: Words = ENGLISH) -> str:
    """How far predictions of this profile may be off."""
    if worst is None:
        return words.text("Nobody has held this profile against a run that it has not seen.")
    if worst > LARGE_ERROR:
        return words.text(
            "On a run that it had not seen, a first token or a gap was {worst} off: take what is predicted as an order "
            "of magnitude.",
            worst=words.share(worst),
        )
    return words.text(
        "On a run that it had not seen, first tokens and gaps were at most {worst} off.", worst=words.share(worst)
    )


def pace_sentence(pace_after: float | None, words: Words = ENGLISH) -> str | None:
    """Whether the machine changed while it was calibrated; null where it did not, or nobody looked."""
    if pace_after is None or 1 / CHANGED < pace_after < CHANGED:
        return None
    return words.text(
        "After that run an iteration took {times} times as long as when it was fitted: something else used it. "
        "Calibrate again when it is quiet.",
        times=words.significant(pace_after),
    )


def beyond_sentences(
    seen_up_to: Mapping[str, float], prompt_tokens: float, seqs: float, words: Words = ENGLISH
) -> list[str]:
    """Where a prediction leaves what the calibration has measured."""
    out = []
    if prompt_tokens > seen_up_to.get("prompt_tokens", prompt_tokens):
        out.append(
            words.text(
                "Prompts up to {longest} tokens are predicted, {seen} were measured: beyond that it is extrapolated.",
                longest=words.count(prompt_tokens),
                seen=words.count(seen_up_to["prompt_tokens"]),
            )
        )
    if seqs > seen_up_to.get("seqs", seqs):
        out.append(
            words.text(
                "Batches up to {most} answers are predicted, {seen} were measured: beyond that it is extrapolated.",
                most=words.count(seqs),
                seen=words.count(seen_up_to["seqs"]),
            )
        )
    return out
