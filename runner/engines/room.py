"""How much a running server can hold, as far as it tells: what a load for it, and a model of it, have to fit in."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.engines.proof import read_page
from runner.engines.told import read_cache_info

PROPS, MODELS, METRICS = "/props", "/v1/models", "/metrics"


@dataclass(frozen=True)
class Room:
    """Null where the server does not say. `context_tokens`: prompt plus answer of one request; `kv_tokens`: of all."""

    seats: int | None = None
    context_tokens: int | None = None
    kv_tokens: int | None = None


async def room_of(root: str, key: str | None) -> Room:
    """Of the server at this root URL, from its own pages; `key` is the API key itself."""
    paths = (PROPS, MODELS, METRICS)
    pages = await asyncio.gather(*(read_page(root + path, key) for path in paths))
    return read_room({path: page or "" for path, page in zip(paths, pages, strict=True)})


def read_room(pages: Mapping[str, str]) -> Room:
    """From llama.cpp's /props, the model list of vLLM and its like, and the cache config of vLLM's metrics."""
    props = _object(pages.get(PROPS, ""))
    seats, settings = _whole(props.get("total_slots")), props.get("default_generation_settings")
    context = _whole(settings.get("n_ctx")) if isinstance(settings, dict) else None
    if seats and context:
        return Room(seats, context, seats * context)
    models = _object(pages.get(MODELS, "")).get("data")
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else {}
    told = read_cache_info(pages.get(METRICS, ""))
    block, blocks = _whole(told.get("block_size")), _whole(told.get("num_gpu_blocks"))
    return Room(None, _whole(first.get("max_model_len")), block * blocks if block and blocks else None)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _whole(value: object) -> int | None:
    """A positive whole number, also one written as text; else None."""
    text = str(value) if isinstance(value, str | int) else ""
    return int(text) if not isinstance(value, bool) and text.isascii() and text.isdigit() and int(text) else None
