"""The engine as a process of its own, as the sweep runner starts it."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def engine(*flags: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A running engine on a free port: (process, base URL, ready line)."""
    command = [sys.executable, "-m", "runner.simulator", "--port", "0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            url = re.search(r"http://[\d.]+:\d+", line)
            assert url, line
            yield process, url.group(), line
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_and_ends_at_once(number: signal.Signals, code: int):
    """One ready line, then answers; on a signal it ends although a stream is open."""
    with engine("--max-num-seqs", "8", "--cost", "a=20,b=0.1", "--model", "mine") as (process, url, line):
        assert "model mine" in line
        assert "max_num_seqs 8" in line
        body = b'{"prompt": "a", "max_tokens": 50000, "ignore_eos": true, "stream": true}'
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body), timeout=20) as reply:
            assert reply.readline().startswith(b"data: ")
            began = time.monotonic()
            process.send_signal(number)
            assert process.wait(10) == code
            assert time.monotonic() - began < 5


def test_the_default_preset_is_named_an_estimate():
    """Without a cost model the engine is a 3090 with an 8B at Q4_K_M, and says that this is scaled."""
    with engine() as (_, _, line):
        assert "model llama-3.1-8b" in line
        assert "estimate" in line
        assert "RTX 3090" in line


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--scheduler", "fifo"], "scheduler 'fifo' is not known; choose one of static, orca"),
        (["--preset", "rtx3090/llama"], "preset 'rtx3090/llama' is not known; near ones are rtx3090/"),
        (["--cost", "a=1"], "--cost.b is missing"),
        (["--kv-tokens", "8"], "--kv-tokens must be at least 16"),
        (["--profile", "nothing.toml"], "nothing.toml: no such file"),
        (["--max-model-len", "200000"], "--max-model-len 200000 is more than the KV pool"),
        (["--scheduler", "orca", "--policy", "priority"], "policy priority belongs to vllm_v1"),
        (["--scheduler", "llama_cpp", "--kv-tokens", "1024"], "--max-num-seqs 256 leaves each slot 0 of the KV pool's"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(flags: list[str], says: str):
    """Wrong flags: no traceback, nothing on stdout."""
    command = [sys.executable, "-m", "runner.simulator", "--port", "0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("goodput engine: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
