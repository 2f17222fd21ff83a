"""A cold model: its load is told beside the numbers and never inside them, whatever the dialect says about it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from app.views.cells import asides
from runner.analysis.result import build_result
from runner.cold_start import cold_start_note, first_token_ms
from runner.config import parse_sweep
from runner.engines.address import free_port
from runner.protocols.dialects import DIALECTS
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.small_sweeps import quick_raw
from tests.support.tables import make_cell, make_request, make_tables

COLD_S = 2.0
COLD_PROMPT_TOKENS = 7777  # how the server marks who waited
COLD_SERVER = Path(__file__).parents[1] / "engines_support" / "cold_server.py"


@pytest.mark.parametrize(
    ("load_ms", "first_ms", "warm_ms", "says"),
    [
        (6200.0, 6400.0, 80.0, "loaded the model in 6.2 s"),
        (20.0, 90.0, 80.0, None),
        (None, 6400.0, 80.0, "waited 6.4 s for its first token and the next ones 0.1 s"),
        (None, 1050.0, 80.0, None),  # a slow second, not a load
        (None, 6400.0, 3000.0, None),  # a slow server
        (None, None, 80.0, None),
        (None, 6400.0, None, None),
    ],
)
def test_a_cold_start_is_told_by_the_server_or_by_its_first_tokens(
    load_ms: float | None, first_ms: float | None, warm_ms: float | None, says: str | None
) -> None:
    """The server's own word first; else a first token over a second later than the next ones and five times as late."""
    note = cold_start_note(load_ms, first_ms, warm_ms)
    assert note is None if says is None else says in str(note)


def test_first_token_counts_from_sending() -> None:
    """Whatever was scheduled; none without a token."""
    assert first_token_ms(make_request(at_ms=500, ttft_ms=250)) == 250
    assert first_token_ms(make_request(ttft_ms=None)) is None


@pytest.mark.parametrize("api", ["ollama_chat", "ollama_generate"])
def test_both_ollama_dialects_tell_the_load(api: str) -> None:
    """load_duration, in ns beside the counts of the last line, is the load of that request."""
    text: dict[str, Any] = {"message": {"content": "hi"}} if api == "ollama_chat" else {"response": "hi"}
    last = {**text, "done": True, "done_reason": "stop", "eval_count": 1, "load_duration": 6_100_000_000}
    lines = [(at, json.dumps(line).encode() + b"\n") for at, line in enumerate([{**text, "done": False}, last])]
    assert DIALECTS[api].read_stream(lines, content_type=None, clean_end=True).load_ms == 6100.0


def test_one_cold_answer_in_many_is_said_although_it_is_no_reason_for_doubt() -> None:
    """1 of 60: no percentile has it, the cell is valid, and a sentence tells of it; in the warm-up only the load is
    told."""
    records = [make_request(i, at_ms=1000 * i) for i in range(60)]
    cold = make_request(60, at_ms=61_000, ttft_ms=6200, load_ms=6100.0)
    cell = build_result(make_tables([*records, cold]))["cells"][0]
    assert (cell["completed"], cell["ttft_ms"]["n"], cell["ttft_ms"]["p95"]) == (61, 60, None)
    assert (cell["cold_loads"], cell["cold_load_max_ms"], cell["met"]) == (1, 6100.0, 60)
    assert "cold_load" not in cell["flags"]
    assert asides(cell) == [
        "1 answer waited 6.10\u00a0s for the model to be loaded: its promise counts, its times are left out."
    ]
    early = make_cell(window_start_ns=62_000_000_000)
    warmed = build_result(make_tables([*records, cold, make_request(61, at_ms=70_000)], cells=[early]))["cells"][0]
    assert (warmed["cold_loads"], warmed["ttft_ms"]["n"]) == (0, 1)
    assert asides(warmed) == ["The model was loaded during the warm-up, in 6.10\u00a0s."]


def test_the_first_request_after_each_start_is_in_no_figure(tmp_path: Path) -> None:
    """An OpenAI-like server of which two settings are measured loads its model in 2 s at the first request after each
    start and says nothing of it: no request of either cell is the one that waited, and each notes what was paid."""
    port = free_port()
    raw = quick_raw(
        backend={"kind": "openai", "url": f"http://127.0.0.1:{port}"},
        control={
            "mode": "process",
            "command": [sys.executable, str(COLD_SERVER), "{port}", str(COLD_S), "{max_num_seqs}"],
        },
        grid={"max_num_seqs": [2, 8], "request_rate": [20.0]},
        run={"duration_s": 0.5, "warmup_s": 0.1, "drain_s": 2.0},
    )
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, parse_sweep(raw, "test"), "test")
    run_one(data, sweep_id, lambda _: None)
    tables = read_sweep(sweep_folder(data, sweep_id))
    assert len(tables.requests) > 10
    assert COLD_PROMPT_TOKENS not in set(tables.requests["prompt_tokens"])
    for cell in build_result(tables)["cells"]:
        assert (cell["status"], cell["failed"]) == ("ok", 0), cell["error_detail"]
        assert [note for note in asides(cell) if re.search(r"the first request waited \d+\.\d s", note)] != []
