"""The isolation section on the results page, and the button on the backends page."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from app import data, jobs, ui
from runner.config import parse_sweep
from runner.isolation_plan import with_arms
from runner.queue import read_config
from runner.simulated_sweep import VirtualSweep
from runner.what_if import in_memory
from storage.side_files import list_sweeps
from tests.support.finished_sweeps import finished_sweep

MAIN = Path(jobs.__file__).with_name("main.py")
ENGINE = {"kind": "simulated", "cost": {"a": 8.0, "b": 0.3}, "kv_tokens": 40_000, "max_num_seqs": 16}
CLASSES = [
    {"name": "chat", "rate": 2, "prompt_tokens": 100, "output_tokens": 30, "slo": {"ttft_ms": 500, "gap_ms": 100}},
    {"name": "jobs", "dump": {"count": 30, "at_s": 2}, "prompt_tokens": 1500, "output_tokens": 40},
]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, without sample sweeps; no worker is started."""
    monkeypatch.setattr(data, "SAMPLES", tmp_path / "samples")
    monkeypatch.setattr(jobs, "start_worker", lambda folder: SimpleNamespace(poll=lambda: None))
    monkeypatch.setenv("GOODPUT_DATA", str(tmp_path / "data"))
    for part in ("queue", "sweeps"):
        (tmp_path / "data" / part).mkdir(parents=True)
    return tmp_path / "data"


def opened(page: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.run()
    at.switch_page(page).run()
    assert [e.message for e in at.exception] == []
    return at


def test_a_result_with_arms_has_a_section(data_dir: Path) -> None:
    """The verdict as a sentence and a row for each way, on the results page."""
    raw = {
        "name": "t", "backend": ENGINE, "grid": {"jobs_max_in_flight": [30]}, "classes": CLASSES,
        "run": {"duration_s": 40, "warmup_s": 2, "scrape_interval_s": 1},
    }  # fmt: skip
    tables = in_memory(VirtualSweep(with_arms(parse_sweep(raw, "t"), (2,)), None, {})).tables
    finished_sweep(data_dir, replace(tables, meta={**tables.meta, "simulated": False}), "isolation")
    at = opened(ui.RESULTS)
    headings = [m.value for m in at.markdown]
    assert any("Keeping the background apart" in text for text in headings)
    ways = next(frame.value for frame in at.dataframe if "way" in frame.value.columns)
    assert list(ways["way"]) == [
        "without background", "as it is", "cap 2", "server priority", "cap 2 and server priority",
        "a time window of its own",
    ]  # fmt: skip


def test_one_click_queues_the_experiment(data_dir: Path) -> None:
    """Of a saved engine: its cells are the ways, and the live page shows them come."""
    (data_dir / "backends.toml").write_text('[card]\nkind = "simulated"\npreset = "rtx3090/llama-3.1-8b/q4_k_m"\n')
    at = opened(ui.BACKENDS)
    at.button(key="isolate-0").click().run()
    (sweep,) = list_sweeps(data_dir)
    config = read_config(sweep.folder)
    assert (config.name, config.run.alone) == ("Isolation: card", "indexing")
    assert config.grid["indexing_max_in_flight"][:4] == (0, 2, 4, 8)


def test_a_server_that_is_not_there_is_said_on_the_page(data_dir: Path) -> None:
    """And nothing is queued."""
    (data_dir / "backends.toml").write_text('[nas]\nkind = "openai"\nurl = "http://127.0.0.1:9"\n')
    at = opened(ui.BACKENDS)
    at.button(key="isolate-0").click().run()
    assert "does not answer as it should" in at.error[0].value
    assert list_sweeps(data_dir) == []
