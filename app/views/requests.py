"""The requests of one cell as a table: what was asked, what came, whether its promise was kept and why not. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from app.views import cells as c
from app.views.table import Column
from app.words import ENGLISH, Words

# what keeps a request: which numbers lie in which span, both ends included; None is open
Spans = Mapping[str, tuple[float | None, float | None]]


def request_columns(words: Words = ENGLISH) -> list[Column]:
    """Columns of `request_rows`, in order."""
    return [
        Column("request", words.text("request"), "count"),
        Column("class_name", words.text("class"), "text"),
        Column("kept", words.text("promise"), "text"),
        Column("at_s", words.text("arrives at (s)"), "rate"),
        Column("ttft_ms", "TTFT", "ms"),
        Column("gap_p99_ms", words.text("gap p99"), "ms"),
        Column("gap_max_ms", words.text("longest gap"), "ms"),
        Column("e2e_ms", "E2E", "ms"),
        Column("prompt_tokens", words.text("prompt tokens"), "count"),
        Column("output_tokens", words.text("output tokens"), "count"),
        Column("outcome", words.text("outcome"), "text"),
    ]


def request_rows(
    requests: pd.DataFrame,
    verdicts: Sequence[str | None],
    targets: Mapping[str, Mapping[str, Any]],
    words: Words = ENGLISH,
) -> pd.DataFrame:
    """One row a request, by arrival, columns as `request_columns`.

    `requests`: the request table of one cell; `verdicts`: met, missed, censored or null of each of its rows.
    """
    told = [
        _kept(v, str(name), bool(inside), ttft, targets, words)
        for v, name, inside, ttft in zip(
            verdicts, requests["class_name"], requests["in_window"], requests["ttft_ms"], strict=True
        )
    ]
    frame = pd.DataFrame(
        {
            "request": requests["request"].to_numpy(dtype=np.int64),
            "class_name": requests["class_name"].astype(str).to_numpy(dtype=object),
            "kept": told,
            "at_s": requests["scheduled_ns"].to_numpy(dtype=float) / 1e9,
            **{
                k: requests[k].to_numpy(dtype=float, na_value=np.nan)
                for k in ("ttft_ms", "gap_p99_ms", "gap_max_ms", "e2e_ms", "prompt_tokens", "output_tokens")
            },
            "outcome": [
                outcome_text(str(o), k, words) for o, k in zip(requests["outcome"], requests["error_kind"], strict=True)
            ],
        }
    )
    return frame.sort_values("at_s", kind="stable").reset_index(drop=True)


def _kept(
    verdict: str | None,
    name: str,
    inside: bool,
    ttft_ms: float,
    targets: Mapping[str, Mapping[str, Any]],
    words: Words,
) -> str:
    if not inside:
        return words.text("warm-up")
    if verdict is None:
        return words.text("none given")
    if verdict == "met":
        return words.text("kept")
    if verdict == "censored":
        return words.text("cut by the end")
    late = ttft_ms > float(targets[name]["ttft_ms"]) if name in targets else False
    return words.text("missed: first token") if late else words.text("missed: gaps or no answer")


def outcome_text(outcome: str, error_kind: object, words: Words = ENGLISH) -> str:
    """`ok`, `cut`, or the kind of error in words."""
    if outcome == "ok":
        return words.text("ok")
    if outcome == "cancelled":
        return words.text("cut")
    return c.error_text(str(error_kind or outcome), words)


def inside(rows: pd.DataFrame, spans: Spans) -> pd.DataFrame:
    """The rows whose numbers lie in all the spans; a number that does not exist lies in none."""
    kept = np.ones(len(rows), dtype=bool)
    for key, (low, high) in spans.items():
        values = rows[key].to_numpy(dtype=float)
        kept &= (values >= (-np.inf if low is None else low)) & (values <= (np.inf if high is None else high))
    return rows[kept].reset_index(drop=True)
