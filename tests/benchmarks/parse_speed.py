"""Time to read one event of the chat dialect, JSON included. By hand: `python -m tests.benchmarks.parse_speed`."""

import json
import statistics
import time

from runner.protocols.dialects import DIALECTS
from runner.protocols.facts import StampedRead

EVENTS = 20_000
ROUNDS = 5
FIELDS = {
    "id": "chatcmpl-9b1f8f0c2d7a4e55",
    "object": "chat.completion.chunk",
    "created": 1700000000,
    "model": "some/model-8b-instruct",
}


def stream(events: int) -> list[bytes]:
    """One event each, as vLLM writes them."""
    delta = {"choices": [{"index": 0, "delta": {"content": " word"}, "logprobs": None, "finish_reason": None}]}
    return [b"data: " + json.dumps(FIELDS | delta).encode() + b"\n\n"] * events + [b"data: [DONE]\n\n"]


def us_per_event(reads: list[StampedRead]) -> float:
    """Median of some rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        facts = DIALECTS["openai_chat"].read_stream(reads, content_type="text/event-stream", clean_end=True)
        times.append(time.perf_counter() - start)
        assert len(facts.chunk_stamps_ns) == EVENTS
    return statistics.median(times) / EVENTS * 1e6


def main() -> None:
    chunks = stream(EVENTS)
    whole = b"".join(chunks)
    joined = [whole[start : start + 65536] for start in range(0, len(whole), 65536)]
    for name, pieces in (("one event in a read", chunks), ("64 KiB reads", joined)):
        reads = [(1000 * number, piece) for number, piece in enumerate(pieces)]
        print(f"{name}: {us_per_event(reads):.2f} µs an event")


if __name__ == "__main__":
    main()
