"""Waiting for a state instead of a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


def until(look: Callable[[], T | None], limit_s: float = PATIENCE_S) -> T:
    """What `look` finds, as soon as it finds something; the limit only ends a test that has failed."""
    deadline = time.monotonic() + limit_s
    while not (found := look()):
        assert time.monotonic() < deadline, "the awaited state did not come"
        time.sleep(0.02)
    return found
