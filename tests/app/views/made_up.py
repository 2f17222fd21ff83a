"""A made-up sweep for tests: NOT measured on anything. A crude iteration-level server answers seeded arrivals.

The shape is that of a real one: small batches queue, large token budgets stall running chats, one setting dies.
"""

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from runner.analysis.prepare import prepare
from runner.analysis.requests import request_table
from runner.analysis.result import build_result
from runner.config import SweepConfig
from storage.records import CellRecord, EngineSample, RequestRecord
from storage.tables import SweepTables
from tests.support.tables import make_cell, make_config, make_request, make_tables

WINDOW_S = 100
HOSTILE = "</script><img src=x onerror=alert(1)>"
CLASSES = [
    {"name": "chat", "weight": 0.8, "prompt_tokens": 300, "output_tokens": 60, "slo": {"ttft_ms": 1000, "gap_ms": 150}},
    {"name": "rag", "weight": 0.2, "prompt_tokens": 3000, "output_tokens": 40, "slo": {"ttft_ms": 3000, "gap_ms": 150}},
]


@lru_cache
def made_up_tables(
    seqs: tuple[int, ...] = (2, 8, 32, 256),
    budgets: tuple[int, ...] = (256, 2048),
    rates: tuple[float, ...] = (1.0, 2.0, 3.0, 5.0),
) -> SweepTables:
    """settings × rates cells of 100 s each; the first cell of the last setting failed with out_of_memory."""
    config = make_config(
        name="made-up test data: how many chats fit",
        grid={"max_num_seqs": list(seqs), "max_num_batched_tokens": list(budgets), "request_rate": list(rates)},
        classes=CLASSES,
        run={"duration_s": WINDOW_S, "warmup_s": 0, "drift_check": False},
    )
    cells: list[CellRecord] = []
    requests: list[RequestRecord] = []
    engine: list[EngineSample] = []
    for number, (most, budget, rate) in enumerate(itertools.product(seqs, budgets, rates)):
        setting = {"max_num_seqs": most, "max_num_batched_tokens": budget}
        start_line = f"vllm serve /models/made-up-8b --max-num-seqs {most} --max-num-batched-tokens {budget}"
        common: dict[str, Any] = {"setting": setting, "load": {"request_rate": rate}, "start_line": start_line}
        if (most, budget) == (seqs[-1], budgets[-1]) and len(seqs) > 1:
            cells.append(
                make_cell(
                    number,
                    **common,
                    status="failed",
                    error_kind="out_of_memory",
                    window_start_ns=None,
                    window_end_ns=None,
                    log_tail="CUDA out of memory on nas.local",
                )
            )
            continue
        cells.append(make_cell(number, **common))
        found, samples = _serve(number, most, budget, rate)
        requests += found
        engine += samples
    meta = {
        "backend": {"kind": "vllm", "url": "http://u:SECRET123@192.168.1.20:8000", "model": "made-up-8b"},
        "environment": {
            "hostname": "nas",
            "gpu": "made-up GPU 24 GB",
            "engine_version": "0.0-test",
            "cpu": {"model": "made-up CPU", "cores": 8},
        },
    }
    return make_tables(requests, engine, cells=cells, config=config, meta=meta)


def _serve(cell: int, most: int, budget: int, rate: float) -> tuple[list[RequestRecord], list[EngineSample]]:
    """ms per iteration = 12 + 0.12 a prefill token + 0.5 a sequence: a 24 GB card with an 8B model, roughly."""
    random = np.random.default_rng(7)
    n = int(rate * WINDOW_S)
    due = np.sort(random.uniform(0, WINDOW_S * 1000.0, n))
    rag = random.random(n) < 0.2
    prompt = np.where(rag, 3000, 300)
    left = np.where(rag, 40, random.integers(20, 100, n))
    done_prefill, stamps = np.zeros(n), [[] for _ in range(n)]
    running: list[int] = []
    queue, now, next_sample = 0, 0.0, 0.0
    samples: list[EngineSample] = []
    while queue < n or running:
        if not running and queue < n and due[queue] > now:
            now = float(due[queue])
        while queue < n and due[queue] <= now and len(running) < most:
            running.append(queue)
            queue += 1
        budget_left = budget - sum(done_prefill[r] >= prompt[r] for r in running)
        prefill = 0
        for r in running:
            chunk = min(prompt[r] - done_prefill[r], max(budget_left - prefill, 0))
            done_prefill[r] += chunk
            prefill += int(chunk)
        now += 12 + 0.12 * prefill + 0.5 * len(running)
        for r in running:
            if done_prefill[r] >= prompt[r]:
                stamps[r].append(now)
        if now >= next_sample:
            waiting = int(np.searchsorted(due, now)) - queue
            kv = min(1.0, sum(prompt[r] + len(stamps[r]) for r in running) / 90_000)
            samples.append(
                EngineSample(cell, int(now * 1e6), "metrics", 1.0, float(len(running)), float(waiting), kv, 0.0)
            )
            next_sample = now + 500
        running = [r for r in running if len(stamps[r]) < left[r]]
    records = []
    for r in range(n):
        name = "rag" if rag[r] else "chat"
        gaps = np.diff(stamps[r]).tolist()
        if r % 97 == 96:
            records.append(
                make_request(
                    r,
                    at_ms=due[r],
                    ttft_ms=None,
                    cell=cell,
                    class_name=name,
                    outcome="error",
                    error_kind="server_error",
                    output_tokens=None,
                )
            )
        else:
            records.append(
                make_request(r, at_ms=due[r], ttft_ms=stamps[r][0] - due[r], gaps_ms=gaps, cell=cell, class_name=name)
            )
    return records, samples


@lru_cache
def made_up_result() -> dict[str, Any]:
    """The result object of the made-up sweep, by the real analysis."""
    return build_result(made_up_tables())


@lru_cache
def made_up_requests() -> pd.DataFrame:
    """Analysis' request table of the made-up sweep."""
    tables = made_up_tables()
    return request_table(tables, SweepConfig.model_validate(tables.meta["config"]))


def windows() -> dict[int, float]:
    """Length of each cell's measured window in s."""
    return {int(c): float(WINDOW_S) for c in made_up_tables().cells["cell"]}


def crowds() -> dict[int, dict[str, float]]:
    """Of each cell how its requests' fates hang together, by class."""
    return {facts.cell: facts.crowds for facts in prepare(made_up_tables()).cells}
