"""A sweep in virtual time that stays in memory: the numbers of the one that is kept, and who was in its iterations."""

from pathlib import Path

import pytest

from runner.analysis.goodput import judge, verdicts
from runner.analysis.result import build_result, score, targets_of
from runner.config import SweepConfig, parse_sweep
from runner.queue import enqueue
from runner.simulated_sweep import VirtualSweep
from runner.simulator.virtual_server import for_virtual_time
from runner.what_if import cell_steps, in_memory, misses_by_cell
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.small_sweeps import QUICK_COST, quick_raw

S = 1_000_000_000


def config() -> SweepConfig:
    chat = {"prompt_tokens": {"uniform": [20, 400]}, "output_tokens": {"uniform": [5, 60]}}
    raw = quick_raw(
        backend={"kind": "simulated", "cost": QUICK_COST, "kv_tokens": 4096, "max_num_batched_tokens": 64},
        grid={"scheduler": ["vllm_v0", "vllm_v1"], "request_rate": [20.0]},
        run={"duration_s": 8, "warmup_s": 2},
        classes=[{"name": "chat", "weight": 1, **chat, "slo": {"ttft_ms": 60, "gap_ms": 8}}],
    )
    return for_virtual_time(parse_sweep(raw, "test"))


@pytest.fixture(scope="module")
def virtual() -> VirtualSweep:
    return VirtualSweep(config(), None, {})


def test_it_gives_the_numbers_of_the_sweep_that_is_kept(tmp_path: Path, virtual: VirtualSweep) -> None:
    """What the page shows is what "run this as a sweep" will show, cell by cell."""
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, virtual.config, "test", simulated=True)
    assert run_one(data, sweep_id, lambda line: None) == "done"
    kept = build_result(read_sweep(data / "sweeps" / sweep_id))
    here = score(in_memory(virtual))
    assert here["cells"] == kept["cells"]
    assert here["choice"] == kept["choice"]
    assert here["simulated"] is True


def test_misses_are_those_of_the_analysis(virtual: VirtualSweep) -> None:
    """A request is missed exactly when its first token is late or its gaps break the rule; here both occur."""
    prepared = in_memory(virtual)
    targets = targets_of(virtual.config)
    judged = judge(prepared.requests, targets)
    words = verdicts(prepared.requests, judged)
    misses = misses_by_cell(prepared, targets, None)
    assert sorted(misses) == [0, 1]
    for facts in prepared.cells:
        rows = prepared.requests.iloc[facts.rows]
        window = rows["in_window"].to_numpy(dtype=bool)
        missed = float((words.iloc[facts.rows][window] == "missed").mean())
        found = misses[facts.cell]
        assert max(found.late, found.stalled) <= missed <= found.late + found.stalled
    assert misses[0].stalled > misses[1].stalled
    assert misses_by_cell(prepared, targets, "mean_tpot")[0].stalled < misses[0].stalled


def test_the_steps_of_a_cell_are_those_of_its_answers(virtual: VirtualSweep) -> None:
    """Every token of an answer that lies in the window ends with an iteration in which its request took part."""
    prepared = in_memory(virtual)
    log = cell_steps(virtual, 1, 4 * S, 5 * S)
    ends = {(log.requests[order][0].request, step.end_ns) for step in log.steps for order, _, _ in step.parts}
    rows = prepared.requests.iloc[prepared.cells[1].rows]
    checked = 0
    for request, first_ns, deltas in zip(rows["request"], rows["first_chunk_ns"], rows["chunk_deltas_us"], strict=True):
        if len(deltas) and 4 * S < first_ns < 5 * S:
            assert (request, first_ns) in ends
            checked += 1
    assert checked > 10
    assert all(s.begin_ns < 5 * S and s.end_ns > 4 * S for s in log.steps)
    assert log.over
