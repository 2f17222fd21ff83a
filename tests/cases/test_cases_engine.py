"""The cases about starting, ending and recognising the server."""

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from app.views.heatmap import heat_grid
from runner.analysis.result import build_result
from runner.config import SweepConfig, parse_sweep
from runner.engines.address import free_port
from runner.engines.catalogue import KINDS
from runner.engines.readiness import wait_until_ready
from runner.engines.server import Server
from runner.errors import ConfigError, SettingFailed
from runner.load.workload import build_trace
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.cases.load import DONE, HEAD, drive, on_our_loop, token
from tests.cases.load_cases import load_cases
from tests.engines_support.http_pages import Reply, Request, serve_pages
from tests.engines_support.sweeps import scripted_sweep
from tests.support.scripted_http import serving, take_request
from tests.support.small_sweeps import quick_config, quick_raw
from tests.support.tables import CHAT, SECOND, make_cell, make_config, make_tables

CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in load_cases()}


@pytest.mark.parametrize("case_id", ["D01"])
def test_an_open_port_and_a_model_list_are_not_ready(case_id: str) -> None:
    """The case's timeline at a hundredth of its pace: refused until 5 s, /health 503 until 40 s, then ready."""
    at_s = {state: at / 100 for at, state in CASES[case_id]["input"]["timeline"]}
    opens_s, ready_s = at_s["/v1/models 200, /health 503"], at_s["/health 200"]
    began = 0.0
    asked: list[str] = []

    async def answer(request: Request) -> Reply:
        asked.append(request.path)
        ready = request.path != "/health" or time.monotonic() - began >= ready_s
        return (200, {}, '{"data":[{"id":"m"}]}') if ready else (503, {}, "loading")

    async def waited_s() -> float:
        nonlocal began
        port, began = free_port(), time.monotonic()

        async def engine() -> None:
            await asyncio.sleep(opens_s)
            async with serve_pages(answer, port):
                await asyncio.Event().wait()

        async def alive() -> None:
            return None

        running = asyncio.create_task(engine())
        await wait_until_ready(f"http://127.0.0.1:{port}", KINDS["openai"], None, 60.0, alive)
        running.cancel()
        return time.monotonic() - began

    assert asyncio.run(waited_s()) >= ready_s
    assert asked.count("/health") == len(asked) > 1


@pytest.mark.parametrize("case_id", ["D01"])
def test_a_dead_process_ends_the_wait_at_once(case_id: str, tmp_path: Path) -> None:
    """Its last log lines are told; nobody waits for the limit of half an hour, which is a setting."""
    assert case_id in CASES
    config = scripted_sweep(free_port(), "--say", "error: no such file", "--exit", "3")
    assert config.control.ready_timeout_s == 1800

    async def start() -> SettingFailed:
        server = Server(config, tmp_path)
        try:
            with pytest.raises(SettingFailed) as failed:
                await server.apply({})
        finally:
            await server.stop()
        return failed.value

    failed = asyncio.run(start())
    assert (failed.error_kind, failed.exit_code, failed.log_tail) == ("exited", 3, "error: no such file")


@pytest.mark.parametrize("case_id", ["D03"])
@pytest.mark.parametrize("held_s", [0.5, 60.0])
def test_a_lingering_port_is_waited_for_and_never_measured(case_id: str, held_s: float, tmp_path: Path) -> None:
    """Freed in time, the new server is the one that answers; held too long, the cell fails as port_in_use."""
    expected = CASES[case_id]["expected"]

    async def next_cell() -> int | str:
        with socket.create_server(("127.0.0.1", 0)) as old:
            config = scripted_sweep(old.getsockname()[1])
            server = Server(config, tmp_path, port_wait_s=30.0 if held_s < 1 else 0.5)
            asyncio.get_running_loop().call_later(held_s, old.close)
            try:
                running = await server.apply({"n": 1})
                return running.pid or 0
            except SettingFailed as failed:
                return f"cell failed: {failed.error_kind}"
            finally:
                await server.stop()

    got = asyncio.run(next_cell())
    assert got == expected["limit_then"] if held_s > 1 else isinstance(got, int) and got > 0


def oom_sweep(last_words: str, exit_code: int) -> SweepConfig:
    """The built-in engine, except that it dies with these words where the context is too large."""
    script = (
        "import sys, runpy; at = sys.argv.index('--ctx'); ctx = int(sys.argv[at + 1]); del sys.argv[at:at + 2]\n"
        f"if ctx > 8192: print({last_words!r}, file=sys.stderr); sys.exit({exit_code})\n"
        "sys.argv[0] = 'engine'; runpy.run_module('runner.simulator', run_name='__main__')"
    )
    port = free_port()
    engine = [sys.executable, "-c", script, "--port", "{port}", "--cost", "a=2,b=0.01", "--kv-tokens", "4096"]
    return quick_config(
        backend={"kind": "vllm", "url": f"http://127.0.0.1:{port}"},
        control={"mode": "process", "command": [*engine, "--ctx", "{ctx}"]},
        grid={"ctx": CASES["D05"]["input"]["grid"]["ctx"], "request_rate": [60.0]},
        run={"duration_s": 0.5, "warmup_s": 0.1, "drain_s": 2.0},
    )


@pytest.mark.parametrize("case_id", ["D05"])
@pytest.mark.parametrize(
    ("last_words", "exit_code"),
    [
        ("CUDA out of memory", 1),
        ("ROCm error: out of memory", 1),
        ("error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", 1),
        ("loading tensors", 137),
    ],
    ids=["cuda", "rocm", "metal", "killed by the kernel"],
)
def test_a_setting_that_does_not_fit_is_one_failed_cell(
    case_id: str, last_words: str, exit_code: int, tmp_path: Path
) -> None:
    """Three cells, one measured, two failed as out_of_memory with exit code and log; the heat map says so, not 0."""
    expected = CASES[case_id]["expected"]
    data = open_data_folder(tmp_path / "data")
    sweep_id = enqueue(data, oom_sweep(last_words, exit_code), "test")
    assert (run_one(data, sweep_id, lambda _: None) == "done") is expected["sweep_finished"]
    tables = read_sweep(sweep_folder(data, sweep_id))
    result = build_result(tables)
    assert [c["status"] for c in result["cells"]] == ["ok", "failed", "failed"]
    assert len(result["cells"]) == expected["cells"]
    for cell, row in zip(result["cells"][1:], tables.cells.to_dict("records")[1:], strict=True):
        assert cell["error_kind"] == expected["error_kind"]
        assert last_words in cell["log_tail"]
        assert (row["exit_code"], cell["setting"]["ctx"] > 8192) == (exit_code, True)
        assert (cell["goodput_per_s"], cell["output_tok_per_s"]) == (None, None)
    squares = [s for line in heat_grid(result).squares for s in line]
    assert [s.state for s in squares].count("failed") == 2
    assert all(s.value is None for s in squares if s.state == "failed")


@pytest.mark.parametrize("case_id", ["D07"])
def test_a_server_that_serialises_is_told(case_id: str) -> None:
    """One stream at a time, four users, a tenth of the case's times: the staircase in TTFT, the flag, one parallel."""
    given, expected = CASES[case_id]["input"], CASES[case_id]["expected"]
    each_s = given["each_s"] / 10
    closed = {**CHAT, "weight": None, "closed": {"concurrency": given["concurrency"]}}
    config = make_config(classes=[closed], grid={"kv_tokens": [4096]})
    place = asyncio.Lock()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_request(reader)
        writer.write(HEAD)  # it waits silently
        async with place:
            for _ in range(10):
                await asyncio.sleep(each_s / 10)
                writer.write(token("a"))
            writer.write(DONE)
            await writer.drain()

    async def load() -> list[Any]:
        async with serving(play) as url:
            return (await drive(url, build_trace(config.classes, {}, 1.0, seed=1), end_s=1.0, drain_s=5.0))[1]

    records = on_our_loop(load())
    cell = make_cell(setting={"kv_tokens": 4096}, load={}, window_end_ns=SECOND)
    shown = build_result(make_tables(records, cells=[cell], config=config))["cells"][0]
    assert shown["engine"]["streams_max"] == expected["observed_parallel"]
    assert set(expected["flags"]) <= set(shown["flags"])
    first = sorted((r.first_chunk_ns - r.sent_ns) / 1e9 for r in records[: given["concurrency"]])
    steps = [float(text.removeprefix("~")) / 10 for text in expected["ttft_s"]]
    # each on its own step or later: a busy machine may hold up one, which makes its distance to the next shorter
    assert all(got >= step * 0.9 for got, step in zip(first, steps, strict=True)), first


@pytest.mark.parametrize("case_id", ["D07"])
def test_an_axis_that_nobody_applies_is_refused_with_the_reason(case_id: str) -> None:
    """Server settings in the grid without a way to restart the server would measure the same setting twice."""
    assert case_id in CASES
    raw = quick_raw(backend={"kind": "ollama", "url": "http://127.0.0.1:11434"})
    with pytest.raises(ConfigError, match=r"grid varies max_num_seqs, but \[control\] mode is none"):
        parse_sweep(raw, "sweep.toml")
