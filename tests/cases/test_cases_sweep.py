"""One whole sweep against an awkward server: no metrics, a refused field name, a context that is too small for some
requests, errors that echo the key."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from app.data import load_prepared
from app.export.shared_page import render_page
from app.export_command import Source, cleaner, json_export, tables_of
from runner.analysis.result import build_result
from runner.config import SweepConfig, parse_sweep
from runner.errors import ConfigError
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from storage.side_files import read_state, status_of
from tests.cases.load_cases import load_cases, load_stream_cases
from tests.support.posting_server import Json, Reply, chat_answer, models, server
from tests.support.small_sweeps import quick_config, quick_raw

CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in load_cases()}
KEY = CASES["E12"]["input"]["key"]
SECRET = "SECRET123"
ECHO_EVERY = 10


@dataclass
class Swept:
    """What is left of the sweep, and what the server was asked."""

    folder: Path
    result: dict[str, Any]
    requests: pd.DataFrame
    posts: list[tuple[str, Json]]
    log: str


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Two rates on a server that refuses max_tokens; in the first cell its context overflows at the tenth request."""
    data = open_data_folder(tmp_path_factory.mktemp("swept") / "data")
    overflow = next(case for case in load_stream_cases() if case.id == "B18").chunks[0][1].decode()
    named = CASES["B16"]["input"]["server_2"]
    cells_done, in_cell = 0, 0

    def post(_: str, body: Json) -> Reply:
        nonlocal in_cell
        if named["on"] in body:
            return named["status"], named["body"]
        if body["max_completion_tokens"] != 8:  # one of the small requests before the measurement
            return 200, chat_answer()
        in_cell += 1
        if cells_done == 0 and in_cell >= 10:
            return 200, overflow
        if in_cell % ECHO_EVERY == 0:
            return 500, json.dumps({"error": {"message": f"cannot log in with Authorization: Bearer {KEY}"}})
        return 200, chat_answer("a b c d e f g h")

    def watch(line: Any) -> None:  # noqa: ANN401 - a line of live.jsonl
        nonlocal cells_done
        cells_done = line["cells_done"]

    off = CASES["C08"]["input"]
    gets: dict[str, Json | str | Reply] = {
        "/v1/models": models("llamacpp", "m"),
        "/health": {"status": "ok"},
        "/metrics": (off["status"], off["body"]),
    }
    records = logging.getLogger()
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    with server(gets, post) as (url, posts), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASES_KEY", KEY)
        patch.setattr(records, "level", logging.DEBUG)
        records.addHandler(handler)
        config = quick_config(
            backend={"kind": "llama_cpp", "url": url, "api_key_env": "CASES_KEY"},
            grid={"request_rate": [40.0, 50.0]},
            run={"duration_s": 0.8, "warmup_s": 0.1, "drain_s": 2.0},
        )
        sweep_id = enqueue(data, config, "test")
        assert run_one(data, sweep_id, watch) == "done"
        records.removeHandler(handler)
    folder = sweep_folder(data, sweep_id)
    tables = read_sweep(folder)
    return Swept(folder, build_result(tables), tables.requests, posts, "\n".join(lines))


@pytest.mark.parametrize("case_id", ["B18"])
def test_an_overflow_ends_its_cell_and_the_sweep_goes_on(case_id: str, swept: Swept) -> None:
    """The cell is marked with the kind and the server's numbers, the rest of it is not sent, nothing is sent twice."""
    first, second = swept.result["cells"]
    assert (first["status"], first["error_kind"]) == ("failed", CASES[case_id]["expected"]["error_kind"])
    assert "5000 tokens" in first["error_detail"]
    assert second["status"] == "ok"
    assert status_of(swept.folder) == "done"
    of_first = swept.requests[swept.requests["cell"] == 0]
    assert (of_first["error_kind"] == "context_overflow").any()
    assert of_first["sent_ns"].isna().any()  # of some 36 requests in 0.9 s
    assert (of_first["resends"] == 0).all()


@pytest.mark.parametrize("case_id", ["B16"])
def test_no_measured_request_fails_on_a_field_name(case_id: str, swept: Swept) -> None:
    """The name that is refused was tried by the look at the server alone."""
    refused = [body for _, body in swept.posts if CASES[case_id]["input"]["server_2"]["on"] in body]
    assert len(refused) <= 2  # before the sweep, and when it began
    assert not (swept.requests["error_kind"] == "bad_request").any()


@pytest.mark.parametrize("case_id", ["C08"])
def test_a_run_without_metrics_is_a_run(case_id: str, swept: Swept) -> None:
    """The server's side is unknown, not zero; everything that the client sees is measured."""
    cell = swept.result["cells"][1]
    expected = CASES[case_id]["expected"]
    assert (cell["status"] == "ok") is expected["run_continues"]
    assert (cell["engine"]["source"], cell["engine"]["running_max"]) == ("none", None)
    assert (cell["completed"] > 20 and cell["ttft_ms"]["n"] == cell["completed"]) is expected[
        "client_metrics_unaffected"
    ]


@pytest.mark.parametrize("case_id", ["E12"])
def test_the_key_is_nowhere(case_id: str, swept: Swept) -> None:
    """It was sent and came back in error texts; database, files, result, page, exports and debug log have none."""
    assert (swept.requests["error_kind"] == "server_error").any()
    assert any("***" in text for text in swept.requests["error_detail"].dropna())
    texts = [path.read_bytes() for path in swept.folder.parent.rglob("*") if path.is_file()]
    texts += [path.read_bytes() for path in swept.folder.parents[1].glob("*") if path.is_file()]
    page = render_page(swept.result, include_private=True)
    source = Source("swept", swept.result, load_prepared(swept.folder))
    tables = tables_of(source, cleaner(swept.result, private=True))
    shown = [json.dumps(swept.result), json.dumps(read_state(swept.folder)), page, swept.log, repr(swept.requests)]
    shown += [json_export(source, private=True), repr(tables)]
    found = sum(text.count(SECRET.encode()) for text in texts) + sum(text.count(SECRET) for text in shown)
    assert found == CASES[case_id]["expected"]["occurrences_of_SECRET123"]


@pytest.mark.parametrize("case_id", ["E12"])
@pytest.mark.parametrize(
    "changes",
    [
        {"backend": {"kind": "openai", "url": f"http://u:{SECRET}@h"}},
        {"backend": {"kind": "openai", "url": f"http://h/v1?api_key={SECRET}"}},
        {"control": {"mode": "process", "command": ["llama-server", "--api-key", KEY]}},
        {"control": {"mode": "process", "command": ["vllm", "serve", "m", f"--api-key={KEY}"]}},
        {"control": {"mode": "process", "command": ["x"], "env": {"VLLM_API_KEY": KEY}}},
    ],
)
def test_a_key_in_the_sweep_file_is_refused_without_being_shown(case_id: str, changes: dict[str, Any]) -> None:
    """User info, query, launch command and its environment: the sentence names the place and not the key."""
    assert case_id in CASES
    raw = {"backend": {"kind": "openai", "url": "http://h"}, "grid": {"request_rate": [1.0]}, **changes}
    with pytest.raises(ConfigError) as refused:
        parse_sweep(quick_raw(**raw), "sweep.toml")
    assert SECRET not in str(refused.value)


def test_the_config_of_the_sweep_has_the_variable_s_name(swept: Swept) -> None:
    """What is stored is CASES_KEY, not what stands in it."""
    stored = json.loads((swept.folder / "sweep.json").read_text(encoding="utf-8"))["config"]
    assert SweepConfig.model_validate(stored).backend.api_key_env == "CASES_KEY"
