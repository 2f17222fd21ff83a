"""The live page: its buttons only leave wishes in the sweep's folder, so a dashboard that starts anew knows them."""

import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from app import ui
from runner.analysis.result import build_result
from runner.queue import enqueue
from storage import side_files
from storage.side_files import append_line, asked, status_of, write_state
from tests.app.views.made_up import made_up_tables
from tests.support.pages import Open, data_dir, fine, opened, shown, started
from tests.support.small_sweeps import quick_config

__all__ = ["data_dir", "opened", "started"]  # fixtures


def state(status: str) -> dict[str, Any]:
    """As a worker writes it; this process stands for the worker."""
    me = {"pid": os.getpid(), "create_time": psutil.Process().create_time(), "heartbeat_unix_ns": time.time_ns()}
    return {"status": status, **me, "cell": 1, "cells_total": 6, "cells_done": 2}


@pytest.fixture
def running(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep that is being measured: two cells have ended, errors came. Its worker is this process:
    on a busy machine it is slower than a heartbeat may be."""
    monkeypatch.setattr(side_files, "STALE_S", 600.0)
    folder = data_dir / "sweeps" / enqueue(data_dir, quick_config(), "test")
    (data_dir / "queue" / f"{folder.name}.json").unlink()
    write_state(folder, state("running"))
    for second in range(5):
        line = {
            "at_s": float(second), "cell": 1, "phase": "measure", "cells_total": 6, "eta_s": 60.0, "sent": 12 * second,
            "completed": 9 * second, "failed": second, "rejected": 0, "running": 4, "waiting": 7, "open_streams": 4,
            "kv_cache_usage": 0.5, "num_preemptions": 3 + second, "loop_lag_ms": 2.0, "cpu_share": 0.1,
            "ttft_p50_ms": 90.0, "ttft_p95_ms": 300.0, "gap_p50_ms": 20.0, "gap_p95_ms": 40.0,
            "errors": {"timeout": 2 * second, "connect": second},
        }  # fmt: skip
        append_line(folder, "live.jsonl", line)
    for row in build_result(made_up_tables((2,), (256,), (1.0, 2.0)))["cells"]:
        append_line(folder, "cells.jsonl", row)
    return folder


def click(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click()
    return fine(at.run())


def test_everything_that_the_page_promises_is_there(opened: Open, running: Path) -> None:
    """Time left, the cell, the frontier so far, first tokens and gaps, batch and cache, errors by kind, our own
    health."""
    at = opened(ui.LIVE, running.name)
    text = shown(at)
    for part in ("Frontier so far", "Cells that ended", "Second by second", "The load generator keeps up", "measuring"):
        assert part in text
    assert {m.label: m.value for m in at.metric} == {
        "sent": "48", "completed": "36", "failed": "4", "rejected": "0", "open now": "4", "running": "4",
        "waiting": "7", "KV cache": "50\xa0%", "preemptions": "4",
    }  # fmt: skip
    assert len(at.get("plotly_chart")) == 6  # frontier, first tokens, gaps, batch, cache, our own lateness
    cells, errors = at.dataframe
    assert len(cells.value) == 2
    assert [int(n) for n in errors.value["count"]] == [8, 4]


def test_pause_skip_and_stop_hold_over_a_restart_of_the_dashboard(opened: Open, running: Path) -> None:
    """Each page is opened anew, as after a restart: what was asked for before is still asked for."""
    click(opened(ui.LIVE, running.name), "pause")
    assert asked(running, "pause")
    later = opened(ui.LIVE, running.name)
    assert later.button(key="pause").label == "Go on"
    click(later, "pause")
    assert not asked(running, "pause")
    click(opened(ui.LIVE, running.name), "skip")
    assert asked(running, "skip")
    click(opened(ui.LIVE, running.name), "stop")
    assert asked(running, "stop")


def test_a_stopped_sweep_is_resumed_from_a_dashboard_that_was_started_anew(
    opened: Open, running: Path, started: list[Path]
) -> None:
    """It waits in the queue again, without the wish that had stopped it."""
    click(opened(ui.LIVE, running.name), "stop")
    write_state(running, {"status": "stopped", "cells_total": 6, "cells_done": 2})
    at = opened(ui.LIVE, running.name)
    assert "Finished cells are kept" in shown(at)
    click(at, "resume")
    assert status_of(running) == "queued"
    assert not asked(running, "stop")
    assert started


def test_a_worker_that_is_gone_is_told_and_the_sweep_goes_on(opened: Open, running: Path) -> None:
    """Its heartbeat is old: interrupted, with a way on."""
    write_state(running, {**state("running"), "heartbeat_unix_ns": time.time_ns() - 10**12})
    at = opened(ui.LIVE, running.name)
    assert "its worker is gone" in shown(at)
    click(at, "resume")
    assert status_of(running) == "queued"
