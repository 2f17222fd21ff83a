"""How many tokens an answer had, by what the server itself tells."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class Counts:
    """None = not told. `output_tokens_source` is `usage` or `timings` where `output_tokens` was told."""

    output_tokens: int | None = None
    output_tokens_source: str | None = None
    reasoning_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    load_ms: float | None = None


def openai_counts(usage: Json, timings: Json) -> Counts:
    """From an OpenAI `usage` object, else from llama.cpp's `timings` (either may be empty).

    `prompt_n` of the timings leaves out what the cache held, `cache_n`; `prompt_tokens` of a usage does not.
    """
    counts = Counts()
    told_output, timed_output = whole(usage.get("completion_tokens")), whole(timings.get("predicted_n"))
    if told_output:
        counts.output_tokens, counts.output_tokens_source = told_output, "usage"
    elif timed_output:
        counts.output_tokens, counts.output_tokens_source = timed_output, "timings"
    cached = part(usage, "prompt_tokens_details").get("cached_tokens")
    cached = timings.get("cache_n") if cached is None else cached
    counts.cached_prompt_tokens = whole(cached)
    counts.reasoning_tokens = whole(part(usage, "completion_tokens_details").get("reasoning_tokens"))
    counts.prompt_tokens = whole(usage.get("prompt_tokens"))
    computed = whole(timings.get("prompt_n"))
    if counts.prompt_tokens is None and computed is not None:
        counts.prompt_tokens = computed + (whole(timings.get("cache_n")) or 0)
    return counts


def told_counts(output: object, prompt: object, *, cached: object = None, load_ns: object = None) -> Counts:
    """From the plain numbers of a last event; `load_ns` is the time a cold model load took."""
    tokens = whole(output)
    load = whole(load_ns)
    return Counts(
        output_tokens=tokens or None,
        output_tokens_source="usage" if tokens else None,
        prompt_tokens=whole(prompt),
        cached_prompt_tokens=whole(cached),
        load_ms=None if load is None else load / 1e6,
    )


def part(container: Json, key: str) -> Json:
    """The object under `key`, or an empty one."""
    value = container.get(key)
    return value if isinstance(value, dict) else {}


def whole(value: object) -> int | None:
    """A count as servers write it (2 or 2.0), or None for anything else; a count fits 53 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return None
    return int(value)
