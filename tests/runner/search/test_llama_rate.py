"""The largest load of a real llama.cpp server, searched from the command line's config to the sentence."""

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
from tests.engines_support.llama import llama_command, llama_installed

pytestmark = pytest.mark.llama
FLAGS = ("--metrics", "--no-cache-prompt", "-c", "4096", "-np", "{max_num_seqs}", "--port", "{port}")


@pytest.mark.skipif(
    not llama_installed() and not os.environ.get("CI"), reason="xllamacpp is not installed (make test installs it)"
)
def test_people_at_once_that_a_real_server_bears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slot for answers of 64 tokens: of many people at once most wait longer than the target of the first token.

    How many one slot bears depends on the machine; that the search ends, says so, and started its server once does not.
    """
    monkeypatch.setattr("runner.search.rate.MOST_PROBES", 5)
    port = free_port()
    chat = {"name": "chat", "weight": 1, "prompt_tokens": 24, "output_tokens": 64}
    config = parse_sweep(
        {
            "name": "people",
            "backend": {"kind": "llama_cpp", "url": f"http://127.0.0.1:{port}"},
            "control": {"mode": "process", "command": llama_command(*FLAGS), "ready_timeout_s": 60},
            "grid": {"max_num_seqs": [1], "max_concurrency": [8]},
            "run": {"duration_s": 1.0, "warmup_s": 0.2, "drain_s": 1.0, "find_rate": True, "share_target": 0.8},
            "classes": [{**chat, "slo": {"ttft_ms": 250, "gap_ms": 1000}}],
        },
        "test",
    )
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, config, "test")
    assert run_one(data, sweep_id, lambda _: None) == "done"
    folder = sweep_folder(data, sweep_id)
    result = build_result(read_sweep(folder))
    (told,) = result["max_rates"]
    assert told["axis"] == "max_concurrency"
    assert told["probes"] == len(result["cells"]) <= 5
    assert told["outcome"] in ("found", "wide", "ill_defined", "below", "above")
    assert told["load"] is None or 1 <= told["load"] <= 4096
    levels = [c["load"]["max_concurrency"] for c in result["cells"]]
    assert levels[0] == 8
    assert (folder / "engine.log").read_text().count("-np 1") == 1
    assert not port_is_taken("127.0.0.1", port)
