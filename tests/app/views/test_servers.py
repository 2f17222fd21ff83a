"""Servers that were found, as a table in a terminal."""

from typing import Any

from app.views.servers import models_text, printable, servers_text

ROW: dict[str, Any] = {
    "kind": "vllm",
    "title": "vLLM",
    "url": "http://127.0.0.1:8000",
    "version": "0.32.0",
    "models": ["tiny"],
    "api": "openai_chat",
    "metrics": True,
    "metrics_hint": None,
    "needs_key": False,
    "notes": [],
}


def test_columns_are_aligned_and_notes_stand_below() -> None:
    """One line a server; what is missing is said below it."""
    other = {**ROW, "title": "llama.cpp", "version": None, "models": [], "metrics": False, "needs_key": True,
             "metrics_hint": "start it with --metrics", "notes": ["4 slots"]}  # fmt: skip
    assert servers_text([ROW, other]) == (
        "server     version  url                    api          models  metrics  key\n"
        "vLLM       0.32.0   http://127.0.0.1:8000  openai_chat  tiny    yes      -\n"
        "llama.cpp  -        http://127.0.0.1:8000  openai_chat  -       off      wanted\n"
        "    4 slots\n"
        "    start it with --metrics"
    )


def test_many_models_are_counted() -> None:
    """Three names and how many more."""
    assert models_text(["a", "b", "c", "d", "e"]) == "a, b, c +2"
    assert models_text(["a"]) == "a"


def test_a_server_cannot_steer_the_terminal() -> None:
    """Escape sequences in a model's name are shown as what they are: nothing printable."""
    assert printable("a\x1b[31mb") == "a\ufffd[31mb"
    assert "\x1b" not in servers_text([{**ROW, "models": ["\x1b]0;x\x07"], "version": "\x1b[1m"}])
