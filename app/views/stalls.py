"""Requests that pass on the mean and freeze in practice, as rows and a sentence. PURE."""

from typing import Any

import pandas as pd

from app.words import ENGLISH, Words

MOST_ROWS = 200


def stall_rows(stalls: pd.DataFrame, words: Words = ENGLISH, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """A row a request of `stalled_requests`, longest freeze first: cell and request as numbers (for a link), else text:
    class_name, scheduled, at, longest_gap, tpot, long_gaps, stalled."""
    return [
        {
            "cell": int(row["cell"]),
            "request": int(row["request"]),
            "class_name": str(row["class_name"]),
            "scheduled": words.text("{seconds} s", seconds=words.number(row["scheduled_s"], 1)),
            "at": words.text("{seconds} s", seconds=words.number(row["at_s"], 1)),
            "longest_gap": words.ms(row["longest_gap_ms"]),
            "tpot": words.ms(row["tpot_ms"]),
            "long_gaps": words.count(row["long_gaps"]),
            "stalled": words.ms(row["stalled_ms"]),
        }
        for row in stalls.head(most).to_dict("records")
    ]


def stall_sentence(stalls: pd.DataFrame, words: Words = ENGLISH) -> str | None:
    """How many there are and how long the worst one froze; None without any."""
    if not len(stalls):
        return None
    worst = stalls.iloc[0]
    return words.plural(
        "{n} request passes by its mean and froze all the same: for {longest}, with a target of {target}.",
        "{n} requests pass by their mean and froze all the same: the worst for {longest}, with a target of {target}.",
        len(stalls),
        longest=words.ms(float(worst["longest_gap_ms"])),
        target=words.ms(float(worst["gap_target_ms"])),
    )
