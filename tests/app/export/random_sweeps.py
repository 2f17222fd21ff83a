"""Random sweeps that ask every question of the choice. NOT measured on anything."""

import itertools
from functools import lru_cache
from typing import Any

import numpy as np

from runner.analysis.prepare import Prepared, prepare
from runner.analysis.result import score
from runner.config import Slo
from storage.records import CellRecord, ClientSample, RequestRecord
from tests.support.tables import SECOND, make_cell, make_config, make_request, make_tables

SETTINGS, RATES = (4, 1, 8, 16), (1.0, 1.5)
CLASSES = [
    {"name": "chat", "weight": 0.8, "prompt_tokens": 32, "output_tokens": 4, "slo": {"ttft_ms": 1000, "gap_ms": 150}},
    {"name": "rag", "weight": 0.2, "prompt_tokens": 32, "output_tokens": 4, "slo": {"ttft_ms": 3000, "gap_ms": 150}},
]
BATCH = {"name": "batch", "rate": 0.1, "prompt_tokens": 32, "output_tokens": 4}
TARGETS = (  # T1 of chat and rag, T2 of both, share wanted
    (400, 400, 100, 0.9), (800, 2000, 75, 0.9), (1000, 3000, 150, 0.95), (1500, 4000, 300, 0.9), (4000, 4000, 500, 0.9),
    (4000, 8000, 500, 0.99), (4000, 4000, 1500, 0.9), (8000, 8000, 3000, 0.9), (50, 50, 5, 0.9),
)  # fmt: skip


@lru_cache
def made(seed: int) -> Prepared:
    """Settings × rates × 1 or 2 repeats with random latencies; by the seed cells that are cold, saturated, late, or
    overloaded, background work, and settings so alike that the choice is a tie. NOT measured on anything."""
    random = np.random.default_rng(seed)
    repeats = 1 + seed % 2
    pace = {s: random.choice([0.5, 1.0, 1.02, 1.6]) for s in SETTINGS}
    cells: list[CellRecord] = []
    requests: list[RequestRecord] = []
    client: list[ClientSample] = []
    for number, (repeat, setting, rate) in enumerate(itertools.product(range(repeats), SETTINGS, RATES)):
        cells.append(make_cell(number, setting={"max_num_seqs": setting}, load={"request_rate": rate}, repeat=repeat))
        trouble = "all cold" if seed == 5 else random.choice(["", "", "", "", "cold", "busy", "late", "late", "over"])
        client += [ClientSample(number, s * SECOND, 500.0 if trouble == "busy" else 1.0, 0.1, 1) for s in range(100)]
        requests += _cell(number, repeat, rate, pace[setting], str(trouble), seed, random)
    config = make_config(
        grid={"max_num_seqs": list(SETTINGS), "request_rate": list(RATES)},
        classes=[*CLASSES, BATCH],
        run={"duration_s": 100, "warmup_s": 0, "repeats": repeats, "drift_check": False},
    )
    return prepare(make_tables(requests, client=client, cells=cells, config=config))


def _cell(
    number: int, repeat: int, rate: float, pace: float, trouble: str, seed: int, random: np.random.Generator
) -> list[RequestRecord]:
    same = np.random.default_rng([seed, repeat, round(rate * 10)])  # one trace in every setting
    n = round(100 * rate)
    due = np.sort(same.uniform(0, 99_000, n))
    hard = same.lognormal(0, 0.8, n)
    out = []
    for i in range(n):
        ttft = float(300 * pace * rate * hard[i] * random.lognormal(0, 0.1)) + (i * 900 if trouble == "over" else 0)
        gap = float(40 * pace * hard[i])
        name = "batch" if i % 10 == 9 else "rag" if i % 2 else "chat"
        common: dict[str, Any] = {"at_ms": due[i], "cell": number, "class_name": name}
        common |= {"load_ms": 3000.0} if "cold" in trouble else {}
        common |= {"sent_ns": round(due[i] * 1e6) + 25_000_000} if trouble == "late" else {}
        if i % 48 == 47:
            kind = {"outcome": "error", "error_kind": "server_error"} if i < 48 else {"outcome": "cancelled"}
            out.append(make_request(i, ttft_ms=None, output_tokens=None, **kind, **common))
        else:
            out.append(make_request(i, ttft_ms=ttft, gaps_ms=[gap, gap, 3 * gap], **common))
    return out


@lru_cache
def scored(seed: int, at: int) -> tuple[dict[str, Slo], float, dict[str, Any]]:
    """Targets, share wanted, and the analysis' result for them."""
    chat_ms, rag_ms, gap_ms, alpha = TARGETS[at]
    targets = {"chat": Slo(ttft_ms=chat_ms, gap_ms=gap_ms), "rag": Slo(ttft_ms=rag_ms, gap_ms=gap_ms)}
    return targets, alpha, score(made(seed), targets=targets, share_target=alpha)
