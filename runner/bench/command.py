"""`goodput bench-client`: what our own client costs and how true it is on this machine, beside two others."""

import argparse
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic_ns
from typing import Any

from runner.bench.figures import Figures, compare
from runner.errors import ConfigError
from storage.errors import GoodputError

CLIENTS = {
    "goodput": "runner.bench.client_goodput",
    "aiohttp": "runner.bench.client_aiohttp",
    "httpx": "runner.bench.client_httpx",
}
NEEDS = {"goodput": (), "aiohttp": ("aiohttp", "uvloop"), "httpx": ("httpx",)}
DEFAULT_SCENARIOS = ("64x50", "256x20")
COLUMNS = (
    ("client", "{client}"),
    ("scenario", "{scenario}"),
    ("TTFT error p50/p99 ms", "{ttft_error_ms[p50]:.3f} / {ttft_error_ms[p99]:.3f}"),
    ("token lag p50/p99 ms", "{token_lag_ms[p50]:.3f} / {token_lag_ms[p99]:.3f}"),
    ("gap error p50/p99 ms", "{gap_error_ms[p50]:.3f} / {gap_error_ms[p99]:.3f}"),
    ("CPU µs/event", "{cpu_us_per_event:.1f}"),
    ("open", "{streams_open_share:.2%}"),
    ("first request s", "{first_request_s:.2f}"),
    ("MB", "{rss_mb:.0f}"),
    ("clock", "{clock}"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--scenario", action="append", metavar="STREAMSxRATE",
        help="streams x tokens per second of each, such as 256x50; may be repeated (default: 64x50 and 256x20)",
    )  # fmt: skip
    parser.add_argument("--client", action="append", choices=CLIENTS, help="measure only this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=8.0, help="time in which streams are begun (default 8)")
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each stream (default 100)")


def run(args: argparse.Namespace) -> int:
    """Prints the figures; exit code 0. Raises GoodputError."""
    scenarios = [parse_scenario(text) for text in args.scenario or DEFAULT_SCENARIOS]
    if args.seconds < 1.5 or args.tokens < 2:
        raise ConfigError("bench-client: --seconds must be at least 1.5 and --tokens at least 2")
    chosen = args.client or list(CLIENTS)
    results = []
    for streams, rate in scenarios:
        for client in chosen:
            missing = [m for m in NEEDS[client] if importlib.util.find_spec(m) is None]
            if missing:
                print(
                    f"{client} is not measured: {' and '.join(missing)} is not installed (extra: bench)",
                    file=sys.stderr,
                )
                continue
            print(f"{client}: {streams} streams x {rate:g} tokens/s …", file=sys.stderr, flush=True)
            figures = measure(client, streams, rate, args.tokens, args.seconds)
            results.append({"client": client, "scenario": f"{streams}x{rate:g}", "rate_per_s": rate, **figures})
    report = {"hardware": hardware(), "python": platform.python_version(), "results": results}
    if args.json:
        print(json.dumps(report, allow_nan=False))
    else:
        print(table(report), file=sys.stderr)
    return 0


def parse_scenario(text: str) -> tuple[int, float]:
    """ "256x50" -> (256 streams, 50 tokens/s each)."""
    match = re.fullmatch(r"(\d+)x(\d+(?:\.\d+)?)", text)
    if not match or int(match[1]) < 1 or float(match[2]) <= 0:
        raise ConfigError(f"bench-client: --scenario {text} is not STREAMSxRATE; write for example 256x50")
    return int(match[1]), float(match[2])


def measure(client: str, streams: int, rate: float, tokens: int, seconds: float) -> Figures:
    """One client against a fresh server, each in its own process, on cores of their own where there are two."""
    with tempfile.TemporaryDirectory(prefix="goodput-bench-") as folder:
        truth, out = Path(folder, "truth.json"), Path(folder, "client.json")
        server_line = [sys.executable, "-m", "runner.bench.paced_server", "--tokens", str(tokens), "--rate", str(rate)]
        server = subprocess.Popen(
            [*server_line, "--truth", str(truth)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        try:
            pin(server.pid, 0)
            port = int(server.stdout.readline())
            started_ns = monotonic_ns()
            line = [sys.executable, "-m", CLIENTS[client], f"http://127.0.0.1:{port}", "--streams", str(streams)]
            line += ["--seconds", str(seconds), "--tokens", str(tokens), "--out", str(out)]
            process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
            pin(process.pid, 1)
            if process.wait() != 0:
                raise GoodputError(f"bench-client: the {client} client ended with code {process.returncode}")
            server.communicate(timeout=60)
        finally:
            server.kill()
            server.wait()
        return compare(_read(truth), _read(out), streams, started_ns)


def _read(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text())


def pin(pid: int, core: int) -> None:
    """Server and client must not fight for one core; where cores can't be chosen, the system's choice stands."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            os.sched_setaffinity(pid, {cores[core]})


def hardware() -> str:
    """Processor and number of cores, in words."""
    name = platform.processor() or platform.machine()
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"


def table(report: dict[str, Any]) -> str:
    rows = [[title for title, _ in COLUMNS]]
    rows += [[_cell(shape, result) for _, shape in COLUMNS] for result in report["results"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{report['hardware']}, Python {report['python']}", *lines])


def _cell(shape: str, result: Figures) -> str:
    try:
        return shape.format(**result)
    except TypeError:  # a null: too little was seen
        return "–"


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="goodput bench-client")
    add_arguments(_parser)
    sys.exit(run(_parser.parse_args()))
