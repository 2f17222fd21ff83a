"""A load on an engine in virtual time, and the latencies that papers plot."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from runner.simulator.cost_model import CostModel
from runner.simulator.engine import Engine
from runner.simulator.state import Knobs, Sequence

Floats = npt.NDArray[np.float64]
# coefficients of the design page's table, ms
OPT_13B = CostModel(a=19.9, a_prefill=18.1, b=0.102, e=7.1e-6, d=6.3e-4, c=0.0385)
OPT_13B_SLOTS = 15_728  # KV tokens on a 40 GB A100
OPT_13B_KV_BYTES = 2 * 40 * 5120 * 2
MISTRAL_7B = CostModel(a=16.0, b=0.0725, c=0.04, d=1.04e-4, e=1.3e-6)
MISTRAL_7B_POOL = 420_000


@dataclass
class Load:
    """Unit-rate arrivals and lengths of the same requests at every rate."""

    arrivals: Floats
    prompts: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int64]


@dataclass
class Seen:
    """Seconds of each request that was answered: first token, end to end, its gaps; and how many ran on average."""

    ttft: Floats
    e2e: Floats
    outputs: npt.NDArray[np.int64]
    gaps: list[Floats]
    mean_running: float

    @property
    def normalized(self) -> Floats:
        """Seconds per output token, queueing and all: the y axis of Orca's and vLLM's plots."""
        return self.e2e / self.outputs

    @property
    def all_gaps(self) -> Floats:
        return np.concatenate(self.gaps)

    @property
    def tpot(self) -> Floats:
        """Mean gap of each request; 0 for a single token."""
        return np.array([g.mean() if len(g) else 0.0 for g in self.gaps])


def uniform(seed: int, n: int, prompts: tuple[int, int], outputs: tuple[int, int]) -> Load:
    """Poisson arrivals, lengths uniform in the given ranges, both ends included."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(size=n))
    return Load(arrivals, rng.integers(*prompts, n, endpoint=True), rng.integers(*outputs, n, endpoint=True))


def lognormal(seed: int, n: int, prompt: tuple[float, float], output: tuple[float, float], most: int) -> Load:
    """Poisson arrivals, lengths lognormal by (p50, p90); prompt plus answer at most `most` tokens."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(size=n))

    def lengths(p50: float, p90: float) -> npt.NDArray[np.int64]:
        drawn = rng.lognormal(np.log(p50), np.log(p90 / p50) / 1.2816, n)
        return np.clip(drawn.round(), 1, most // 2).astype(np.int64)

    return Load(arrivals, lengths(*prompt), lengths(*output))


def serve(scheduler: str, knobs: Knobs, cost: CostModel, kv_tokens: int, load: Load, rate: float) -> Seen:
    """All requests of the load at `rate` per second, until the last is answered."""
    engine = Engine(scheduler, knobs, cost, kv_tokens // 16)
    at_ns = (load.arrivals / rate * 1e9).astype(np.int64).tolist()
    sequences = [Sequence(i, int(p), int(o)) for i, (p, o) in enumerate(zip(load.prompts, load.outputs, strict=True))]
    steps: list[list[int]] = [[] for _ in engine.state.lanes]
    starts: dict[Sequence, list[int]] = {s: [] for s in sequences}
    ended_ns: dict[Sequence, int] = {}
    busy, i = 0.0, 0
    now = 0
    while len(ended_ns) < len(sequences):
        coming = at_ns[i] if i < len(at_ns) else inf
        until = int(min(engine.next_ns, coming))
        busy += engine.running * (until - now)
        now = until
        while i < len(at_ns) and at_ns[i] <= now:
            engine.submit(sequences[i], now)
            i += 1
        for ended in engine.finish(now):
            work, end = ended.work, ended.work.end_ns
            if work.iteration.decodes:
                steps[work.iteration.lane] += [work.step_end_ns(k) for k in range(1, work.iteration.steps + 1)]
            for sequence in ended.done.started:
                starts[sequence].append(end)
            for sequence in ended.done.finished:
                ended_ns[sequence] = end
        engine.start(now, at_ns[i] if i < len(at_ns) else inf)
    ends = [np.array(lane, dtype=np.int64) for lane in steps]
    times = [_token_times(s, starts[s], ends, ended_ns[s]) for s in sequences]
    first = np.array([t[0] for t in times])
    last = np.array([t[-1] for t in times])
    arrived = np.array(at_ns)
    gaps = [np.diff(t) / 1e9 for t in times]
    return Seen((first - arrived) / 1e9, (last - arrived) / 1e9, load.outputs, gaps, busy / now)


def _token_times(sequence: Sequence, starts: list[int], ends: list[npt.NDArray[np.int64]], end: int) -> Floats:
    if sequence.held:
        return np.full(sequence.output_tokens, end, dtype=np.float64)
    decoded = [ends[lane][after:last] for lane, after, last in sequence.runs]
    return np.sort(np.concatenate([np.array(starts), *decoded]))[: sequence.output_tokens].astype(np.float64)


def capacity(good: Callable[[float], bool], low: float, high: float, steps: int = 7) -> float:
    """The largest rate that is good, by bisection of the ratio; `low` if even that is not."""
    for _ in range(steps):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if good(middle) else (low, middle)
    return low
