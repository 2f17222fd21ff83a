"""Class mix -> request specs: when, how long, which prompt. PURE: the seed and the rows of traces come in as arguments.

Lengths belong to (seed, class, index in the class) and to nothing else, so the i-th chat has the same lengths in every
setting, at every rate and whatever other classes there are.
"""

import hashlib
import itertools
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from runner.config import MOST_TOKENS, Length, RequestClass, Scalar
from runner.errors import ConfigError
from runner.load.arrivals import Purpose, arrival_offsets_ns, random_stream
from runner.load.trace_file import TraceRow
from runner.load.words import WORDS

Z90 = 1.2815515655446004  # 90th percentile of the standard normal
KEY_WORDS = math.ceil(64 / math.log2(len(WORDS)))  # words that spell a 64-bit key
_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request to be sent. `offset_ns` counts from the cell's origin; None in a closed loop."""

    request: int  # unique in the cell: open loop 0, 1, ... by offset, closed loop after them
    class_name: str
    priority: int
    offset_ns: int | None
    prompt_tokens: int
    output_tokens: int
    prompt_key: int  # 64 bits; the prompt's first unique words spell it
    class_index: int  # 0, 1, ... within the class; lengths are keyed by it


@dataclass(frozen=True, slots=True)
class PromptScale:
    """How many tokens the server counts for a prompt of n words: overhead (the chat template) + n * tokens_per_word."""

    tokens_per_word: float = 1.0
    overhead_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Workers that send, wait for the answer, think, and send again."""

    classes: tuple[RequestClass, ...]
    workers: int
    think_ns: int
    seed: int
    salt: int
    first_request: int
    step: int  # request numbers advance by it, so that loops beside each other never share one
    part: int = 0  # of `parts` shares of one loop: this one sends the part-th of each `parts` requests
    parts: int = 1

    def specs(self) -> Iterator[RequestSpec]:
        """Endless, the same on every call; several classes are mixed by their weights."""
        return itertools.islice(self._all_specs(), self.part, None, self.parts)

    def _all_specs(self) -> Iterator[RequestSpec]:
        requests = itertools.count(self.first_request, self.step)
        streams = [_class_specs(c, self.seed, self.salt, itertools.repeat(None)) for c in self.classes]
        for request, pick in zip(requests, _mix(self.classes, self.seed), strict=False):
            yield replace(next(streams[pick]), request=request)


@dataclass(frozen=True, slots=True)
class Trace:
    """What one cell sends: open-loop specs by offset, and closed loops that never run dry."""

    open_loop: tuple[RequestSpec, ...]
    closed_loops: tuple[ClosedLoop, ...] = ()


def build_trace(
    classes: Sequence[RequestClass],
    load: Mapping[str, Scalar],
    total_s: float,
    seed: int,
    *,
    salt: int = 0,
    rows: Mapping[str, Sequence[TraceRow]] | None = None,
) -> Trace:
    """The load of one cell for `total_s` seconds (warm-up and window).

    load: at most one of
      request_rate     requests/s, shared by the classes with a weight;
      load_scale       multiplies the rate of `rate` classes and speeds up `trace` classes;
      max_concurrency  the classes with a weight run as ONE closed loop of that many workers, each request's class
                       drawn by weight; with no such class, the `closed` classes share it as they share their own total.
      only             a class's name: no other class is sent, and there is none of the above.
    `<class>_priority` stands in for the class's own priority.
    `<class>_max_in_flight` keys are for `in_flight_caps`. `salt` must differ between cells and sweeps: it changes the
    prompts and nothing else, so that no cell is served from what an earlier one left in a prefix cache.
    `rows`: parsed trace of each `trace` class, by class name; it is sent once, its lengths go before the class's own.
    Raises ConfigError when a class has nothing that says how often it is sent.
    """
    classes = [_in_its_lane(c, load) for c in classes if c.name == load.get("only", c.name)]
    _check_load(classes, load)
    total_ns = round(total_s * 1e9)
    specs: list[RequestSpec] = []
    for c in classes:
        recorded = sorted((rows or {}).get(c.name, ()), key=lambda r: r.arrival_s) if c.trace is not None else []
        offsets = _offsets(c, classes, load, total_s, seed, recorded)
        own = list(_class_specs(c, seed, salt, offsets[offsets < total_ns].tolist()))
        specs += map(_with_lengths, own, recorded) if c.trace is not None else own
    specs.sort(key=lambda s: s.offset_ns or 0)  # stable: at the same moment, in the order of the classes
    numbered = tuple(replace(spec, request=i) for i, spec in enumerate(specs))
    return Trace(numbered, _closed_loops(classes, load, seed, salt, first_request=len(numbered)))


def _in_its_lane(c: RequestClass, load: Mapping[str, Scalar]) -> RequestClass:
    priority = load.get(f"{c.name}_priority")
    return c if priority is None else c.model_copy(update={"priority": int(priority)})


def most_arrivals(specs: Sequence[RequestSpec], within_ns: int) -> int:
    """The most open-loop requests that arrive within any such span; `specs` by offset."""
    offsets = np.array([s.offset_ns or 0 for s in specs], dtype=np.int64)
    after = np.searchsorted(offsets, offsets + within_ns, side="left")
    return int((after - np.arange(len(offsets))).max()) if len(offsets) else 0


def split_trace(trace: Trace, parts: int) -> list[Trace]:
    """The same load in `parts` shares for as many processes: every request is in exactly one of them, unchanged.

    Open loop: by request number modulo `parts`. A closed loop's workers are shared out evenly, and the shares take
    turns in its one endless sequence of requests; a loop with fewer workers than `parts` has no share in the last ones.
    """
    return [
        Trace(
            tuple(s for s in trace.open_loop if s.request % parts == part),
            tuple(_share(loop, part, min(parts, loop.workers)) for loop in trace.closed_loops if part < loop.workers),
        )
        for part in range(parts)
    ]


def _share(loop: ClosedLoop, part: int, parts: int) -> ClosedLoop:
    return replace(loop, workers=share_out(loop.workers, [1.0] * parts)[part], part=part, parts=parts)


def in_flight_caps(classes: Sequence[RequestClass], load: Mapping[str, Scalar]) -> dict[str, int]:
    """Requests a class may have running, by class name; the grid's `<class>_max_in_flight` goes before its own cap."""
    caps = {c.name: load.get(f"{c.name}_max_in_flight", c.max_in_flight) for c in classes}
    return {name: int(cap) for name, cap in caps.items() if cap is not None}


def _check_load(classes: Sequence[RequestClass], load: Mapping[str, Scalar]) -> None:
    weighted = [c.name for c in classes if c.weight is not None]
    if weighted and "request_rate" not in load and "max_concurrency" not in load:
        raise ConfigError(f"class {weighted[0]} has a weight, but grid has neither request_rate nor max_concurrency")
    if "max_concurrency" in load and not weighted and not any(c.closed for c in classes):
        raise ConfigError("grid has max_concurrency, but no class has a weight or closed = {concurrency = …}")


def _offsets(
    c: RequestClass,
    classes: Sequence[RequestClass],
    load: Mapping[str, Scalar],
    total_s: float,
    seed: int,
    rows: Sequence[TraceRow],
) -> npt.NDArray[np.int64]:
    """Arrivals of one class in ns from the origin, ascending; none when it runs in a closed loop."""
    scale = float(load.get("load_scale", 1.0))
    if c.dump is not None:
        return np.full(c.dump.count, round(c.dump.at_s * 1e9), dtype=np.int64)
    if c.trace is not None:
        offsets = np.array([r.arrival_s for r in rows], dtype=np.float64) * min(1e9 / scale, 1e60)
        return np.rint(np.clip(offsets, 0, 2.0**62)).astype(np.int64)  # slowed down enough, one fits no int64
    if c.rate is not None:
        rate = c.rate * scale
    elif c.weight is not None and "request_rate" in load:
        rate = float(load["request_rate"]) * c.weight / math.fsum(o.weight for o in classes if o.weight is not None)
    else:
        return np.empty(0, dtype=np.int64)
    return arrival_offsets_ns(c.arrival, rate, total_s, random_stream(seed, c.name, "arrivals"), c.cv)


def _with_lengths(spec: RequestSpec, row: TraceRow) -> RequestSpec:
    """Recorded lengths go before drawn ones."""
    return replace(
        spec,
        prompt_tokens=row.prompt_tokens or spec.prompt_tokens,
        output_tokens=row.output_tokens or spec.output_tokens,
    )


def _closed_loops(
    classes: Sequence[RequestClass], load: Mapping[str, Scalar], seed: int, salt: int, first_request: int
) -> tuple[ClosedLoop, ...]:
    weighted = tuple(c for c in classes if c.weight is not None)
    closed = [(c, c.closed) for c in classes if c.closed is not None]
    workers = [own.concurrency for _, own in closed]
    loops: list[tuple[tuple[RequestClass, ...], int, float]] = []
    if "max_concurrency" in load:
        total = int(load["max_concurrency"])
        if weighted:
            loops.append((weighted, total, 0.0))
        else:
            workers = share_out(total, workers)
    loops += [((c,), n, own.think_s) for (c, own), n in zip(closed, workers, strict=True)]
    return tuple(
        ClosedLoop(mix, n, round(think_s * 1e9), seed, salt, first_request + i, len(loops))
        for i, (mix, n, think_s) in enumerate(loops)
    )


def share_out(total: int, weights: Sequence[float]) -> list[int]:
    """Splits `total` in proportion to `weights` by largest remainder, at least 1 each (the sum is then larger)."""
    exact = [total * w / math.fsum(weights) for w in weights]
    shares = [int(x) for x in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: shares[i] - exact[i])
    for i in by_remainder[: total - sum(shares)]:
        shares[i] += 1
    return [max(1, n) for n in shares]


def _class_specs(c: RequestClass, seed: int, salt: int, offsets: Iterable[int | None]) -> Iterator[RequestSpec]:
    """One spec per offset, not numbered yet."""
    prompts = _lengths(c.prompt_tokens, seed, c.name, "prompt_tokens")
    outputs = _lengths(c.output_tokens, seed, c.name, "output_tokens")
    for index, (offset, prompt, output) in enumerate(zip(offsets, prompts, outputs, strict=False)):
        yield RequestSpec(
            -1, c.name, c.priority, offset, prompt, output, _prompt_key(seed, salt, c.name, index), class_index=index
        )


def _lengths(length: Length, seed: int, name: str, purpose: Purpose) -> Iterator[int]:
    """Endless token counts, the i-th always the same.

    Lognormal: sigma = ln(p90/p50)/z90 around the median, then cut at max. Cutting (not drawing again) keeps p50 and
    p90 where they were asked for; the requests beyond max are sent with max.
    """
    if length.fixed is not None:
        yield from itertools.repeat(length.fixed)
    rng = random_stream(seed, name, purpose)
    while True:
        if length.uniform is not None:
            low, high = length.uniform
            block = np.floor(low + rng.random(_BLOCK) * (high - low + 1))
        else:
            assert length.p50 is not None
            assert length.p90 is not None
            sigma = math.log(length.p90 / length.p50) / Z90
            block = np.rint(length.p50 * np.exp(sigma * rng.standard_normal(_BLOCK)))
            block = np.clip(block, 1, length.max or MOST_TOKENS)
        yield from block.astype(np.int64).tolist()


def _mix(classes: Sequence[RequestClass], seed: int) -> Iterator[int]:
    """Endless positions in `classes`, drawn by weight."""
    edges = np.cumsum([c.weight or 1.0 for c in classes])
    rng = random_stream(seed, "", "mix")
    while True:
        picks = np.searchsorted(edges, rng.random(_BLOCK) * edges[-1], side="right")
        yield from np.minimum(picks, len(classes) - 1).tolist()


def _prompt_key(seed: int, salt: int, name: str, index: int) -> int:
    text = f"{seed}/{salt}/{name}/{index}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def make_prompt(spec: RequestSpec, scale: PromptScale, shared_prefix_tokens: int = 0) -> str:
    """Common words, single spaces between; as many as make `spec.prompt_tokens` on the server, but at least 1.

    The class's shared prefix comes first (the same words in every cell); then the words that spell the request's key,
    so that no two prompts go on alike; then random filler. The prefix always leaves room for the key.
    """
    words = max(1, round((spec.prompt_tokens - scale.overhead_tokens) / scale.tokens_per_word))
    shared = min(round(shared_prefix_tokens / scale.tokens_per_word), max(0, words - KEY_WORDS))
    text = _words(_prompt_key(0, 0, spec.class_name, -1), shared) if shared > 0 else []
    return " ".join(text + _words(spec.prompt_key, words - max(0, shared)))


def _words(key: int, count: int) -> list[str]:
    """`count` words: first the key in base len(WORDS), then filler drawn from a hash of the key."""
    digits = [key // len(WORDS) ** i % len(WORDS) for i in range(min(count, KEY_WORDS))]
    left = count - len(digits)
    # a hash of any length: a random generator takes thirty times as long to be made, and a prompt is made at each send
    noise = hashlib.shake_128(key.to_bytes(8, "big")).digest(2 * left)
    return [WORDS[i % len(WORDS)] for i in (*digits, *struct.unpack(f"<{left}H", noise))]
