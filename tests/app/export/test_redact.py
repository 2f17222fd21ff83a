"""What must not be posted is not in the page."""

import json

import pytest

from app.export.redact import redact, scrub

KEY = "sk-test-SECRET123"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {KEY}",
        "http://u:SECRET123@h:8000/v1",
        "GET /v1/models?api_key=SECRET123 failed",
        f'{{"error": "invalid key {KEY}"}}',
        "vllm serve m --api-key SECRET123 --port 8000",
        "vllm serve m --api-key=SECRET123",
        'api_key: "SECRET123"',
    ],
)
@pytest.mark.parametrize("include_private", [False, True])
def test_keys_go_always(text: str, include_private: bool) -> None:
    """A key is taken out of every text, wanted or not."""
    assert "SECRET123" not in scrub(text, include_private=include_private)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("connect to http://nas.local:8000/v1 refused", "connect to ‹url› refused"),
        ("192.168.1.20:8000 did not answer", "‹address› did not answer"),
        ("fe80::1ff:fe23:4567:890a is down", "‹address› is down"),
        ("lookup nas.fritz.box failed", "lookup ‹host› failed"),
        ("localhost:8080 refused", "‹host› refused"),
        ("llama-server -m /home/jo/models/x.gguf -np 4", "llama-server -m …/x.gguf -np 4"),
        ("open ~/models/x.gguf", "open …/x.gguf"),
        (r"C:\Users\jo\models\x.gguf", r"…\x.gguf"),
    ],
)
def test_places_go_unless_wanted(text: str, cleaned: str) -> None:
    """URLs, addresses, hosts and folders become marks; the file's own name stays."""
    assert scrub(text) == cleaned
    assert scrub(text, include_private=True) == text


@pytest.mark.parametrize(
    "text",
    [
        "--max-num-seqs 32 --max-num-batched-tokens 512",
        "meta-llama/Llama-3.1-8B-Instruct",
        "0.91 requests/s at 12:30:05",
        "vLLM 0.11.2, CUDA 12.8, driver 570.86.15",
        "NVIDIA GeForce RTX 3090 24 GB",
        "rtx3090/llama-3.1-8b/q4_k_m",
        "first token 1.2 s (p95) and 3/4 of them",
    ],
)
def test_hardware_versions_models_and_settings_stay(text: str) -> None:
    """What makes a result worth sharing is kept as it is."""
    assert scrub(text) == text


def test_private_fields_go_and_numbers_stay() -> None:
    """Fields about the host are dropped, and its name wherever else it stands."""
    result = {
        "backend": {"kind": "vllm", "url": "http://10.0.0.2:8000", "model": "m", "api_key_env": "LLM_API_KEY"},
        "environment": {"hostname": "attic", "gpu": "RTX 3090", "cpu": {"cores": 8}},
        "cells": [
            {"cell": 0, "log_tail": "…", "error_detail": "attic: out of memory", "engine": {"source": "metrics"}}
        ],
    }
    assert redact(result) == {
        "backend": {"kind": "vllm", "model": "m"},
        "environment": {"gpu": "RTX 3090", "cpu": {"cores": 8}},
        "cells": [{"cell": 0, "error_detail": "‹host›: out of memory", "engine": {"source": "metrics"}}],
    }


def test_a_version_of_four_numbers_is_no_address() -> None:
    """In a field that is a version, dotted numbers stay."""
    assert redact({"environment": {"driver_version": "31.0.15.36"}}) == {
        "environment": {"driver_version": "31.0.15.36"}
    }


def test_private_facts_are_kept_when_wanted() -> None:
    """With include_private only keys go."""
    result = {"backend": {"url": f"http://nas:8000/?api_key={KEY}"}, "environment": {"hostname": "nas"}}
    assert json.dumps(redact(result, include_private=True)) == json.dumps(
        {"backend": {"url": "http://nas:8000/?api_key=…"}, "environment": {"hostname": "nas"}}
    )
