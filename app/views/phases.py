"""Where the time of a request goes: held back, queue, prefill, decode. PURE."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.views import cells as c
from app.views import theme
from app.words import ENGLISH, Words

STAGES = ("held_ms", "queue_ms", "prefill_ms", "first_ms", "decode_ms")


def phase_rows(
    result: c.Result, requests: pd.DataFrame, class_name: str | None = None, words: Words = ENGLISH
) -> list[dict[str, Any]]:
    """One row a measured cell: mean ms that a completed request of its window spent in each stage.

    Keys: cell, name, short, load, n; held_ms (scheduled until sent), queue_ms and prefill_ms where the server tells its
    mean queue time, else null and first_ms (sent until first chunk) for both; decode_ms (first chunk until last).
    The server's queue time is over all classes: with `class_name` it is not split off.
    """
    counted = requests["completed"].to_numpy(dtype=bool) & requests["in_window"].to_numpy(dtype=bool)
    if class_name is not None:
        counted &= np.equal(requests["class_name"].to_numpy(dtype=object), class_name).astype(bool)
    kept = requests.loc[counted, ["cell", "send_lag_ms", "ttft_from_send_ms", "first_chunk_ns", "last_chunk_ns"]]
    first, last = (pd.to_numeric(kept[k]).to_numpy(dtype=float) for k in ("first_chunk_ns", "last_chunk_ns"))
    times = pd.DataFrame(
        {
            "cell": kept["cell"].to_numpy(dtype=np.int64),
            "held": kept["send_lag_ms"].to_numpy(dtype=float),
            "first": kept["ttft_from_send_ms"].to_numpy(dtype=float),
            "decode": (last - first) / 1e6,
        }
    ).dropna()
    grouped = times.groupby("cell")
    means: dict[int, dict[str, float]] = grouped.mean().to_dict("index")  # type: ignore[assignment]
    sizes: dict[int, int] = grouped.size().to_dict()  # type: ignore[assignment]
    names, shorts = c.setting_names(result, words), c.short_names(result, words)
    rows = []
    for cell in c.measured(result):
        if cell["cell"] not in means:
            continue
        mean, key = means[cell["cell"]], c.key_of(cell.get("setting") or {})
        queue_s = (cell.get("engine") or {}).get("queue_time_mean_s") if class_name is None else None
        queue = None if queue_s is None else min(1000.0 * queue_s, mean["first"])
        rows.append(
            {
                "cell": cell["cell"],
                "name": names[key],
                "short": shorts[key],
                "load": c.load_name(cell, words),
                "n": sizes[cell["cell"]],
                "held_ms": mean["held"],
                "queue_ms": queue,
                "prefill_ms": None if queue is None else mean["first"] - queue,
                "first_ms": mean["first"] if queue is None else None,
                "decode_ms": mean["decode"],
            }
        )
    return rows


def stage_titles(words: Words = ENGLISH) -> dict[str, str]:
    """Key of a row -> the stage in a few words."""
    return {
        "held_ms": words.text("not sent yet"),
        "queue_ms": words.text("queue (the server's own mean)"),
        "prefill_ms": words.text("prefill"),
        "first_ms": words.text("queue + prefill"),
        "decode_ms": words.text("decode"),
    }


def phases_figure(rows: Sequence[dict[str, Any]], words: Words = ENGLISH, *, dark: bool = False) -> go.Figure:
    """A stacked bar for each row of `phase_rows`; hover tells the stage, its share of the whole and n."""
    fig = theme.figure(words.text("mean time of a request (s)"), "", dark=dark, height=150 + 34 * max(len(rows), 1))
    one_load = len({r["load"] for r in rows}) < 2
    labels = [theme.plain(r["short"] if one_load else f"{r['short']} · {r['load']}") for r in rows]
    looks = {  # colour and pattern, so that no stage hangs on colour alone
        "held_ms": (theme.OKABE_ITO[5], "x"),
        "queue_ms": (theme.OKABE_ITO[3], "/"),
        "prefill_ms": (theme.OKABE_ITO[1], ""),
        "first_ms": (theme.OKABE_ITO[1], "."),
        "decode_ms": (theme.OKABE_ITO[0], ""),
    }
    for key, title in stage_titles(words).items():
        if all(r[key] is None for r in rows):
            continue
        colour, shape = looks[key]
        fig.add_bar(
            x=[None if r[key] is None else round(r[key] / 1000, 5) for r in rows],
            y=labels,
            orientation="h",
            name=title,
            marker={"color": colour, "pattern": {"shape": shape, "fillmode": "overlay", "size": 6, "solidity": 0.2}},
            customdata=[[r["cell"]] for r in rows],
            hovertext=[_hover(r, key, title, words) for r in rows],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    fig.update_layout(barmode="stack", bargap=0.3, legend_traceorder="normal")
    fig.update_yaxes(type="category", autorange="reversed")
    return fig


def _hover(row: dict[str, Any], key: str, title: str, words: Words) -> str:
    whole = sum(row[k] or 0.0 for k in STAGES)
    value = row[key] or 0.0
    told = words.text(
        "{stage}: {time}, {share} of the whole (mean of n = {n})",
        stage=title,
        time=words.ms(value),
        share=words.share(value / whole if whole else None),
        n=words.count(row["n"]),
    )
    return f"{theme.plain(row['name'])} · {theme.plain(row['load'])}<br>{told}"


def phase_sentence(rows: Sequence[dict[str, Any]], cell: int | None, words: Words = ENGLISH) -> str | None:
    """Of one cell in words: `Of 4.2 s on average, 61 % is decode.`; null where it is not among the rows."""
    row = next((r for r in rows if r["cell"] == cell), None)
    if row is None:
        return None
    whole = sum(row[k] or 0.0 for k in STAGES)
    top = max(STAGES, key=lambda k: row[k] or 0.0)
    return words.text(
        "{setting} at {load}: a request takes {time} on average, most of it is {stage} ({share}).",
        setting=row["name"],
        load=row["load"],
        time=words.ms(whole),
        stage=stage_titles(words)[top],
        share=words.share((row[top] or 0.0) / whole if whole else None),
    )
