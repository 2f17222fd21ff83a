"""llama.cpp's /slots (JSON) -> sequences running and share of the KV cells in use. PURE."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slots:
    running: int
    count: int
    kv_cache_usage: float | None  # 0..1


def parse_slots(text: str, kv_unified: bool | None) -> Slots | None:
    """Null when the text is not a slot list.

    Each slot shows `n_prompt_tokens` (prompt and answer so far) and `n_ctx`. With separate caches n_ctx is the slot's
    own part; with one unified cache every slot shows the whole of it. The page does not say which, so with several
    slots and `kv_unified` unknown (null) the use is unknown too. What an idle slot keeps for the prefix cache is not
    counted: it yields to the next request.
    """
    try:
        slots = json.loads(text)
        busy = [s for s in slots if s["is_processing"]]
        used = sum(int(s.get("n_prompt_tokens", 0)) for s in busy)
        cells = [int(s["n_ctx"]) for s in slots]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    if not cells:
        return None
    if kv_unified is None and len(cells) > 1:
        return Slots(len(busy), len(cells), None)
    total = max(cells) if kv_unified else sum(cells)
    return Slots(len(busy), len(cells), max(0, min(used, total)) / total if total > 0 else None)


def kv_is_unified(start_line: str | None) -> bool | None:
    """What llama-server's start line says: -kvu / -no-kvu, else unified exactly when the slot count is left to it."""
    if start_line is None:
        return None
    words = set(start_line.replace("=", " ").split())
    if words & {"-kvu", "--kv-unified"}:
        return True
    if words & {"-no-kvu", "--no-kv-unified"}:
        return False
    return not words & {"-np", "--parallel", "LLAMA_ARG_N_PARALLEL"}
