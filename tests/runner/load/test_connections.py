"""Where a request's connection comes from: reused, new, or opened before it was needed."""

import asyncio
import socket
from pathlib import Path

import pandas as pd
import pytest

from runner.load.event_loop import new_event_loop
from runner.load.transport import StampedTransport
from runner.load.workload import RequestSpec, most_arrivals
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.support.small_sweeps import quick_config


def requests_with(data: Path, connections: str | None) -> pd.DataFrame:
    """The requests of a cell whose load comes in bursts of three closed users and an open loop beside them."""
    run = {"duration_s": 1.0, "warmup_s": 0.2, "drain_s": 2.0} | ({"connections": connections} if connections else {})
    lengths = {"prompt_tokens": 16, "output_tokens": 8}
    classes = [{"name": "chat", "weight": 1, **lengths}, {"name": "agent", "closed": {"concurrency": 3}, **lengths}]
    sweep_id = enqueue(data, quick_config(grid={"request_rate": [40.0]}, run=run, classes=classes), "test")
    assert run_one(data, sweep_id, lambda _: None) == "done"
    requests = read_sweep(sweep_folder(data, sweep_id)).requests
    assert (requests["outcome"] == "ok").all()
    assert len(requests) > 40
    return requests


@pytest.mark.parametrize("connections", ["new", "preopened", None])
def test_the_sweep_says_how_connections_are_had(tmp_path: Path, connections: str | None) -> None:
    """new: every request connects. preopened: none does. Left out: most find a connection that was used before."""
    requests = requests_with(open_data_folder(tmp_path / "data"), connections)
    reused = requests["reused_connection"]
    if connections == "new":
        assert not reused.any()
        assert requests["connect_ns"].notna().all()
    elif connections == "preopened":
        assert reused.all()
        assert requests["connect_ns"].isna().all()
    else:
        assert (~reused).sum() < len(requests) / 2


def test_connections_are_opened_ahead_and_dead_ones_replaced() -> None:
    """As many as asked are open before any request; those that the server closed since are made anew."""

    async def main() -> tuple[int, int, int]:
        accepted: list[asyncio.StreamWriter] = []

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            await reader.read()

        async def settled(count: int) -> int:
            async with asyncio.timeout(30):
                while len(accepted) < count:
                    await asyncio.sleep(0.001)
            return len(accepted)

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        transport = StampedTransport()
        await transport.preopen(url, 5)
        first = await settled(5)
        await transport.preopen(url, 5)
        again = len(accepted)
        for writer in accepted[:2]:
            writer.close()
            await writer.wait_closed()
        await transport.preopen(url, 6)
        last = await settled(8)
        await transport.aclose()
        server.close()
        return first, again, last

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(main()) == (5, 5, 8)


def test_a_server_that_is_gone_is_told_by_its_requests() -> None:
    """Opening ahead to a port where nobody listens raises nothing."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def main() -> None:
        transport = StampedTransport()
        await transport.preopen(f"http://127.0.0.1:{port}", 3)
        await transport.aclose()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


def test_most_arrivals_in_a_span() -> None:
    """The fullest span counts, wherever it begins; its end is not part of it."""
    specs = [RequestSpec(i, "chat", 0, at, 1, 1, i, i) for i, at in enumerate([0, 5, 6, 7, 16, 17])]
    assert most_arrivals(specs, 10) == 4
    assert most_arrivals(specs, 3) == 3
    assert most_arrivals(specs, 2) == 2
    assert most_arrivals([], 10) == 0
