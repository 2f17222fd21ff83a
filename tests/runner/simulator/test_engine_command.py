"""The engine as a process of its own, as the sweep runner starts it."""

import argparse
import signal
import subprocess
import sys
import urllib.request

import pytest

from runner.simulator.command import add_arguments, run
from tests.support.running_engine import engine_process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_and_ends_at_once(number: signal.Signals, code: int):
    """One ready line, then answers; on a signal it ends although a stream is open."""
    with engine_process("--max-num-seqs", "8", "--cost", "a=20,b=0.1", "--model", "mine") as (process, url, line):
        assert "model mine" in line
        assert "max_num_seqs 8" in line
        body = b'{"prompt": "a", "max_tokens": 50000, "ignore_eos": true, "stream": true}'
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body), timeout=20) as reply:
            assert reply.readline().startswith(b"data: ")
            process.send_signal(number)
            assert process.wait(30) == code  # of 1,000 s that the stream would take


def test_the_default_preset_is_named_an_estimate():
    """Without a cost model the engine is a 3090 with an 8B at Q4_K_M, and says that this is scaled."""
    with engine_process() as (_, _, line):
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
        (["--profile", "."], ".: cannot be read (Is a directory)"),
        (["--preset", ""], "preset '' is not known"),
        (["--cost", ""], "--cost: '' is not of the form"),
        (["--cost", "a=1e305,b=1"], "--cost.a must be a number of milliseconds from 0 to 1,000,000"),
        (["--host", "a..b"], "cannot listen on a..b:0"),
        (["--max-model-len", "200000"], "--max-model-len 200000 is more than the KV pool"),
        (["--scheduler", "orca", "--policy", "priority"], "policy priority belongs to vllm_v1"),
        (["--scheduler", "llama_cpp", "--kv-tokens", "1024"], "--max-num-seqs 256 leaves each slot 0 of the KV pool's"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(flags: list[str], says: str, capsys: pytest.CaptureFixture[str]):
    """Wrong flags: one line on stderr, nothing on stdout."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run(parser.parse_args(["--port", "0", *flags])) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("goodput engine: ")
    assert says in told.err
    assert told.err.count("\n") == 1


def test_the_process_ends_with_that_code():
    """What a shell sees of a mistake."""
    command = [sys.executable, "-m", "runner.simulator", "--port", "0", "--cost", "a=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("goodput engine: --cost.b is missing")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--max-num-seqs=1.5", "argument --max-num-seqs: '1.5' is not a whole number"),
        ("--port=http", "argument --port: 'http' is not a whole number"),
        ("--batch-wait-ms=soon", "argument --batch-wait-ms: 'soon' is not a number"),
        ("--batch-wait-ms=-1", "argument --batch-wait-ms: -1 is below 0"),
        ("--batch-wait-ms=inf", "argument --batch-wait-ms: inf is no time to wait"),
        ("--pcie-gb-per-s=0", "argument --pcie-gb-per-s: 0 is not a number above 0"),
    ],
)
def test_a_flag_that_takes_a_number_says_so(flag: str, says: str, capsys: pytest.CaptureFixture[str]):
    """What is wrong with the value, in words of people and not of the program."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([flag])
    assert says in capsys.readouterr().err
