"""A real llama.cpp server, started, set, watched and stopped by a sweep: latencies move as queueing says."""

import os
from pathlib import Path

import pytest

from runner.analysis.result import build_result
from runner.config import parse_sweep
from runner.engines.address import free_port, port_is_taken
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.engines_support.llama import llama_command, llama_installed, random_gguf
from tests.engines_support.make_gguf import Size

pytestmark = pytest.mark.llama
FLAGS = ("--metrics", "--no-cache-prompt", "-c", "8192", "-np", "{max_num_seqs}", "--port", "{port}")
BIGGER = Size(hidden=256, layers=8, ffn=1024)  # slow enough for eight clients to wait for each other


@pytest.mark.skipif(
    not llama_installed() and not os.environ.get("CI"), reason="xllamacpp is not installed (make test installs it)"
)
def test_slots_trade_the_first_token_against_the_gap(tmp_path: Path) -> None:
    """Eight clients on one slot queue for their first token; on eight slots they share the machine token by token.

    engines.md measured TTFT p50 2.5-2.9 times as long with one slot, and gap p50 4.9-7 times as long with eight.
    """
    port = free_port()
    config = parse_sweep(
        {
            "name": "slots",
            "backend": {"kind": "llama_cpp", "url": f"http://127.0.0.1:{port}"},
            "control": {
                "mode": "process",
                "command": llama_command(*FLAGS, model=random_gguf(BIGGER)),
                "ready_timeout_s": 60,
            },
            "grid": {"max_num_seqs": [1, 8], "max_concurrency": [8]},
            "run": {"duration_s": 5, "warmup_s": 1, "drain_s": 10},
            "classes": [
                {
                    "name": "chat",
                    "weight": 1,
                    "prompt_tokens": 60,
                    "output_tokens": 24,
                    "slo": {"ttft_ms": 5000, "gap_ms": 1000},
                }
            ],
        },
        "test",
    )
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, config, "test")
    run_one(data, sweep_id, lambda _: None)
    folder = sweep_folder(data, sweep_id)
    one, eight = build_result(read_sweep(folder))["cells"]
    assert (one["status"], eight["status"]) == ("ok", "ok"), (one["error_detail"], eight["error_detail"])
    assert one["failed"] == eight["failed"] == 0
    assert one["engine"]["running_max"] == 1
    assert one["engine"]["waiting_max"] >= 4
    assert 4 <= eight["engine"]["running_max"] <= 8
    assert eight["engine"]["batch_seqs_mean"] > 2 * one["engine"]["batch_seqs_mean"]
    assert one["ttft_ms"]["p50"] > 1.5 * eight["ttft_ms"]["p50"]
    assert eight["gap_ms"]["p50"] > 1.5 * one["gap_ms"]["p50"]
    assert "-np 8" in eight["start_line"]
    assert "-np 1" in (folder / "engine.log").read_text()
    assert not port_is_taken("127.0.0.1", port)
