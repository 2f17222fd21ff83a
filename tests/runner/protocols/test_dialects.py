"""Addresses and request bodies of the dialects."""

import json
from typing import Any

import pytest

from runner.protocols.dialects import DIALECTS, endpoint, says_done
from runner.protocols.facts import Ask, ServerParams

BARE = ServerParams(ignore_eos=False, min_tokens=False, stream_options=False)


@pytest.mark.parametrize(
    ("base_url", "api", "url"),
    [
        ("http://h:8000", "openai_chat", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/", "openai_chat", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1", "openai_chat", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/", "openai_completions", "http://h:8000/v1/completions"),
        ("http://h:8000/v1/chat/completions", "openai_chat", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/chat/completions", "openai_completions", "http://h:8000/v1/completions"),
        ("http://h:8000/v1/models", "openai_chat", "http://h:8000/v1/chat/completions"),
        ("https://h/llm/v1", "openai_chat", "https://h/llm/v1/chat/completions"),
        ("http://h/A01", "openai_chat", "http://h/A01/v1/chat/completions"),
        ("http://h/v1beta/", "openai_chat", "http://h/v1beta/chat/completions"),
        ("h:8000", "openai_chat", "http://h:8000/v1/chat/completions"),
        (" http://h:11434 ", "ollama_chat", "http://h:11434/api/chat"),
        ("http://h:11434/v1", "ollama_chat", "http://h:11434/api/chat"),
        ("http://h:11434/api/", "ollama_generate", "http://h:11434/api/generate"),
        ("http://h:11434/api/chat", "ollama_generate", "http://h:11434/api/generate"),
        ("http://h:8080/v1", "llamacpp_completion", "http://h:8080/completion"),
        ("http://h:8080/completion", "openai_chat", "http://h:8080/v1/chat/completions"),
        ("http://h:3000", "tgi_generate_stream", "http://h:3000/generate_stream"),
        ("http://h:3000/generate_stream", "tgi_generate_stream", "http://h:3000/generate_stream"),
        ("http://[::1]:8000/v1?x=1", "openai_chat", "http://[::1]:8000/v1/chat/completions?x=1"),
    ],
)
def test_a_base_url_may_be_what_users_have_at_hand(base_url: str, api: str, url: str) -> None:
    """With or without /v1, slash, scheme or the endpoint itself."""
    assert endpoint(base_url, api) == url


@pytest.mark.parametrize(
    ("tail", "done"),
    [
        (b'data: {"a":1}\n\ndata: [DONE]\n\n', True),
        (b"\r\ndata:[DONE]\r\n", True),
        (b"data: [DONE]", True),
        (b'{"content":"data: [DONE]"}', False),
        (b'{"content":"\\ndata: [DONE]\\n"}', False),
        (b"data: [DON", False),
    ],
)
def test_the_end_line_is_told_from_generated_text(tail: bytes, done: bool) -> None:
    """Generated text holds no raw line ends, so it cannot end its own stream."""
    assert says_done(tail) is done


def body(api: str, ask: Ask, params: ServerParams) -> dict[str, Any]:
    built = DIALECTS[api].build_body(ask, params)
    assert json.loads(json.dumps(built)) == built
    return built


def test_the_chat_body_asks_for_an_exact_length_and_usage() -> None:
    """The optional fields are there because this server takes them."""
    assert body("openai_chat", Ask("hi", "m", 7), ServerParams()) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
        "min_tokens": 7,
    }


def test_a_bare_server_gets_no_optional_field() -> None:
    """Strict servers refuse what they do not know."""
    assert body("openai_completions", Ask("hi", None, 7, priority=3), BARE) == {
        "prompt": "hi",
        "max_tokens": 7,
        "stream": True,
    }


def test_max_completion_tokens_is_only_for_chat() -> None:
    """Text completions have always had `max_tokens` alone."""
    params = ServerParams(max_tokens_name="max_completion_tokens")
    assert body("openai_chat", Ask("hi", "m", 7), params)["max_completion_tokens"] == 7
    assert "max_tokens" not in body("openai_chat", Ask("hi", "m", 7), params)
    assert body("openai_completions", Ask("hi", "m", 7), params)["max_tokens"] == 7


def test_priority_cache_seed_and_temperature_are_sent_when_asked_for() -> None:
    """A zero is a value, not a missing one."""
    ask = Ask("hi", "m", 7, priority=0, seed=0, temperature=0.0, hold_length=False)
    sent = body("openai_chat", ask, ServerParams(priority=True, cache_prompt=True))
    assert (sent["priority"], sent["seed"], sent["temperature"], sent["cache_prompt"]) == (0, 0, 0.0, False)
    assert "ignore_eos" not in sent
    assert "min_tokens" not in sent


def test_ollama_keeps_the_model_loaded_and_puts_sampling_into_options() -> None:
    """An unloaded model would be paid for by the next request."""
    sent = body("ollama_chat", Ask("hi", "m", 7, seed=1), ServerParams())
    assert sent["options"] == {"num_predict": 7, "seed": 1}
    assert sent["keep_alive"] == "1h"
    assert body("ollama_generate", Ask("hi", "m", 7), BARE)["prompt"] == "hi"


def test_the_native_dialects_have_their_own_names() -> None:
    """`n_predict` and `max_new_tokens`."""
    ask = Ask("hi", "m", 7, seed=1, temperature=0.0)
    llamacpp = body("llamacpp_completion", ask, ServerParams(cache_prompt=True))
    assert llamacpp == {
        "prompt": "hi",
        "n_predict": 7,
        "stream": True,
        "ignore_eos": True,
        "cache_prompt": False,
        "seed": 1,
        "temperature": 0.0,
    }
    assert body("tgi_generate_stream", ask, BARE) == {
        "inputs": "hi",
        "parameters": {"max_new_tokens": 7, "details": True, "seed": 1},
    }
