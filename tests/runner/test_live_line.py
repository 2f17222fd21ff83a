"""What a line of the live page says of several load processes."""

from pathlib import Path

from runner.live import LiveFeed
from storage.records import ClientSample

SECOND = 1_000_000_000


def sample(at_s: float, loop_lag_ms: float, cpu_share: float) -> ClientSample:
    return ClientSample(0, round(at_s * SECOND), loop_lag_ms, cpu_share, 1)


def test_the_worst_load_process_is_shown(tmp_path: Path) -> None:
    """Of two processes that report once a second each, the later lag and the busier core stand in the line, whoever
    spoke last; what is older than one and a half is forgotten."""
    live = LiveFeed(tmp_path, 1, lambda _: None)
    live.begin_cell(0, "measure")
    assert (live.line()["loop_lag_ms"], live.line()["cpu_share"]) == (None, None)
    live.note_client(sample(1.0, 40.0, 0.2))
    live.note_client(sample(1.3, 2.0, 0.7))
    assert (live.line()["loop_lag_ms"], live.line()["cpu_share"]) == (40.0, 0.7)
    live.note_client(sample(2.0, 1.0, 0.1))
    live.note_client(sample(2.3, 3.0, 0.2))
    live.note_client(sample(3.0, 1.0, 0.1))
    assert (live.line()["loop_lag_ms"], live.line()["cpu_share"]) == (3.0, 0.2)


def test_another_cell_starts_without_the_lag_of_the_last(tmp_path: Path) -> None:
    """A new cell knows nothing of its load processes yet."""
    live = LiveFeed(tmp_path, 2, lambda _: None)
    live.note_client(sample(1.0, 40.0, 0.2))
    live.begin_cell(1, "warmup")
    assert live.line()["loop_lag_ms"] is None
