"""What held a setting back at a load: the client, the KV cache, the seats, the token budget, or only the load.

The first rule that has its evidence decides:

1. client: a flag says that the load generator did not make the load that was asked for.
2. KV cache: a sequence was preempted or swapped out, an answer was cut off for want of it, or one engine's was full
   (engine.FULL_KV of it in use, or less where a usual request is known to need more than what is left) while somebody
   waited.
3. seats: the limit was reached for FULL_SHARE of the window while somebody waited. Where the limit is not known, the
   most that ran takes its place, if that was so for PLATEAU_SHARE of the window with PLATEAU_WAITING waiting. Where the
   server does not tell what runs, its streams are counted, and who is in the system without one waits.
4. token budget: steps held NEAR_BUDGET of it, on average between two looks at the server, for FULL_STEPS_SHARE of the
   window; or CHUNKED_SHARE of the prompts were longer than it, so that each took several steps, unless the server was
   idle (fewer than FULL_STEPS_SHARE ran on average, so steps can't have been full for as long); or requests queued (see
   QUEUE_*) though seats and KV cache were free.
5. load: the limit was reached for less than that, or nobody waited: a higher load would have been served too.
6. unknown: the server tells too little.
"""

import itertools
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Bound = Literal["seats", "token_budget", "kv", "load", "client", "unknown"]
FULL_SHARE = 0.2
PLATEAU_SHARE = 0.5
PLATEAU_WAITING = 1.0
NEAR_BUDGET = 0.9
FULL_STEPS_SHARE = 0.1
CHUNKED_SHARE = 0.5
# A request waits for the step that runs to end even at an empty server: that is no queue. A queue is one waiting for
# every ten running, and half a request at least, each for longer than two steps where the server tells both times.
QUEUE_LEAST = 0.5
QUEUE_PER_RUNNING = 0.1
QUEUE_STEPS = 2.0
LOAD_AXES = ("request_rate", "max_concurrency", "load_scale")
CLIENT_FLAGS = ("client_saturated", "send_lag", "rate_not_reached")

# id -> sentence part; a pair is (one, many) of n
TEXTS: dict[str, str | tuple[str, str]] = {
    "client": "The client was the bound",
    "kv": "The KV cache was the bound",
    "seats": "The seats were the bound",
    "token_budget": "The token budget was the bound",
    "load": "The load was the bound, not the setting",
    "unknown": "What was the bound can't be told",
    "limit_reached": "limit {limit:.0f}, reached {share:.0%} of the time",
    "limit_not_reached": "limit {limit:.0f}, never above {most:.0f}",
    "no_limit": "no limit known, never above {most:.0f}",
    "not_told": "the server does not tell how many it runs",
    "limit_streams": "limit {limit:.0f}, never more than {most:.0f} streams at once",
    "streams": "never more than {most:.0f} streams at once",
    "in_system": "up to {most:.0f} requests in the system",
    "kv_full": "KV full at {running:.0f}",
    "kv_up_to": "KV up to {share:.0%}",
    "kv_not_told": "KV use is not told",
    "preemptions": ("{n} preemption", "{n} preemptions"),
    "swapped": "up to {n} swapped out",
    "cut_off": ("{n} answer cut off for want of KV", "{n} answers cut off for want of KV"),
    "queue_empty": "the queue was empty",
    "waiting": "up to {most:.0f} waiting",
    "steps_full": "steps full of tokens (budget {budget:.0f}) {share:.0%} of the time",
    "chunked": "{share:.0%} of the prompts were longer than the budget of {budget:.0f} tokens",
    "queued_beside": "requests queued though seats and KV were free",
    "client_saturated": "the load generator itself was too slow",
    "send_lag": "requests left late",
    "rate_not_reached": "the offered rate was not reached",
}


@dataclass(frozen=True)
class Evidence:
    """What is known about one cell's window. Null where it is not told or not known; sequences, tokens, shares 0..1."""

    limit: float | None = None  # sequences, of all engines together
    budget: float | None = None  # tokens a step
    has_budget: bool = True  # false where the scheduler spends none
    running_mean: float | None = None
    running_max: float | None = None
    full_share: float | None = None  # of the window, with the limit reached (or running_max, where none is known)
    waiting_mean: float | None = None
    waiting_max: float | None = None
    kv_max: float | None = None
    full_kv: float = 1.0  # from which use on it counts as full
    running_at_full_kv: float | None = None
    preemptions: int | None = None
    swapped_max: float | None = None
    cut_off: int = 0  # answers that ended in an error because the cache was full
    full_steps_share: float | None = None  # of the window, with steps near the budget
    chunked_share: float | None = None  # of the prompts, longer than the budget
    queue_time_s: float | None = None
    step_s: float | None = None
    streams_max: float = 0.0
    streams_full_share: float = 0.0  # of the window, with `limit` streams open (or streams_max, where none is known)
    in_system_mean: float = 0.0
    in_system_max: float = 0.0


def bound_of(seen: Evidence, flags: Collection[str]) -> dict[str, Any]:
    """The `bound` object of a cell: by, text (English), parts ([{id, values}], ids of TEXTS, the first is `by`)."""
    by, reasons = _decide(seen, flags)
    parts = [_part(by), *reasons, *_context(seen, by, [p["id"] for p in reasons])]
    return {"by": by, "text": sentence(parts), "parts": parts}


def bounds_of_settings(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One object a setting, from the result's measured cells: setting, by (at the heaviest load), cell (that one),
    since (the lightest load from which on it is that, loads counted upwards) and loads ([{cell, load, by}])."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("bound"):
            groups.setdefault(json.dumps(row["setting"], sort_keys=True, default=str), []).append(row)
    return [_of_setting(sorted(group, key=_heaviness)) for group in groups.values()]


def _of_setting(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    last = rows[-1]
    by = last["bound"]["by"]
    same = itertools.takewhile(lambda row: row["bound"]["by"] == by, reversed(rows))
    loads = [{"cell": row["cell"], "load": row["load"], "by": row["bound"]["by"]} for row in rows]
    return {"setting": last["setting"], "by": by, "cell": last["cell"], "since": list(same)[-1]["load"], "loads": loads}


def _heaviness(row: Mapping[str, Any]) -> tuple[float, int]:
    values = [row["load"][axis] for axis in LOAD_AXES if row["load"].get(axis) is not None]
    return float(values[0]) if values else 0.0, row["cell"]


def sentence(parts: list[dict[str, Any]]) -> str:
    """`The seats were the bound: limit 8, reached 83 % of the time; up to 12 waiting.`"""
    lead, *rest = [_english(p["id"], p["values"]) for p in parts]
    return f"{lead}: {'; '.join(rest)}." if rest else f"{lead}."


def _english(message_id: str, values: Mapping[str, Any]) -> str:
    text = TEXTS[message_id]
    return (text if isinstance(text, str) else text[values["n"] != 1]).format(**values)


def _part(message_id: str, **values: float) -> dict[str, Any]:
    return {"id": message_id, "values": values}


def _decide(seen: Evidence, flags: Collection[str]) -> tuple[Bound, list[dict[str, Any]]]:
    own = [_part(flag) for flag in CLIENT_FLAGS if flag in flags]
    if own:
        return "client", own
    if _kv_bound(seen):
        return "kv", []
    if _seats_bound(seen):
        return "seats", []
    budget = _budget_reasons(seen)
    if budget:
        return "token_budget", budget
    return ("load" if _load_bound(seen) else "unknown"), []


def _kv_bound(seen: Evidence) -> bool:
    thrown_out = bool(seen.preemptions or seen.swapped_max or seen.cut_off)
    return thrown_out or (_kv_full(seen) and bool(seen.waiting_max))


def _kv_full(seen: Evidence) -> bool:
    return seen.kv_max is not None and seen.kv_max >= seen.full_kv


def _seats_bound(seen: Evidence) -> bool:
    if seen.running_max is None:
        if seen.limit is None:
            waits = seen.in_system_mean >= seen.streams_max + PLATEAU_WAITING
            return seen.streams_max > 0 and waits and seen.streams_full_share >= PLATEAU_SHARE
        return seen.streams_full_share >= FULL_SHARE and seen.in_system_max > seen.limit
    full = seen.full_share or 0.0
    if seen.limit is None:
        return full >= PLATEAU_SHARE and (seen.waiting_mean or 0.0) >= PLATEAU_WAITING
    waits = seen.in_system_max > seen.limit if seen.waiting_max is None else seen.waiting_max > 0
    return full >= FULL_SHARE and waits


def _budget_reasons(seen: Evidence) -> list[dict[str, Any]]:
    found = []
    if seen.budget and (seen.full_steps_share or 0.0) >= FULL_STEPS_SHARE:
        found.append(_part("steps_full", share=seen.full_steps_share or 0.0, budget=seen.budget))
    idle = seen.running_mean is not None and seen.running_mean < FULL_STEPS_SHARE
    if seen.budget and (seen.chunked_share or 0.0) >= CHUNKED_SHARE and not idle:
        found.append(_part("chunked", share=seen.chunked_share or 0.0, budget=seen.budget))
    seats_free = seen.limit is not None and seen.running_max is not None and seen.running_max < seen.limit
    kv_free = seen.kv_max is not None and not _kv_full(seen)
    if seen.has_budget and seats_free and kv_free and _queues(seen):
        found.append(_part("queued_beside"))
    return found


def _queues(seen: Evidence) -> bool:
    waiting = seen.waiting_mean or 0.0
    many = waiting >= max(QUEUE_LEAST, QUEUE_PER_RUNNING * (seen.running_mean or 0.0))
    if seen.queue_time_s is None or not seen.step_s:
        return many
    return many and seen.queue_time_s >= QUEUE_STEPS * seen.step_s


def _load_bound(seen: Evidence) -> bool:
    if seen.running_max is None:
        return seen.limit is not None and seen.in_system_max < seen.limit
    if seen.waiting_max is None:
        return seen.limit is not None and seen.running_max < seen.limit
    return not _queues(seen)


def _context(seen: Evidence, by: Bound, told: list[str]) -> list[dict[str, Any]]:
    """The numbers beside the verdict: limit, KV cache, preemptions, queue."""
    parts = _limit_parts(seen)
    if seen.running_at_full_kv is not None and _kv_full(seen):
        parts.append(_part("kv_full", running=seen.running_at_full_kv))
    elif seen.kv_max is not None:
        parts.append(_part("kv_up_to", share=seen.kv_max))
    elif seen.running_max is not None:
        parts.append(_part("kv_not_told"))
    for name, n in (("preemptions", seen.preemptions), ("swapped", seen.swapped_max), ("cut_off", seen.cut_off)):
        if n:
            parts.append(_part(name, n=round(n)))
    if seen.waiting_max is not None:
        parts.append(_part("waiting", most=seen.waiting_max) if seen.waiting_max else _part("queue_empty"))
    elif seen.in_system_max:
        parts.append(_part("in_system", most=seen.in_system_max))
    return parts


def _limit_parts(seen: Evidence) -> list[dict[str, Any]]:
    if seen.running_max is None:
        if seen.limit is None:
            return [_part("not_told"), _part("streams", most=seen.streams_max)]
        return [_part("not_told"), _part("limit_streams", limit=seen.limit, most=seen.streams_max)]
    # a server is asked a few times a second: requests shorter than that are seen by their streams alone
    most = max(seen.running_max, seen.streams_max)
    if seen.limit is None:
        return [_part("no_limit", most=most)]
    if most >= seen.limit:
        return [_part("limit_reached", limit=seen.limit, share=max(seen.full_share or 0.0, seen.streams_full_share))]
    return [_part("limit_not_reached", limit=seen.limit, most=most)]
