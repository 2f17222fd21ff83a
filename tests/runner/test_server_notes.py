"""What a server makes of a setting stays with the cells of that setting."""

import json
from pathlib import Path

from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.small_sweeps import quick_config, quick_raw


def test_a_priority_that_changes_nothing_is_noted_in_its_cells(tmp_path: Path) -> None:
    """Two classes of different priority: noted where the policy is fcfs, not where it heeds them."""
    chat = quick_raw()["classes"][0]
    config = quick_config(
        grid={"policy": ["fcfs"], "request_rate": [30.0]},
        classes=[chat, {**chat, "name": "background", "priority": 1}],
        run={"duration_s": 0.5, "warmup_s": 0.1, "drain_s": 2.0},
    )
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, config, "test")
    assert run_one(data, sweep_id, lambda _: None) == "done"
    (server,) = (json.loads(text) for text in read_sweep(sweep_folder(data, sweep_id)).cells["server"])
    assert [note for note in server["notes"] if "ignores them unless its policy is priority" in note]
