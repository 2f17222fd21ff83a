"""One playing of all stream cases serves all tests of this folder."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from tests.cases.play import Outcome, play_all

PATIENCE_S = 60.0


@pytest.fixture(scope="session")
def playing(request: pytest.FixtureRequest) -> Iterator["Future[dict[str, Outcome]] | None"]:
    """Begins with the first test that asks for it, in a process of its own: the slowest case takes 8 s, during which
    the cases about load are tested. Nothing is played when no selected test needs it."""
    if not any("played" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield None
        return
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        yield process.submit(play_all)


@pytest.fixture(scope="session")
def played(playing: "Future[dict[str, Outcome]]") -> dict[str, Outcome]:
    """Every stream case by id, played once over loopback."""
    return playing.result(PATIENCE_S)
