"""Flags of requests, for a whole table at once: the same words and limits as `request_object.request_flags`."""

import numpy as np
import pandas as pd

from runner.analysis.gaps import Bools
from runner.analysis.request_object import CACHED_SHARE, COLD_LOAD_MS
from runner.analysis.requests import floats

MATERIAL_SHARE = 0.05  # of a cell's completed requests: then the cell carries the flag too


def row_flags(rows: pd.DataFrame) -> dict[str, Bools]:
    """Flag name -> one boolean a row of `request_table`. What each flag means: see `request_flags`."""
    good = rows["completed"].to_numpy(dtype=bool)
    estimated = np.equal(rows["output_tokens_source"].to_numpy(dtype=object), "estimated").astype(bool)
    tokens, events = floats(rows["output_tokens"]), floats(rows["token_events"])
    asked = floats(rows["output_tokens_asked"])
    prompt, prompt_asked = floats(rows["prompt_tokens"]), floats(rows["prompt_tokens_asked"])
    unended = ~rows["saw_terminator"].to_numpy(dtype=bool) & rows["finish_reason"].isna().to_numpy(dtype=bool)
    return {
        "multi_token_chunks": (events > 0) & (tokens - events > np.maximum(1.0, 0.05 * events)),
        "tokens_estimated": estimated,
        "stream_buffered": rows["buffered"].to_numpy(dtype=bool),
        "prefix_cached": floats(rows["cached_prompt_tokens"]) > CACHED_SHARE * np.nan_to_num(prompt),
        "cold_load": floats(rows["load_ms"]) > COLD_LOAD_MS,
        "malformed_events": floats(rows["malformed_events"]) > 0,
        "no_terminator": good & unended,
        "output_length_not_held": good
        & ~estimated
        & (asked > 0)
        & (np.abs(tokens - asked) > np.maximum(2, 0.1 * asked)),
        "prompt_length_mismatch": (prompt_asked > 0) & (np.abs(prompt - prompt_asked) > 32 + 0.2 * prompt_asked),
    }


def material_flags(flags: dict[str, Bools], chosen: Bools) -> dict[str, float]:
    """Flag -> share of the chosen rows that carry it, where that is material."""
    n = int(chosen.sum())
    shares = {name: int((mask & chosen).sum()) / n if n else 0.0 for name, mask in flags.items()}
    return {name: share for name, share in shares.items() if share >= MATERIAL_SHARE}
