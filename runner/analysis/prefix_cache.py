"""How much of the prompts a prefix cache should serve, by the workload, and whether it did."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.request_object import CACHED_SHARE
from runner.analysis.requests import floats
from runner.config import SweepConfig
from runner.load.workload import KEY_WORDS

TEMPLATE_TOKENS = 32  # a chat template's own tokens, or the rest of a block of an engine that caches whole blocks


def intended_hit_share(rows: pd.DataFrame, config: SweepConfig) -> float | None:
    """Share (0–1) of the window's prompt tokens that belong to a prefix which an earlier request of the class had.

    `rows`: one cell of `request_table`, warm-up included. Counted over completed requests by the server's prompt
    counts, else by the lengths asked for; a prefix always leaves room for the words that make a prompt unique. 0 for
    a workload of unique prompts; null without requests.
    """
    names = rows["class_name"]
    by_name = {c.name: c.shared_prefix_tokens for c in config.classes}
    prefix = np.array([by_name.get(name, np.nan) for name in names.tolist()], dtype=np.float64)
    asked, told = floats(rows["prompt_tokens_asked"]), floats(rows["prompt_tokens"])
    prompt = np.where(np.isnan(told), asked, told)
    shared = np.minimum(np.nan_to_num(prefix), np.maximum(0.0, np.nan_to_num(asked) - KEY_WORDS))
    shared = np.where(names.duplicated().to_numpy(dtype=bool), shared, 0.0)  # nobody went before a class's first
    counted = rows["in_window"].to_numpy(dtype=bool) & rows["completed"].to_numpy(dtype=bool) & (prompt > 0)
    total = float(prompt[counted].sum())
    return float(np.minimum(shared, prompt)[counted].sum()) / total if total else None


def unplanned_hits(
    rows: pd.DataFrame, hits: float | None, intended: float | None, setting: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Warning type -> its values, where the cache served noticeably more or less than the workload shares.

    Differences of up to a tenth of the prompt, or TEMPLATE_TOKENS, are no finding; nor is anything where the sweep
    itself varies the caching.
    """
    prompt = floats(rows["prompt_tokens"])
    mean_prompt = float(np.nanmean(prompt)) if not np.isnan(prompt).all() else 0.0
    off = (hits or 0.0) - (intended or 0.0)
    if hits is None or abs(off) <= CACHED_SHARE or abs(off) * mean_prompt <= TEMPLATE_TOKENS:
        return {}
    if not intended:
        return {"prefix_cached": {"share": hits}}
    varied = any("cach" in key or "prefix" in key for key in setting)
    return {} if varied else {"prefix_share_not_held": {"share": hits, "intended": intended}}
