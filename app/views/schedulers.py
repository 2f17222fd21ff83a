"""Schedulers side by side on one load: who wins and why, goodput over the load, what each one misses. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.views.choice_notes import no_choice_reason
from app.views.frontier import HOVER, hover_data
from app.words import ENGLISH, NOTHING, Words
from runner.analysis.frontier import best_by_load, sustainable_load
from runner.simulator.cost_model import largest_safe_token_budget
from runner.simulator.presets import EngineProfile

RAW_ALIKE = 0.05  # raw output that differs by no more is no reason to choose by


def scheduler_of(cell: c.Cell) -> str:
    """The scheduler of a cell of a what-if sweep."""
    return str((cell.get("setting") or {}).get("scheduler"))


def title_of(name: str, words: Words = ENGLISH) -> str:
    """`vllm_v1 (chunked prefill)`: the name that settings use, and the idea."""
    ideas = {
        "static": words.text("whole batches"),
        "orca": words.text("iteration-level"),
        "vllm_v0": words.text("continuous"),
        "vllm_v1": words.text("chunked prefill"),
        "sarathi": words.text("stall-free chunks"),
        "distserve": words.text("prefill and decode apart"),
        "llama_cpp": words.text("slots"),
    }
    return f"{name} ({ideas[name]})" if name in ideas else name


def _named(cell: c.Cell, words: Words) -> str:
    """In a sentence that compares, twice the hardware is said."""
    name = scheduler_of(cell)
    return words.text("{name} (two machines)", name=name) if name == "distserve" else name


def winner_sentences(result: c.Result, words: Words = ENGLISH) -> list[str]:
    """What wins and by what, what is as good, and what most raw tokens would have picked. One where nothing ran."""
    pick = c.chosen_cell(result)
    if not result.get("targets"):
        return [words.text("No class has targets: raw output is shown, goodput can't be judged.")]
    if pick is None:
        reason = no_choice_reason(result.get("choice") or {}, words)
        return [words.text("Nothing to compare: no scheduler could run this load."), reason]
    if not pick.get("goodput_per_s"):
        return [words.text("None keeps these targets on this machine: every request misses them, at every load.")]
    wanted = float(result.get("share_target") or 1.0)
    values = {
        "name": _named(pick, words),
        "load": c.load_name(pick, words),
        "share": words.share(pick.get("share")),
        "goodput": words.per_s(pick.get("goodput_per_s"), "req"),
        "wanted": words.share(wanted),
    }
    if (result.get("choice") or {}).get("target_met"):
        first = words.text(
            "{name} wins: at {load} it keeps {share} of requests inside their targets, {goodput}.", **values
        )
    else:
        first = words.text(
            "None keeps {wanted} for sure. {name} has the most good requests: at {load} {share} stay inside their "
            "targets, {goodput}.",
            **values,
        )
    met = (result.get("choice") or {}).get("target_met")
    unsure = any((x.get("share") or 0.0) >= wanted for x in c.measured(result) if c.why_invalid(x) is None)
    more = words.text("Some may, at some load: take more requests to be sure.") if unsure and not met else ""
    return [s for s in (first, more, _as_good(result, pick, words), _raw_sentence(result, pick, words)) if s]


def _as_good(result: c.Result, pick: c.Cell, words: Words) -> str:
    """Schedulers whose share at the same load is not below the interval of the winner's."""
    low = pick.get("share_low") if pick.get("share_low") is not None else pick.get("share")
    equal = [
        _named(x, words)
        for x in c.measured(result)
        if x is not pick and x.get("load") == pick.get("load") and (x.get("share") or 0.0) >= (low or 0.0)
        if c.why_invalid(x) is None
    ]
    return words.text("As good there, within the noise: {list}.", list=", ".join(equal)) if equal else ""


def _raw_sentence(result: c.Result, pick: c.Cell, words: Words) -> str:
    raw = c.raw_winner(result)
    if raw is None:
        return ""
    values = {
        "name": _named(raw, words),
        "load": c.load_name(raw, words),
        "raw": words.per_s(raw.get("output_tok_per_s"), "tok"),
        "share": words.share(raw.get("share")),
    }
    if raw is pick:
        return _raw_blind(result, pick, words)
    if (raw.get("share") or 0.0) >= (pick.get("share") or 0.0):
        return words.text("The most raw tokens, {raw}, come from {name} at {load}.", **values)
    if scheduler_of(raw) == scheduler_of(pick):
        return words.text(
            "Do not pick it for {load}, where it makes the most raw tokens, {raw}: only {share} stay inside.", **values
        )
    return words.text(
        "Do not pick {name} at {load}, which makes the most raw tokens, {raw}: only {share} stay inside.", **values
    )


def _raw_blind(result: c.Result, pick: c.Cell, words: Words) -> str:
    """The winner has most raw tokens too: who has next to as many, and what that is worth."""
    least = (1 - RAW_ALIKE) * pick["output_tok_per_s"]
    alike = [x for x in c.measured(result) if x is not pick and (x.get("output_tok_per_s") or 0.0) >= least]
    worse = [x for x in alike if (x.get("share") or 0.0) < (pick.get("share_low") or 0.0)]
    if not worse:
        return words.text("It also makes the most raw tokens.")
    next_to = max(worse, key=lambda x: float(x["output_tok_per_s"]))
    return words.text(
        "Raw tokens do not tell them apart: {name} makes {raw} at {load} and it {own}, but do not pick {name}: only "
        "{share} stay inside.",
        name=_named(next_to, words),
        raw=words.per_s(next_to["output_tok_per_s"], "tok"),
        load=c.load_name(next_to, words),
        own=words.per_s(pick["output_tok_per_s"], "tok"),
        share=words.share(next_to.get("share")),
    )


def reason_rows(
    result: c.Result, misses: Mapping[int, Any], load: Mapping[str, Any], words: Words = ENGLISH
) -> list[dict[str, str]]:
    """One row a scheduler at one load: share inside, what was missed, latencies, raw tokens, the load it sustains.

    `misses`: cell -> runner.what_if.Misses.
    """
    wanted = float(result.get("share_target") or 1.0)
    rows = []
    for cell in (x for x in c.cells_of(result) if x.get("load") == load):
        name = scheduler_of(cell)
        mine = [x for x in c.cells_of(result) if scheduler_of(x) == name]
        found, most = misses.get(cell["cell"]), sustainable_load(mine, wanted)
        axis = c.load_of(cell)[0]
        rows.append(
            {
                words.text("scheduler"): name,
                words.text("inside targets"): words.share(cell.get("share")),
                words.text("late first words"): words.share(found.late if found else None),
                words.text("stalled"): words.share(found.stalled if found else None),
                words.text("first token p95"): c.percentile_text(c.promised(cell), "ttft_ms", "p95", words),
                words.text("gap p99"): c.percentile_text(c.promised(cell), "gap_ms", "p99", words),
                words.text("raw output"): words.per_s(cell.get("output_tok_per_s"), "tok"),
                words.text("keeps its promises up to"): NOTHING if most is None else c.load_name({axis: most}, words),
                words.text("remark"): _remark(cell, words),
            }
        )
    return rows


def _remark(cell: c.Cell, words: Words) -> str:
    """Why a point is in doubt. That an answer comes in one piece is this engine's doing, nobody's in between."""
    flags = list(cell.get("flags") or [])
    doubts = c.why_invalid({**cell, "flags": [f for f in flags if f != "stream_buffered"]}, words)
    whole = words.text("answers come in one piece") if "stream_buffered" in flags else None
    return "; ".join(filter(None, [doubts, whole]))


def goodput_by_load_figure(
    result: c.Result, words: Words = ENGLISH, *, dark: bool = False, height: int = 420
) -> go.Figure:
    """Goodput against the offered load, a line a scheduler; the best at each load as the frontier above them.

    A point that is not sustainable or otherwise in doubt is hollow. `customdata` is that of the frontier figure.
    """
    ran = c.measured(result)
    axis = c.load_of(ran[0])[0] if ran else "load"
    fig = theme.figure(c.load_title(axis, words), words.text("goodput (requests/s)"), dark=dark, height=height)
    best = best_by_load(ran)
    loads = [v for x in ran if (v := c.load_of(x)[1]) is not None]
    if axis == "request_rate" and loads:
        offered = {x["load"]["request_rate"]: x for x in ran}
        fig.add_scatter(
            x=sorted(offered), y=sorted(offered), mode="lines", name=words.text("all that was offered"),
            line={"color": theme.GREY, "dash": "dot", "width": 1.5}, hoverinfo="skip", meta={"role": "offered"},
        )  # fmt: skip
    fig.add_scatter(
        x=[v for v, _ in best], y=[x["goodput_per_s"] for _, x in best], mode="lines", hoverinfo="skip",
        line={"color": theme.ink(dark), "width": 9}, opacity=0.15, name=words.text("frontier: the best of each load"),
        meta={"role": "frontier"},
    )  # fmt: skip
    for index, name in enumerate(dict.fromkeys(scheduler_of(x) for x in c.cells_of(result))):
        mine = [x for x in ran if scheduler_of(x) == name]
        if mine:
            _add_scheduler(fig, sorted(mine, key=lambda x: c.load_of(x)[1] or 0.0), name, index, words)
    pick = c.chosen_cell(result)
    if pick is not None:
        fig.add_scatter(
            x=[c.load_of(pick)[1]], y=[pick["goodput_per_s"]], mode="markers+text", text=[words.text("the pick")],
            textposition="top center", textfont={"size": 13, "weight": 700}, showlegend=False, hoverinfo="skip",
            marker={"symbol": "star-open", "size": 24, "color": theme.ink(dark), "line": {"width": 2}},
            cliponaxis=False, meta={"role": "pick"},
        )  # fmt: skip
    top = max([x["goodput_per_s"] for x in ran], default=1.0) or 1.0
    fig.update_yaxes(range=[-0.04 * top, 1.22 * top])
    return fig


def _add_scheduler(fig: go.Figure, mine: Sequence[c.Cell], name: str, index: int, words: Words) -> None:
    style = theme.series_style(index)
    fig.add_scatter(
        x=[c.load_of(x)[1] for x in mine],
        y=[x["goodput_per_s"] for x in mine],
        mode="lines+markers",
        line={"color": style["colour"], "dash": style["dash"], "width": 2},
        marker={
            "color": style["colour"],
            "size": 10,
            "symbol": [style["symbol"] + ("-open" if c.why_invalid(x) else "") for x in mine],
            "line": {"width": 1.5, "color": style["colour"]},
        },
        customdata=[hover_data(x, name, words) for x in mine],
        hovertemplate=HOVER,
        name=theme.plain(title_of(name, words)),
        meta={"role": "scheduler"},
    )


def budget_sentences(
    profile: EngineProfile, gap_ms: float, budget: int, seqs: int, context_tokens: float, words: Words = ENGLISH
) -> list[str]:
    """The largest safe token budget beside the one that is set, and what that figure stands on.

    `context_tokens`: of an answer that runs. Empty where prompt tokens cost nothing.
    """
    kv_tokens = min(profile.kv_tokens, round(seqs * context_tokens))
    try:
        alone = largest_safe_token_budget(profile.cost, gap_ms, 1, round(context_tokens))
        beside = largest_safe_token_budget(profile.cost, gap_ms, seqs, kv_tokens)
    except ValueError:
        return []
    told = words.text(
        "Largest safe token budget for gaps of {gap}: {alone} beside one answer, {beside} beside {seqs}.",
        gap=words.ms(gap_ms),
        alone=words.count(alone),
        beside=words.count(beside),
        seqs=words.count(seqs),
    )
    if budget <= beside:
        fits = words.text("The {budget} that are set keep to it.", budget=words.count(budget))
    elif budget <= alone:
        fits = words.text("The {budget} that are set are too many for a full batch.", budget=words.count(budget))
    else:
        fits = words.text(
            "The {budget} that are set are too many: a long prompt holds up every answer beside it for longer.",
            budget=words.count(budget),
        )
    return [f"{told} {fits}", basis(profile, words)]


def basis(profile: EngineProfile, words: Words = ENGLISH) -> str:
    """Measured, or an estimate: said of the speed that all numbers of the page stand on."""
    source = profile.source.removeprefix("estimate, ")
    row = words.said(source.removeprefix("scaled from ").removeprefix("a stand-in for "))
    if source.startswith("scaled from a stand-in for "):
        source = words.text("scaled from a similar machine: {row}", row=row)
    elif source.startswith("scaled from "):
        source = words.text("scaled from {row}", row=row)
    if profile.estimate:
        return words.text("Estimate, nothing was measured on such a machine: {source}.", source=source)
    return words.text("Speed from: {source}.", source=source)
