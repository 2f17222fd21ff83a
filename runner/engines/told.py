"""What a server tells about its own settings, and where that contradicts what it was asked to run with."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from runner.config import Scalar, SweepConfig
from runner.engines.address import server_root
from runner.engines.metrics_text import parse_points
from runner.engines.proof import read_page
from runner.engines.running import api_key

Settings = dict[str, Scalar]
_CACHE_INFO = "vllm:cache_config_info"


def read_props(text: str) -> Settings:
    """llama.cpp's /props: the number of slots."""
    return _chosen(_json(text), {"max_num_seqs": "total_slots"})


def read_server_info(text: str) -> Settings:
    """SGLang's /server_info, which older versions have at /get_server_info: its start arguments by name."""
    return _chosen(
        _json(text), {"max_num_seqs": "max_running_requests", "max_num_batched_tokens": "chunked_prefill_size"}
    )


def read_info(text: str) -> Settings:
    """TGI's /info; it does not tell max_batch_size, and max_concurrent_requests limits the queue, not the batch."""
    same = ("max_concurrent_requests", "max_batch_total_tokens", "max_waiting_tokens")
    return _chosen(_json(text), {**{k: k for k in same}, "context_tokens": "max_total_tokens"})


def read_cache_info(text: str) -> Settings:
    """vLLM's /metrics: labels of its cache config, such as block_size; it does not tell max_num_seqs."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith(_CACHE_INFO)) + "\n"
    labels = next((p.labels for p in parse_points(lines)), {})
    return {k: v for k, v in labels.items() if v != "None"}


_PAGES: dict[str, tuple[tuple[str, ...], Callable[[str], Settings]]] = {
    "llama_cpp": (("/props",), read_props),
    "sglang": (("/server_info", "/get_server_info"), read_server_info),
    "tgi": (("/info",), read_info),
    "vllm": (("/metrics",), read_cache_info),
}


async def contradiction(config: SweepConfig, setting: Mapping[str, Scalar]) -> str | None:
    """One sentence when the server says that it runs with something else; null when it agrees or does not tell."""
    if config.backend.kind not in _PAGES:
        return None
    paths, read = _PAGES[config.backend.kind]
    for path in paths:
        text = await read_page(server_root(str(config.backend.url)) + path, api_key(config))
        if text is not None:
            return difference(setting, read(text))
    return None


def difference(asked: Mapping[str, Scalar], told: Mapping[str, Scalar]) -> str | None:
    """Numbers are compared as numbers, all else as words whatever their case."""
    wrong = [f"{k} {told[k]} instead of {v}" for k, v in asked.items() if k in told and _plain(told[k]) != _plain(v)]
    return f"the server says that it runs with {', '.join(wrong)}" if wrong else None


def _plain(value: Scalar) -> float | str:
    try:
        return str(value).lower() if isinstance(value, bool) else float(value)
    except (ValueError, OverflowError):
        return str(value).lower()


def _json(text: str) -> dict[str, Any]:
    try:
        page = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return page if isinstance(page, dict) else {}


def _chosen(page: Mapping[str, Any], names: Mapping[str, str]) -> Settings:
    return {key: page[name] for key, name in names.items() if isinstance(page.get(name), int)}
