"""Secrets in texts that are kept."""

import pytest

from runner.protocols.scrub import scrub


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRET123",
        "authorization: basic SECRET123",
        '{"Authorization": "Bearer SECRET123"}',
        "http://u:SECRET123@host:8000/v1",
        "http://SECRET123@host",
        "GET /v1/models?api_key=SECRET123&a=1",
        "GET /v1/models?key=SECRET123",
        "vllm serve m --api-key SECRET123 --port 1",
        "llama-server --api-key=SECRET123",
        '"x-api-key": "SECRET123"',
        "Incorrect API key provided: SECRET123.",
        "sk-test-SECRET123",
        "token hf_SECRET123abc",
        "access_token=SECRET123",
        "password: SECRET123",
    ],
)
def test_a_secret_is_hidden_wherever_it_stands(text: str) -> None:
    """Headers, URLs, commands, messages."""
    assert "SECRET123" not in scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "The model `nope` does not exist.",
        "max_tokens=100000 cannot be greater than max_model_len=1024",
        "task-force-alpha, disk-usage-high",
        "http://127.0.0.1:8000/v1/chat/completions",
        "mail admin@example.org",
        "unexpected token at column 5",
    ],
)
def test_plain_words_stay(text: str) -> None:
    """What helps to mend a fault is not hidden."""
    assert scrub(text) == text


def test_known_secrets_are_hidden_without_any_look() -> None:
    """The caller knows the key it sent; an empty one hides nothing."""
    assert scrub("what is hunter2 here", ["", "hunter2"]) == "what is *** here"
