"""The second half of the what-if page: calibrate a saved server, and hold its model against what was measured."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import calibrating, ui
from runner.calibration.held_out import stand_in
from runner.calibration.profile_file import write_profile
from runner.config import SweepConfig, parse_sweep
from runner.errors import ConfigError
from runner.simulated_sweep import VirtualSweep
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.what_if import in_memory
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import MAIN, data_dir, started

__all__ = ["data_dir", "started"]  # fixtures
pytestmark = pytest.mark.usefixtures("started")
COST = {"a": 10.0, "a_prefill": 12.0, "b": 0.2, "c": 0.3, "d": 2e-4, "e": 0.0}
SERVER = {"kind": "llama_cpp", "url": "http://127.0.0.1:9"}


def config(**changes: Any) -> SweepConfig:  # noqa: ANN401  (any part of a sweep file)
    chat = {
        "name": "chat", "weight": 1, "prompt_tokens": 200, "output_tokens": 30, "slo": {"ttft_ms": 1000, "gap_ms": 150},
    }  # fmt: skip
    raw = {
        "name": "held out", "backend": SERVER, "grid": {"request_rate": [1.0, 2.0]}, "classes": [chat],
        "run": {"duration_s": 60, "warmup_s": 5, "drift_check": False},
    }  # fmt: skip
    return parse_sweep({**raw, **changes}, "t")


def profile(data_dir: Path, **changes: Any) -> EngineProfile:  # noqa: ANN401
    """Writes a calibrated profile and returns what it says."""
    error = {"measured": 100.0, "predicted": 110.0, "error_share": 0.1}
    row = {"request_rate": 1.0, "requests": 40, **{k: {"p50": error, "p95": error} for k in ("ttft_ms", "gap_ms")}}
    told = {
        "model": "tiny", "kind": "llama_cpp", "scheduler": "llama_cpp", "max_num_seqs": 4,
        "max_num_batched_tokens": 2048, "kv_tokens": 8192, "kv_tokens_told": True, "cost": COST, "cost_low": COST,
        "cost_high": COST, "fit": {"rows": 9, "median_error_share": 0.01, "worst_error_share": 0.1},
        "measured_up_to": {"prompt_tokens": 128, "seqs": 4, "context_tokens": 900}, "held_out": [row],
        "sweep_id": "held-out", **changes,
    }  # fmt: skip
    (data_dir / "profiles").mkdir(exist_ok=True)
    write_profile(data_dir / "profiles" / "nas.toml", told)
    return EngineProfile(CostModel(**COST), 8192, False, "profile nas.toml")


def measured(data_dir: Path, given: EngineProfile) -> None:
    """A sweep that came out exactly as the model says."""
    tables = in_memory(VirtualSweep(stand_in(config(), "llama_cpp", 4, 2048), given, {})).tables
    meta = {**tables.meta, "config": config().model_dump(mode="json"), "simulated": False, "backend": SERVER}
    finished_sweep(data_dir, replace(tables, meta=meta), "held-out")


def opened(**state: object) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.run()
    for key, value in {"half": "server", **state}.items():
        at.session_state[key] = value
    at.switch_page(ui.WHAT_IF).run()
    assert [e.message for e in at.exception] == []
    return at


def said(at: AppTest) -> str:
    texts = (str(x.value) for kind in ("markdown", "caption", "error", "info") for x in at.get(kind))
    return "\n".join(texts).replace("\\", "").replace("\u2060", "").replace("\u00a0", " ")


def test_without_a_server_it_says_how_to_begin(data_dir: Path) -> None:
    """Neither a saved server nor a profile: two sentences, no empty boxes."""
    text = said(opened())
    assert "Save a server on the Backends page" in text
    assert "goodput calibrate URL -o FILE" in text


def test_a_model_that_is_right_predicts_what_was_measured(data_dir: Path) -> None:
    """Same arrivals, same engine: both numbers of every pair are the same, and the errors of the held-out run are
    named beside them."""
    measured(data_dir, profile(data_dir))
    at = opened()
    text = said(at)
    assert "at most 10 % off" in text
    assert "Prompts up to 200 tokens are predicted, 128 were measured" in text
    assert len(at.get("plotly_chart")) == 1
    errors, pairs = (frame.value for frame in at.dataframe)
    assert list(errors["off by"]) == ["+10\xa0%"] * 4
    assert list(pairs["load"]) == ["1 req/s", "2 req/s"]
    for column in ("inside targets", "first token p50", "gap p50"):
        for value in pairs[column]:
            left, right = value.split(" → ")
            assert left == right


def test_another_machine_stands_beside_it(data_dir: Path) -> None:
    """What would a 3090 do? A second table, marked as an estimate."""
    measured(data_dir, profile(data_dir))
    at = opened(**{"other-machine": True})
    assert "RTX 3090, llama-3.1-8b q4_k_m" in said(at)
    assert "an estimate from public tables" in said(at)
    assert len(at.dataframe) == 3


def test_a_sweep_that_varies_what_no_model_knows_is_refused_in_a_sentence(data_dir: Path) -> None:
    """Threads change the cost itself."""
    profile(data_dir)
    control = {"mode": "process", "command": ["llama-server", "-t", "{threads}"]}
    tables = in_memory(VirtualSweep(stand_in(config(), "llama_cpp", 4, 2048), profile(data_dir), {})).tables
    varied = config(grid={"threads": [1, 2], "request_rate": [1.0]}, control=control)
    meta = {**tables.meta, "config": varied.model_dump(mode="json"), "simulated": False, "backend": SERVER}
    finished_sweep(data_dir, replace(tables, meta=meta), "held-out")
    at = opened()
    assert "threads" in at.error[0].value
    assert not at.get("plotly_chart")


def test_a_saved_server_is_calibrated_by_a_button(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs beside the page with the server's own address; why it failed is said on the page."""
    (data_dir / "backends.toml").write_text('[nas]\nkind = "llama_cpp"\nurl = "http://127.0.0.1:9"\n')
    at = opened()
    assert at.selectbox(key="to-calibrate").options == ["nas"]
    at.button(key="calibrate").click().run()
    until = time.monotonic() + 60
    while (found := calibrating.progress(data_dir, "nas")) is None or found.state == "running":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert found.state == "failed"
    text = said(at.run())
    assert "The last calibration failed:" in text
    assert "did not answer a test request" in text


def test_a_backend_without_an_address_is_not_calibrated(data_dir: Path) -> None:
    """The built-in engine's costs are known; and where nothing was started there is no progress to tell or to stop."""
    with pytest.raises(ConfigError, match="no url"):
        calibrating.start(data_dir, "mine", {"kind": "simulated"})
    assert calibrating.progress(data_dir, "mine") is None
    calibrating.stop(data_dir, "mine")
