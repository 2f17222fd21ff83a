"""A sweep whose settings could not be applied is refused before anything is measured."""

import sys
from pathlib import Path
from typing import Any

import pytest

from app.named_server import check_named_server
from runner.engines.check import check_control
from runner.errors import ConfigError
from runner.protocols.dialects import DIALECTS, endpoint
from tests.engines_support.sweeps import sweep

LLAMA = {"kind": "llama_cpp", "url": "http://127.0.0.1:8080/v1"}
COMMAND = [sys.executable, "-np", "{max_num_seqs}", "--port", "{port}"]


def test_a_right_command_passes() -> None:
    """Executable found, every grid key used, the port told once."""
    check_control(sweep(LLAMA, {"max_num_seqs": [1, 4]}, mode="process", command=COMMAND))


def test_a_key_may_be_used_in_the_environment_instead() -> None:
    """Ollama is set by variables, so a placeholder there counts."""
    env = {"OLLAMA_NUM_PARALLEL": "{max_num_seqs}"}
    check_control(sweep(LLAMA, {"max_num_seqs": [1, 4]}, mode="process", command=[sys.executable], env=env))


def test_a_hook_may_read_its_setting_from_the_environment() -> None:
    """Every key is told as GOODPUT_<KEY>, so a hook without placeholders passes; by hand nothing is run at all."""
    hooks = {"command": [sys.executable], "ready_command": [sys.executable, "{port}"], "stop_command": [sys.executable]}
    check_control(sweep(LLAMA, {"max_num_seqs": [1, 4]}, mode="command", **hooks))
    check_control(sweep(LLAMA, {"max_num_seqs": [1, 4]}, mode="manual"))


@pytest.mark.parametrize("name", ["command", "ready_command", "stop_command"])
def test_a_hook_that_cannot_be_run_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    """Not there, not executable, or a folder: told before anything is stopped or started."""
    script = tmp_path / "hook.sh"
    script.write_text("#!/bin/sh\n")
    for program, words in (
        ("no-such-hook", "no-such-hook is not found on this machine"),
        (str(script), "may not be executed; allow it with chmod"),
        (str(tmp_path), "is a folder"),
    ):
        hooks = {"command": [sys.executable], name: [program]}
        with pytest.raises(ConfigError, match=rf"control\.{name}: .*{words}"):
            check_control(sweep(LLAMA, {"max_num_seqs": [1]}, mode="command", **hooks))


@pytest.mark.parametrize(
    ("control", "grid", "sentence"),
    [
        ({"command": [sys.executable, "{threads}"]}, {"max_num_seqs": [1]}, r"\{threads\} has no value"),
        ({"command": [sys.executable]}, {"port": [1, 2]}, "GOODPUT_PORT means something else"),
        ({"command": [sys.executable], "env": {"A": "${NO_SUCH_NAME}"}}, {"n": [1]}, "no such variable is set"),
    ],
)
def test_hooks_that_could_not_be_filled_are_refused(
    control: dict[str, Any], grid: dict[str, list[int]], sentence: str
) -> None:
    """A placeholder without value, a key that hides one of our names, a variable that is not set."""
    with pytest.raises(ConfigError, match=sentence):
        check_control(sweep(LLAMA, grid, mode="command", **control))


def test_a_hook_of_another_mode_is_refused() -> None:
    """A stop_command that is never run must not look as if it were."""
    control = {"mode": "process", "command": [*COMMAND], "stop_command": [sys.executable]}
    with pytest.raises(ConfigError, match=r"control\.stop_command would change nothing"):
        check_control(sweep(LLAMA, {"max_num_seqs": [1]}, **control))


@pytest.mark.parametrize(
    ("command", "grid", "sentence"),
    [
        (COMMAND, {"max_num_seqs": [1], "max_num_batched_tokens": [64]}, "max_num_batched_tokens would change nothing"),
        ([*COMMAND, "{threads}"], {"max_num_seqs": [1]}, r"\{threads\} has no value"),
        (["no-such-engine", "{max_num_seqs}"], {"max_num_seqs": [1]}, "no-such-engine is not found on this machine"),
        ([sys.executable, "--port", "9999"], {}, "says --port 9999, but backend.url says 8080"),
        ([sys.executable, "--port=9999"], {}, "says --port 9999"),
    ],
)
def test_a_command_that_cannot_work_is_refused(command: list[str], grid: dict[str, list[int]], sentence: str) -> None:
    """Unused key, unknown placeholder, missing program, wrong port: one sentence each."""
    with pytest.raises(ConfigError, match=sentence):
        check_control(sweep(LLAMA, grid, mode="process", command=command))


def test_a_program_that_only_one_setting_names_is_looked_for() -> None:
    """Each setting's own command is checked, so the tenth cell does not fail for a typo."""
    config = sweep(LLAMA, {"build": [sys.executable, "no-such-engine"]}, mode="process", command=["{build}"])
    with pytest.raises(ConfigError, match="no-such-engine is not found"):
        check_control(config)


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1", "http://127.0.0.1:port", "127.0.0.1:99999", "http://[bad", "http://box:0", "http://"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """A mistyped URL is a config mistake, not a failed cell."""
    with pytest.raises(ConfigError, match=r"backend\.url .* is not a web address"):
        check_control(sweep({"kind": "openai", "url": url}))


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("nas:8000", "http://nas:8000"),
        ("nas:8000/v1", "http://nas:8000/v1"),
        (" 192.168.1.20:8080 ", "http://192.168.1.20:8080"),
        ("[::1]:8080/v1/", "http://[::1]:8080/v1/"),
        ("localhost", "http://localhost"),
        ("HTTPS://nas/proxy/v1", "HTTPS://nas/proxy/v1"),
        ("nas:8000/to?at=http://x", "http://nas:8000/to?at=http://x"),
    ],
)
def test_an_address_is_taken_as_a_probe_takes_it(typed: str, kept: str) -> None:
    """Of a server and of its metrics: without a scheme it is plain HTTP, and the sweep keeps the full URL."""
    check_named_server(typed, None, None)
    config = sweep({"kind": "openai", "url": typed, "metrics_url": typed})
    check_control(config)
    assert (config.backend.url, config.backend.metrics_url) == (kept, kept)
    for api in DIALECTS:
        assert endpoint(typed, api) == endpoint(kept, api)


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({"threads": [1, 2]}, "unrecognized arguments: --threads 1"),
        ({"policy": ["fcfs", "fastest"]}, "fastest"),
        ({"scheduler": ["static"], "policy": ["priority"]}, "policy priority belongs to vllm_v1"),
        ({"scheduler": ["llama_cpp"], "max_num_seqs": [100_000]}, "leaves each slot 0 of the KV pool"),
        ({"batch_wait_ms": [-1]}, "-1 is below 0"),
        ({"kv_link_gbit_per_s": [0]}, "0 is not a number above 0"),
        ({"preset": ["rtx3090/llama-3.1-8b/q4_k_m", "abacus/llama"]}, "abacus"),
        ({"scheduler": ["vllm_v1", "magic"]}, "magic"),
        ({"kv_tokens": [4096, 1]}, "at least 16"),
        ({"profile": ["no-such-file.toml"]}, r"no-such-file\.toml: no such file"),
    ],
)
def test_settings_of_the_built_in_engine_are_read_as_it_will_read_them(
    grid: dict[str, list[str]], sentence: str
) -> None:
    """An unknown key, policy, preset, scheduler or profile, or a KV pool below one block, is refused up front."""
    with pytest.raises(ConfigError, match=sentence):
        check_control(sweep({"kind": "simulated"}, grid))


def test_the_built_in_engine_takes_its_settings() -> None:
    """The keys that the sweep file promises pass."""
    check_control(
        sweep({"kind": "simulated", "kv_tokens": 4096}, {"max_num_seqs": [1, 8], "max_num_batched_tokens": [64]})
    )


def test_a_grid_is_refused_only_when_no_setting_of_it_would_start() -> None:
    """vLLM wants a budget of at least its seats: one pair that has less is a failed cell, a grid of such is a config
    error."""
    vllm = {"kind": "vllm", "url": "http://127.0.0.1:8000"}
    check_control(sweep(vllm, {"max_num_seqs": [16, 64], "max_num_batched_tokens": [32, 512]}, mode="manual"))
    with pytest.raises(ConfigError, match="max_num_batched_tokens = 16 below max_num_seqs = 64"):
        check_control(sweep(vllm, {"max_num_seqs": [64], "max_num_batched_tokens": [16, 32]}, mode="manual"))
