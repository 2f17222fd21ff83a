"""Sweep configs for tests of engines: one class, one load level, the settings that the test is about."""

import sys
from pathlib import Path
from typing import Any

from runner.config import SweepConfig, parse_sweep
from tests.engines_support.llama import llama_command

SCRIPTED_SERVER = Path(__file__).with_name("scripted_server.py")


def scripted_command(*flags: str) -> list[str]:
    return [sys.executable, str(SCRIPTED_SERVER), "--port", "{port}", *flags]


def sweep(backend: dict[str, Any], grid: dict[str, list[Any]] | None = None, **control: Any) -> SweepConfig:  # noqa: ANN401
    raw = {
        "name": "engines",
        "backend": backend,
        "grid": {**(grid or {}), "request_rate": [1.0]},
        "classes": [{"name": "chat", "weight": 1, "prompt_tokens": 8, "output_tokens": 8}],
    }
    return parse_sweep(raw | ({"control": control} if control else {}), "test")


def scripted_sweep(port: int, *flags: str, grid: dict[str, list[Any]] | None = None, **control: Any) -> SweepConfig:  # noqa: ANN401
    backend = {"kind": "openai", "url": f"http://127.0.0.1:{port}"}
    return sweep(backend, grid, **{"mode": "process", "command": scripted_command(*flags), **control})


def llama_sweep(port: int, grid: dict[str, list[Any]], *flags: str) -> SweepConfig:
    command = llama_command("--metrics", "--port", "{port}", *flags)
    return sweep({"kind": "llama_cpp", "url": f"http://127.0.0.1:{port}/v1"}, grid, mode="process", command=command)
