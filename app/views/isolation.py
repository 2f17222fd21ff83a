"""Ways to keep background work apart, side by side: what each gives the chats and costs the work. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.views.told import told_values
from app.words import ENGLISH, NOTHING, Words
from runner.analysis.choice import WHY
from runner.analysis.isolation_texts import WHY_NOT

Arm = Mapping[str, Any]
ROW_PX = 46  # of the figure, for each arm
LINE_PX = 18
NAME_WIDTH = 20  # letters of a line before the bars: more would leave a phone no room for them
MINUTES_FROM_S = 90.0


def verdict_sentence(isolation: Mapping[str, Any], words: Words = ENGLISH) -> str:
    """The verdict in the reader's language."""
    # the empty text is no sentence: a catalogue has its own header under it
    body, costs = (words.text(template) if template else "" for template in isolation["reason_templates"])
    values = told_values(isolation["reason_values"], words)
    named = next((a for a in isolation["arms"] if a["arm"] == isolation["arm"]), None)
    if named is not None and words.lang != "en":
        title = arm_title(named, words)
        values["arm"] = title[:1].upper() + title[1:]
    values["why"] = _reason(str(values.get("why") or ""), words)
    return body.format(**{**values, "costs": costs.format(**values)})


def gap_sentences(isolation: Mapping[str, Any], words: Words = ENGLISH) -> list[str]:
    """One for each reason why arms were not measured, and one for each arm that was cut short."""
    by_reason: dict[str, list[str]] = {}
    for arm in isolation.get("unmeasured") or []:
        by_reason.setdefault(_reason(str(arm["why"]), words), []).append(arm_title(arm, words))
    told = [
        words.text("Not measured: {arms}, because {why}.", arms=", ".join(names), why=why)
        for why, names in by_reason.items()
    ]
    cut = [arm_title(arm, words) for arm in isolation["arms"] if arm.get("cut")]
    if cut:
        told.append(words.text("Cut short, so its share and its time are of a part: {arms}.", arms=", ".join(cut)))
    return told


def _reason(why: str, words: Words) -> str:
    """A clause that is ours in the reader's language; any other as it was said."""
    return words.text(why) if why in (*WHY.values(), *WHY_NOT.values()) else words.said(why)


def arm_title(arm: Arm, words: Words = ENGLISH) -> str:
    """What an arm is called."""
    own = {
        "alone": words.text("without background"),
        "as_is": words.text("as it is"),
        "window": words.text("a time window of its own"),
        "priority": words.text("server priority"),
    }
    if arm["kind"] == "cap":
        return words.text("cap {cap}", cap=words.count(arm["cap"]))
    if arm["kind"] == "cap_priority":
        return words.text("cap {cap} and server priority", cap=words.count(arm["cap"]))
    return own.get(str(arm["kind"])) or " + ".join(_part_title(p, words) for p in str(arm["arm"]).split(" + "))


def _part_title(part: str, words: Words) -> str:
    """One of several things that an arm does at once; a setting by its own name."""
    if part == "server priority":
        return words.text("server priority")
    cap = part.removeprefix("cap ")
    return words.text("cap {cap}", cap=cap) if cap != part and cap.isdigit() else part


def isolation_figure(isolation: Mapping[str, Any], words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """Left the share of chats inside their targets with its interval, right what the background then does; an arm a
    row, the one that the verdict speaks of in another colour and shape."""
    arms: Sequence[Arm] = isolation["arms"]
    names = [theme.folded(arm_title(arm, words), NAME_WIDTH) for arm in arms]
    fig = go.Figure()
    lines = max(name.count("<br>") + 1 for name in names) if names else 1
    theme.dress(fig, dark=dark, height=120 + max(ROW_PX, LINE_PX * lines + 6) * len(arms))
    chosen = [arm["arm"] == isolation["arm"] for arm in arms]
    colours = [theme.OKABE_ITO[0] if is_chosen else theme.GREY for is_chosen in chosen]
    shares = [100 * (arm["share"] or 0.0) for arm in arms]
    highs = [100 * (a["share_high"] if a["share_high"] is not None else 1.0) for a in arms]
    lows = [100 * (a["share_low"] or 0.0) for a in arms]
    fig.add_scatter(
        x=shares,
        y=names,
        error_x={
            "type": "data",
            "array": [max(h - s, 0.0) for h, s in zip(highs, shares, strict=True)],
            "arrayminus": [max(s - v, 0.0) for s, v in zip(shares, lows, strict=True)],
            "thickness": 1.4,
            "width": 5,
        },
        mode="markers",
        marker={
            "size": [15 if is_chosen else 10 for is_chosen in chosen],
            "color": colours,
            "symbol": ["star" if x else "circle" for x in chosen],
        },
        text=[_hover(arm, isolation, words) for arm in arms],
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
        meta={"role": "share"},
    )
    cost, title = _costs(arms, isolation, words)
    most = max((v for v in cost if v is not None), default=1.0) or 1.0  # and room for what is written behind the bars
    fig.add_bar(
        x=cost,
        y=names,
        orientation="h",
        marker={"color": colours, "pattern": {"shape": ["/" if _projected(a) else "" for a in arms]}},
        text=[_cost_text(arm, words) for arm in arms],
        textposition="outside",
        cliponaxis=False,
        hovertext=[_hover(arm, isolation, words) for arm in arms],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
        xaxis="x2",
        meta={"role": "cost"},
    )
    target = 100 * float(isolation["share_target"])
    fig.add_shape(
        type="line", x0=target, x1=target, y0=0, y1=1, yref="paper",
        line={"color": theme.TARGET, "dash": "dash", "width": 2},
    )  # fmt: skip
    chats = "/".join(isolation["interactive"])
    fig.update_layout(
        xaxis={
            "domain": [0, 0.56],
            "range": [-3, 103],
            "title": {"text": theme.folded(words.text("{name} inside (%)", name=chats), NAME_WIDTH)},
        },
        xaxis2={"domain": [0.62, 1], "anchor": "y", "range": [0, 1.9 * most], "title": {"text": title}},
        yaxis={"autorange": "reversed", "type": "category"},
        bargap=0.45,
    )
    return fig


def isolation_rows(isolation: Mapping[str, Any], words: Words = ENGLISH) -> list[dict[str, str]]:
    """Every number of the figure: one row an arm."""
    chats, background = "/".join(isolation["interactive"]), str(isolation["background"])
    rows = []
    for arm in isolation["arms"]:
        work = arm["background"]
        rows.append(
            {
                words.text("way"): arm_title(arm, words),
                words.text("{name} inside targets", name=chats): words.share(arm["share"]),
                words.text("95 % interval"): _span(arm, words),
                words.text("against as it is"): _difference(arm, words),
                words.text("{name} takes", name=background): _ends(arm, words),
                words.text("{name} writes", name=background): NOTHING
                if work is None
                else words.per_s(work["output_tok_per_s"], "tok"),
                words.text("jobs done"): NOTHING
                if work is None
                else f"{words.count(work['completed'])}/{words.count(work['jobs'])}",
                words.text("keeps the target"): words.text("yes") if arm["meets_target"] else words.text("not proven"),
            }
        )
    return rows


def _costs(arms: Sequence[Arm], isolation: Mapping[str, Any], words: Words) -> tuple[list[float | None], str]:
    """Minutes or seconds of the background, or, where it has no end, its tokens a second."""
    name = theme.plain(isolation["background"])
    if any((a["background"] or {}).get("makespan_s") is not None for a in arms):
        seconds = [(a["background"] or {}).get("makespan_s") for a in arms]
        long = max(s for s in seconds if s is not None) >= MINUTES_FROM_S
        title = words.text("{name} (min)", name=name) if long else words.text("{name} (s)", name=name)
        return [None if s is None else s / 60 if long else s for s in seconds], title
    return [(a["background"] or {}).get("output_tok_per_s") for a in arms], words.text("{name} (tok/s)", name=name)


def _projected(arm: Arm) -> bool:
    return bool((arm["background"] or {}).get("projected"))


def _cost_text(arm: Arm, words: Words) -> str:
    work = arm["background"]
    if work is None:
        return ""
    return _ends(arm, words) if work["makespan_s"] is not None else words.per_s(work["output_tok_per_s"], "tok")


def _ends(arm: Arm, words: Words) -> str:
    seconds = (arm["background"] or {}).get("makespan_s")
    if seconds is None:
        return NOTHING
    value, unit = (seconds / 60, "min") if seconds >= MINUTES_FROM_S else (seconds, "s")
    return f"{'~' if _projected(arm) else ''}{words.number(value, 1)}\u00a0{unit}"


def _span(arm: Arm, words: Words) -> str:
    return words.text("{low} to {high}", low=words.share(arm["share_low"]), high=words.share(arm["share_high"]))


def _difference(arm: Arm, words: Words) -> str:
    if arm["difference"] is None:
        return NOTHING
    points = [words.number(100 * arm[k]) for k in ("difference", "difference_low", "difference_high")]
    told = words.text("{mean} points ({low} to {high})", mean=points[0], low=points[1], high=points[2])
    return told if arm["difference_p"] < 0.05 else words.text("{difference}: noise", difference=told)


def _hover(arm: Arm, isolation: Mapping[str, Any], words: Words) -> str:
    lines = [
        arm_title(arm, words),
        words.text(
            "{share} inside targets ({low} to {high}, n = {n})",
            share=words.share(arm["share"]),
            low=words.share(arm["share_low"]),
            high=words.share(arm["share_high"]),
            n=words.count(arm["judged"]),
        ),
    ]
    if arm["background"] is not None:
        lines.append(f"{isolation['background']}: {_cost_text(arm, words)}")
    return "<br>".join(theme.plain(line) for line in lines)


def has_isolation(result: c.Result) -> bool:
    """Whether the sweep compared ways of keeping background work apart."""
    return bool(result.get("isolation"))
