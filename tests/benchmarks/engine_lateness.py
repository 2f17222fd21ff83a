"""How late the built-in engine writes its tokens, by number of running sequences: run it on a quiet machine.

    python -m tests.benchmarks.engine_lateness [tokens]

Late: the last write of an iteration against the cost model's timeline, as the engine itself sees it. Seen: gaps
between tokens at a reader in another process against the model's gap.
"""

import asyncio
import json
import subprocess
import sys
import time
from itertools import pairwise

from runner.simulator.cost_model import CostModel
from runner.simulator.engine_metrics import EngineMetrics
from runner.simulator.presets import EngineProfile
from runner.simulator.server import start
from runner.simulator.settings import ServerSettings
from runner.simulator.state import Knobs

ITERATION_MS = 20.0


class Lateness(EngineMetrics):
    """Keeps every lateness, in seconds, beside the totals."""

    def __init__(self) -> None:
        super().__init__()
        self.every_s: list[float] = []

    def observe_lag(self, lag_s: float) -> None:
        super().observe_lag(lag_s)
        self.every_s.append(lag_s)


async def measure(streams: int, tokens: int) -> None:
    """Serves on a free port, lets a child process read `streams` answers, prints both sides."""
    profile = EngineProfile(CostModel(a=ITERATION_MS, b=0.0), 1_000_000, False, "benchmark")
    server, service, port = await start(ServerSettings(profile, Knobs(max_num_seqs=streams), port=0))
    lateness = service.live.metrics = Lateness()
    cpu = time.process_time()
    reader = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--read", str(port), str(streams), str(tokens), stdout=subprocess.PIPE
    )
    output, _ = await reader.communicate()
    cpu = time.process_time() - cpu
    server.close()
    seen = json.loads(output)
    print(
        f"{streams:4d} sequences, {len(lateness.every_s)} iterations of {ITERATION_MS:g} ms: "
        f"late p50 {share(lateness.every_s, 0.5) * 1000:.2f} ms, p99 {share(lateness.every_s, 0.99) * 1000:.2f} ms; "
        f"seen gap p50 {seen['p50']:.2f} ms, p99 {seen['p99']:.2f} ms; "
        f"{cpu / lateness.generation_tokens * 1e6:.0f} us CPU per token"
    )


async def read(port: int, streams: int, tokens: int) -> None:
    """Reads all streams, prints the gaps' percentiles in ms as JSON."""
    body = json.dumps({"prompt": "one two", "max_tokens": tokens, "ignore_eos": True, "stream": True}).encode()

    async def one() -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        times: list[float] = []
        while b"[DONE]" not in (line := await reader.readline()):
            if line.startswith(b"data: "):
                times.append(time.perf_counter())
        writer.close()
        return [1000 * (b - a) for a, b in pairwise(times)]

    gaps = [gap for mine in await asyncio.gather(*(one() for _ in range(streams))) for gap in mine]
    print(json.dumps({"p50": share(gaps, 0.5), "p99": share(gaps, 0.99)}))


def share(values: list[float], part: float) -> float:
    """The value that `part` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        asyncio.run(read(*map(int, sys.argv[2:5])))
    else:
        for running in (64, 128):
            asyncio.run(measure(running, int(sys.argv[1]) if sys.argv[1:] else 250))
