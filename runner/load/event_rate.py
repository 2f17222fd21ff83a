"""How many stream events and requests a cell will bring, and how many processes that takes. PURE."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from runner.config import Length, RequestClass, Scalar, SweepConfig
from runner.load.trace_file import TraceRow
from runner.load.workload import Z90, in_flight_caps

# One loop carried 12,800 events/s at 0.2-0.3 of a desktop core with kernel stamps right to 0.01 ms; beyond that the
# small processors of home servers, three to four times slower, have nothing left for bursts. More processes than
# needed cost more than they bring.
LOOP_EVENTS_PER_S = 10_000
# Each request is a row to be written as well. At 500 a second the thread that writes them held the interpreter so often
# that one send in a hundred left 2 to 3 ms late; a load process of its own shares only the processor with it.
APART_FROM_REQUESTS_PER_S = 100.0
# What a stream of a closed loop is taken to receive. One chat alone may get 100 tokens/s from a home server, but where
# there are enough streams for this to matter they share the machine.
STREAM_TOKENS_PER_S = 25.0


def load_processes(
    config: SweepConfig, load: Mapping[str, Scalar], cores: int, rows: Mapping[str, Sequence[TraceRow]] | None = None
) -> int:
    """Load processes beside the runner: enough for a cell's expected events, at most one a core; 0: the runner's own
    event loop, which is enough for most.

    Always 0 where a class's running requests are capped: the cap holds for all of them together.
    """
    if cores == 1 or in_flight_caps(config.classes, load):
        return 0
    needed = min(cores, math.ceil(expected_events_per_s(config, load, rows) / LOOP_EVENTS_PER_S))
    often = _open_requests_per_s(config, load, rows or {}) >= APART_FROM_REQUESTS_PER_S
    return needed if needed > 1 else int(often)


def _open_requests_per_s(
    config: SweepConfig, load: Mapping[str, Scalar], rows: Mapping[str, Sequence[TraceRow]]
) -> float:
    scale = float(load.get("load_scale", 1.0))
    own = math.fsum(c.rate or 0.0 for c in config.classes)
    replayed = math.fsum(_trace_requests_per_s(rows.get(c.name, ())) for c in config.classes if c.trace is not None)
    return float(load.get("request_rate", 0.0)) + scale * (own + replayed)


def _trace_requests_per_s(rows: Sequence[TraceRow]) -> float:
    times = [r.arrival_s for r in rows]
    return len(times) / max(1.0, max(times) - min(times)) if times else 0.0


def expected_events_per_s(
    config: SweepConfig, load: Mapping[str, Scalar], rows: Mapping[str, Sequence[TraceRow]] | None = None
) -> float:
    """Token events per second of all classes together, if the server keeps up.

    Open loop: rate x mean output tokens. Closed loops, and what is dumped at one moment: streams x
    STREAM_TOKENS_PER_S. `rows`: those of `trace` classes, as in `build_trace`.
    """
    weighted = [c for c in config.classes if c.weight is not None]
    total = math.fsum(c.weight or 0.0 for c in weighted)
    scale = float(load.get("load_scale", 1.0))
    events = 0.0
    for c in config.classes:
        if c.weight is not None and "request_rate" in load:
            events += float(load["request_rate"]) * c.weight / total * mean_tokens(c.output_tokens)
        elif c.rate is not None:
            events += c.rate * scale * mean_tokens(c.output_tokens)
        elif c.trace is not None:
            events += scale * _trace_events_per_s(c, (rows or {}).get(c.name, ()))
        elif c.dump is not None:
            events += c.dump.count * STREAM_TOKENS_PER_S
    return events + _closed_streams(config, load) * STREAM_TOKENS_PER_S


def _closed_streams(config: SweepConfig, load: Mapping[str, Scalar]) -> int:
    """Workers of all closed loops: max_concurrency is shared by the weighted classes, or else by the closed ones."""
    own = sum(c.closed.concurrency for c in config.classes if c.closed is not None)
    if "max_concurrency" not in load:
        return own
    weighted = any(c.weight is not None for c in config.classes)
    return int(load["max_concurrency"]) + (own if weighted else 0)


def _trace_events_per_s(c: RequestClass, rows: Sequence[TraceRow]) -> float:
    if not rows:
        return 0.0
    mean = mean_tokens(c.output_tokens)
    tokens = math.fsum(mean if r.output_tokens is None else r.output_tokens for r in rows)
    times = [r.arrival_s for r in rows]
    return tokens / max(1.0, max(times) - min(times))


def mean_tokens(length: Length) -> float:
    """Mean of a length as it is drawn; a lognormal one is cut at its max: E[min(X, max)]."""
    if length.fixed is not None:
        return float(length.fixed)
    if length.uniform is not None:
        return sum(length.uniform) / 2
    assert length.p50 is not None
    assert length.p90 is not None
    mu, sigma = math.log(length.p50), math.log(length.p90 / length.p50) / Z90
    mean = math.exp(mu + sigma**2 / 2)
    if length.max is None:
        return mean
    if sigma == 0:
        return min(mean, float(length.max))
    phi = NormalDist().cdf
    d = (math.log(length.max) - mu) / sigma
    return mean * phi(d - sigma) + length.max * (1 - phi(d))
