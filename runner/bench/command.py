"""`goodput bench-client`: what our own client costs and how true it is on this machine, beside two others."""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic_ns
from typing import Any

from runner.bench.scenario import EXAMPLES, Scenario, parse_scenario
from runner.errors import ConfigError
from storage.errors import GoodputError

CLIENTS = {
    "goodput": "runner.bench.client_goodput",
    "aiohttp": "runner.bench.client_aiohttp",
    "httpx": "runner.bench.client_httpx",
}
NEEDS = {"goodput": (), "aiohttp": ("aiohttp", "uvloop"), "httpx": ("httpx",)}
DEFAULT_SCENARIOS = ("64x50", "256x20", "256x50", "1024x10", "500/s")
HTTPX_EVENTS_PER_S = 4000.0  # plain httpx is given no more, and no open loop: working it off takes it minutes
COLUMNS = (
    ("client", "{client}"),
    ("scenario", "{scenario}"),
    ("send lag p50/p99 ms", "{send_lag_ms[p50]:.3f} / {send_lag_ms[p99]:.3f}"),
    ("TTFT error p50/p99 ms", "{ttft_error_ms[p50]:.3f} / {ttft_error_ms[p99]:.3f}"),
    ("token lag p50/p99 ms", "{token_lag_ms[p50]:.3f} / {token_lag_ms[p99]:.3f}"),
    ("gap error p50/p99 ms", "{gap_error_ms[p50]:.3f} / {gap_error_ms[p99]:.3f}"),
    ("CPU µs/event", "{cpu_us_per_event:.1f}"),
    ("of aiohttp's", "{cpu_ratio_to_aiohttp:.2f}"),
    ("µs/request", "{cpu_us_per_request:.0f}"),
    ("events/read", "{events_per_read:.2f}"),
    ("open", "{streams_open_share:.2%}"),
    ("saturated", "{saturated}"),
    ("first request s", "{first_request_s:.2f}"),
    ("MB", "{rss_mb:.0f}"),
    ("clock", "{clock}"),
    ("server late p99 ms", "{server_late_ms[p99]:.2f}"),
)
Result = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument(
        "--scenario", action="append", metavar="SCENARIO",
        help=f"{EXAMPLES}; may be repeated (default: {', '.join(DEFAULT_SCENARIOS)})",
    )  # fmt: skip
    parser.add_argument("--client", action="append", choices=CLIENTS, help="measure only this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=6.0, help="time in which requests are sent (default 6)")
    parser.add_argument(
        "--rounds", type=int, default=3,
        help="measure all clients in turn so often and tell the median of each figure (default 3)",
    )  # fmt: skip
    parser.add_argument("--tokens", type=int, default=100, help="tokens of each stream (default 100; N/s: 32)")


def run(args: argparse.Namespace) -> int:
    """Prints the figures; exit code 0. Raises GoodputError."""
    scenarios = [parse_scenario(text, args.tokens) for text in args.scenario or DEFAULT_SCENARIOS]
    if not 1.5 <= args.seconds <= 3600 or args.tokens < 2 or args.rounds < 1:
        raise ConfigError("bench-client: --seconds must be 1.5 to 3600, --tokens at least 2 and --rounds at least 1")
    # these bring pandas, which `goodput --help` shall not wait for
    from runner.bench.figures import beside_aiohttp, middle_of
    from runner.environment import describe_machine, machine_name

    machine = describe_machine()
    results = []
    for scenario in scenarios:
        clients = _installed(args.client or clients_for(scenario))
        rounds = []
        for number in range(args.rounds):
            tell(f"{scenario.name}, round {number + 1} of {args.rounds}: {', '.join(clients)} …")
            asked = {"rate_per_s": scenario.rate, "requests_per_s": scenario.requests_per_s or None}
            rounds.append(
                beside_aiohttp(
                    [
                        {"client": c, "scenario": scenario.name, **asked, **measure(c, scenario, args.seconds)}
                        for c in clients
                    ]
                )
            )
        results += [middle_of(of_one_client) for of_one_client in zip(*rounds, strict=True)]
    report = {
        "hardware": machine_name(machine),
        "python": platform.python_version(),
        "load_average_1m": machine["load_average_1m"],
        "results": results,
    }
    if args.json:
        print(json.dumps(report, allow_nan=False))
    else:
        print(table(report), file=sys.stderr)
    return 0


def _installed(clients: list[str]) -> list[str]:
    """Those whose libraries are here; the others are told of."""
    for client in clients:
        missing = [m for m in NEEDS[client] if importlib.util.find_spec(m) is None]
        if missing:
            tell(f"{client} is not measured: {' and '.join(missing)} is not installed (extra: bench)")
    return [c for c in clients if all(importlib.util.find_spec(m) for m in NEEDS[c])]


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def clients_for(scenario: Scenario) -> list[str]:
    """All, but plain httpx only where it is done in time."""
    light = scenario.streams > 0 and scenario.events_per_s <= HTTPX_EVENTS_PER_S
    return [c for c in CLIENTS if c != "httpx" or light]


def measure(client: str, scenario: Scenario, seconds: float) -> Result:
    """One client against a fresh server, each in its own process, on cores of their own where there are two."""
    from runner.bench.figures import compare

    tokens = ["--tokens", str(scenario.tokens)]
    with tempfile.TemporaryDirectory(prefix="goodput-bench-") as folder:
        truth, out = Path(folder, "truth.json"), Path(folder, "client.json")
        line = [sys.executable, "-m", "runner.bench.paced_server", "--rate", str(scenario.rate), *tokens]
        server = subprocess.Popen(
            [*line, "--truth", str(truth)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        try:
            pin(server.pid, 0)
            port = int(server.stdout.readline())
            started_ns = monotonic_ns()
            line = [sys.executable, "-m", CLIENTS[client], f"http://127.0.0.1:{port}", *tokens, "--out", str(out)]
            line += ["--streams", str(scenario.streams), "--requests-per-s", str(scenario.requests_per_s)]
            process = subprocess.Popen([*line, "--seconds", str(seconds)], stdout=subprocess.DEVNULL)
            pin(process.pid, 1)
            if process.wait() != 0:
                raise GoodputError(f"bench-client: the {client} client ended with code {process.returncode}")
            server.communicate(timeout=60)
        finally:
            server.kill()
            server.wait()
        return compare(_read(truth), _read(out), scenario.streams, started_ns)


def _read(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text())


def pin(pid: int, core: int) -> None:
    """Server and client must not fight for one core; where cores can't be chosen, the system's choice stands."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            os.sched_setaffinity(pid, {cores[core]})


def table(report: dict[str, Any]) -> str:
    rows = [[title for title, _ in COLUMNS]]
    rows += [[_cell(shape, result) for _, shape in COLUMNS] for result in report["results"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{report['hardware']}, Python {report['python']}, load {report['load_average_1m']}", *lines])


def _cell(shape: str, result: Result) -> str:
    try:
        return shape.format(**result)
    except TypeError:  # a null: too little was seen
        return "–"


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="goodput bench-client")
    add_arguments(_parser)
    sys.exit(run(_parser.parse_args()))
