"""`goodput engine` with each scheduler, loaded with 64 requests by a sweep: what its /metrics says adds up."""

import asyncio
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.analysis.engine import concurrency
from runner.analysis.requests import floats
from runner.config import parse_sweep
from runner.queue import enqueue, sweep_folder
from runner.simulator.schedulers.by_name import SCHEDULERS
from runner.sweep import run_sweep
from storage.data_folder import open_data_folder
from storage.queries import read_sweep

REQUESTS, SEATS, BUDGET = 64, 8, 128
# slow, so that they wait although a busy machine sends them late
FLAGS = ["--max-num-seqs", str(SEATS), "--max-num-batched-tokens", str(BUDGET), "--cost", "a=40,b=0.01"]
# 24 blocks: eight answers of up to 5 blocks cannot all stay; orca and static set aside 128 tokens for each of three
KV_TOKENS = 384
OF_SCHEDULER = {
    "static": ["--max-model-len", "128", "--batch-wait-ms", "20", "--cost", "a=10,b=0.01"],
    "orca": ["--max-model-len", "128", "--cost", "a=10,b=0.01"],
    "distserve": ["--kv-tokens", "1024"],  # enough for all seats: who is sent back to its prompt would hold none
    "llama_cpp": ["--kv-tokens", "1024"],  # each slot has its own part, of 128 tokens
}
BUDGETED = ("vllm_v0", "vllm_v1", "sarathi", "llama_cpp")


@dataclass(frozen=True)
class Loaded:
    """One engine after its load: rows and samples that the sweep kept, and one more look at /metrics."""

    requests: pd.DataFrame
    samples: pd.DataFrame
    last: dict[str, float]  # by name; buckets as name le=bound

    def grown(self, counter: str, name: str) -> float:
        """Since the sweep's first look, which was before its first request."""
        return self.last[name] - float(self.samples[counter].iloc[0])


@contextmanager
def engine(scheduler: str) -> Iterator["subprocess.Popen[str]"]:
    """An engine on a free port; its first line on stderr tells the address."""
    more = ["--kv-tokens", str(KV_TOKENS), *OF_SCHEDULER.get(scheduler, [])]
    command = [sys.executable, "-m", "runner.simulator", "--port", "0", "--scheduler", scheduler, *FLAGS, *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"http://[\d.]+:\d+", line)
    assert found, line
    return found.group()


async def load(folder: Path, url: str) -> Path:
    """All requests at once, 0.3 s after the first look. The folder of the sweep, when all have their answers."""
    raw = {
        "name": "invariants",
        "backend": {"kind": "vllm", "url": url},
        "grid": {"jobs_max_in_flight": [REQUESTS]},
        "run": {"duration_s": 0.5, "warmup_s": 0.0, "drain_s": 30.0, "scrape_interval_s": 0.1},
        "classes": [
            {
                "name": "jobs",
                "dump": {"count": REQUESTS, "at_s": 0.3},
                "prompt_tokens": {"uniform": [8, 60]},
                "output_tokens": {"uniform": [2, 20]},
            }
        ],
    }
    data = open_data_folder(folder)
    sweep_id = enqueue(data, parse_sweep(raw, "test"), "test")
    assert await run_sweep(data, sweep_id, stop=asyncio.Event()) == "done"
    return sweep_folder(data, sweep_id)


async def load_all(top: Path, urls: dict[str, str]) -> list[Path]:
    return await asyncio.gather(*(load(top / name, url) for name, url in urls.items()))


def look(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as reply:
        families = list(text_string_to_metric_families(reply.read().decode()))
    return {
        s.name + (f" le={s.labels['le']}" if "le" in s.labels else ""): s.value for f in families for s in f.samples
    }


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    """All engines and all sweeps at once: nothing here depends on how fast they are."""
    top = tmp_path_factory.mktemp("invariants")
    out = {}
    with ExitStack() as started:
        engines = {name: started.enter_context(engine(name)) for name in SCHEDULERS}
        urls = {name: address_of(process) for name, process in engines.items()}
        for (name, url), folder in zip(urls.items(), asyncio.run(load_all(top, urls)), strict=True):
            tables = read_sweep(folder)
            out[name] = Loaded(tables.requests, tables.engine, look(url))
    return out


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_tokens_are_conserved(loaded: dict[str, Loaded], scheduler: str) -> None:
    """What the engine says it read and wrote is what 64 clients sent and got, to the token; then it is empty."""
    mine = loaded[scheduler]
    rows = mine.requests
    assert list(rows["outcome"]) == ["ok"] * REQUESTS
    assert list(rows["output_tokens"]) == list(rows["output_tokens_asked"])
    assert list(rows["token_events"]) == list(rows["output_tokens_asked"])
    assert set(mine.samples["source"]) == {"metrics"}
    assert mine.grown("prompt_tokens_total", "vllm:prompt_tokens_total") == rows["prompt_tokens"].sum()
    assert mine.grown("generation_tokens_total", "vllm:generation_tokens_total") == rows["output_tokens"].sum()
    left = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    assert [mine.last[name] for name in left] == [0, 0, 0]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_seats_and_kv_pool_are_never_exceeded(loaded: dict[str, Loaded], scheduler: str) -> None:
    """At every look, with requests waiting meanwhile: running <= limit, 0 <= KV <= 1."""
    samples = loaded[scheduler].samples
    assert float(samples["waiting"].max()) > 0
    assert float(samples["kv_cache_usage"].max()) > 0
    assert samples["kv_cache_usage"].between(0, 1).all()
    # distserve's prompts run on another instance and wait there with their KV: its seats are for answers
    if scheduler != "distserve":
        assert 0 < float(samples["running"].max()) <= SEATS


def test_no_more_answers_than_seats_decode_at_once_on_a_decode_instance(loaded: dict[str, Loaded]) -> None:
    """distserve: the first token comes from the prefill instance; from the second to the last one a seat is held."""
    rows = loaded["distserve"].requests
    first, deltas = floats(rows["first_chunk_ns"]), rows["chunk_deltas_us"]
    second = first + np.array([d[0] if len(d) else 0 for d in deltas]) * 1000.0
    last = first + np.array([d.sum() for d in deltas]) * 1000.0
    _, most = concurrency(second, last, 0.0, float(last.max()))
    assert 1 < most <= SEATS


@pytest.mark.parametrize("scheduler", BUDGETED)
def test_no_iteration_is_larger_than_the_budget(loaded: dict[str, Loaded], scheduler: str) -> None:
    """The engine's own histogram of tokens per iteration has nothing above max_num_batched_tokens."""
    last, name = loaded[scheduler].last, "vllm:iteration_tokens_total"
    assert last[f"{name}_count"] > 0
    assert last[f"{name}_bucket le={BUDGET}.0"] == last[f"{name}_count"]
    # every token that came out was computed in some iteration, and so was every prompt, some again after a preemption
    computed = loaded[scheduler].grown("iteration_tokens_total", f"{name}_sum")
    rows = loaded[scheduler].requests
    assert computed >= float((rows["prompt_tokens"] + rows["output_tokens"] - 1).sum())


@pytest.mark.parametrize("scheduler", ["vllm_v0", "vllm_v1", "sarathi"])
def test_the_pool_was_short_enough_to_matter(loaded: dict[str, Loaded], scheduler: str) -> None:
    """Some sequences were preempted and computed again, and still nobody got a token twice."""
    assert loaded[scheduler].last["vllm:num_preemptions_total"] > 0
