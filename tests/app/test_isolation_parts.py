"""The isolation section on the results page, and the button on the backends page."""

from dataclasses import replace
from pathlib import Path

from app import ui
from runner.config import parse_sweep
from runner.isolation_plan import with_arms
from runner.queue import read_config
from runner.simulated_sweep import VirtualSweep
from runner.what_if import in_memory
from storage.side_files import list_sweeps
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import Open, data_dir, opened, shown, started

__all__ = ["data_dir", "opened", "started"]  # fixtures
ENGINE = {"kind": "simulated", "cost": {"a": 8.0, "b": 0.3}, "kv_tokens": 40_000, "max_num_seqs": 16}
CLASSES = [
    {"name": "chat", "rate": 2, "prompt_tokens": 100, "output_tokens": 30, "slo": {"ttft_ms": 500, "gap_ms": 100}},
    {"name": "jobs", "dump": {"count": 30, "at_s": 2}, "prompt_tokens": 1500, "output_tokens": 40},
]


def test_a_result_with_arms_has_a_section(data_dir: Path, opened: Open) -> None:
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
    assert "Keeping the background apart" in shown(opened(ui.COMPARE, sweeps="isolation"))


def test_one_click_queues_the_experiment(data_dir: Path, opened: Open) -> None:
    """Of a saved engine: its cells are the ways, and the live page shows them come."""
    (data_dir / "backends.toml").write_text('[card]\nkind = "simulated"\npreset = "rtx3090/llama-3.1-8b/q4_k_m"\n')
    at = opened(ui.BACKENDS)
    at.button(key="isolate-0").click().run()
    (sweep,) = list_sweeps(data_dir)
    config = read_config(sweep.folder)
    assert (config.name, config.run.alone) == ("Isolation: card", "indexing")
    assert config.grid["indexing_max_in_flight"][:4] == (0, 2, 4, 8)


def test_a_server_that_is_not_there_is_said_on_the_page(data_dir: Path, opened: Open) -> None:
    """And nothing is queued."""
    (data_dir / "backends.toml").write_text('[nas]\nkind = "openai"\nurl = "http://127.0.0.1:9"\n')
    at = opened(ui.BACKENDS)
    at.button(key="isolate-0").click().run()
    assert "does not answer as it should" in at.error[0].value
    assert list_sweeps(data_dir) == []
