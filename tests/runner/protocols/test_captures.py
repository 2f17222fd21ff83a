"""Bodies of real servers, read by their dialects."""

from pathlib import Path
from typing import Any

import pytest

from runner.protocols.dialects import DIALECTS
from runner.protocols.facts import StreamFacts

STREAMS = Path(__file__).parents[2] / "fixtures" / "streams"


def read(name: str, api: str) -> StreamFacts:
    data = (STREAMS / f"{name}.txt").read_bytes()
    return DIALECTS[api].read_stream([(1, data)], content_type=None, clean_end=True)


@pytest.mark.parametrize(
    ("name", "api", "facts"),
    [
        (
            "llamacpp_chat_usage",
            "openai_chat",
            {"text": "Hello, welcome to my little", "output_tokens": 6, "prompt_tokens": 36, "cached_prompt_tokens": 0},
        ),
        (
            "llamacpp_chat_timings_only",
            "openai_chat",
            {
                "output_tokens": 4,
                "output_tokens_source": "timings",
                "prompt_tokens": 36,  # 35 from the cache and 1 computed
                "cached_prompt_tokens": 35,
            },
        ),
        ("llamacpp_chat_ping", "openai_chat", {"text": "n0", "output_tokens": 2, "prompt_tokens": 720}),
        ("llamacpp_chat_no_text", "openai_chat", {"text": "", "error_kind": "empty_stream", "finish_reason": "stop"}),
        (
            "llamacpp_chat_not_streamed",
            "openai_chat",
            {"text": "Hello, welcome to my little", "output_tokens": 6, "saw_terminator": False},
        ),
        (
            "llamacpp_completions_usage",
            "openai_completions",
            {"text": " Paris.\n\nThe United", "output_tokens": 6, "prompt_tokens": 5, "finish_reason": "length"},
        ),
        (
            "llamacpp_native",
            "llamacpp_completion",
            {"text": " Paris.\n\n", "output_tokens": 4, "prompt_tokens": 5, "cached_prompt_tokens": 4},
        ),
        (
            "llamacpp_kv_exhausted",
            "openai_completions",
            {"text": " 1000", "error_kind": "context_overflow", "error_detail": "Context size has been exceeded."},
        ),
        ("vllm_chat_running_usage", "openai_chat", {"text": "yyy", "output_tokens": 3, "prompt_tokens": 5}),
        (
            "vllm_chat_keepalive_interval4",
            "openai_chat",
            {"text": "I'm glad to meet you. I'm here to help", "output_tokens": 12, "shared_stamps": 3},
        ),
        ("vllm_completions_usage", "openai_completions", {"output_tokens": 6, "finish_reason": "length"}),
        (
            "vllm_engine_death",
            "openai_completions",
            {"error_kind": "server_error", "output_tokens": 3, "saw_terminator": True},
        ),
        ("vllm_queue_full", "openai_completions", {"error_kind": "overloaded", "text": "", "output_tokens": None}),
        ("transformers_chat", "openai_chat", {"text": "yyyy", "output_tokens": 4, "saw_terminator": False}),
        ("transformers_completions", "openai_completions", {"text": "ientyientsweep", "output_tokens": 4}),
        ("transformers_truncated_prompt", "openai_completions", {"text": "chch", "prompt_tokens": 6002}),
    ],
)
def test_a_real_answer_gives_its_facts(name: str, api: str, facts: dict[str, Any]) -> None:
    """What the server wrote is what is told; unless said otherwise it is no error and all of it can be read."""
    found = read(name, api)
    for key, value in ({"error_kind": None, "malformed_events": 0} | facts).items():
        assert getattr(found, key) == value, key
