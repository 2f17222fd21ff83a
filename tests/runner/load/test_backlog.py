"""Answers that wait to be read: in order, together, none lost, and none kept waiting that somebody needs."""

import asyncio

import pytest

from runner.load import backlog as backlog_module
from runner.load.backlog import FULL, Backlog
from runner.load.client import Answer, Slot, Target
from runner.protocols.facts import Ask


def answers(count: int) -> list[Answer]:
    """That got no answer at all: read in no time."""
    return [Answer(Target("http://127.0.0.1:9"), Ask("a", None, 1), Slot(0, request=i)) for i in range(count)]


@pytest.fixture
def endless_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not asked for soon is not read before there is enough of it."""
    monkeypatch.setattr(backlog_module, "PATIENCE_S", 1e6)


@pytest.mark.usefixtures("endless_patience")
def test_answers_are_read_together_once_there_are_enough() -> None:
    """One fewer than a full batch waits; with the last one all are read, in the order in which they came."""

    async def run() -> tuple[int, list[int]]:
        read: list[int] = []
        backlog = Backlog(lambda answer, result: read.append(answer.slot.request))
        for answer in answers(FULL):
            if answer.slot.request == FULL - 1:
                for _ in range(100):
                    await asyncio.sleep(0)
                early = len(read)
            backlog.add(answer)
        await backlog.drain()
        return early, read

    assert asyncio.run(run()) == (0, list(range(FULL)))


@pytest.mark.usefixtures("endless_patience")
def test_one_that_is_needed_soon_takes_the_waiting_ones_with_it() -> None:
    """A user waits for this record: it is read in the next turns, and so is what came before it."""

    async def run() -> list[int]:
        read: list[int] = []
        done = asyncio.Event()

        def sink(answer: Answer, result: object) -> None:
            read.append(answer.slot.request)
            if answer.slot.request == 1:
                done.set()

        backlog = Backlog(sink)
        first, second = answers(2)
        backlog.add(first)
        backlog.add(second, soon=True)
        await asyncio.wait_for(done.wait(), 30)
        return read

    assert asyncio.run(run()) == [0, 1]


def test_a_single_answer_is_read_after_a_while() -> None:
    """Nobody adds another one, and it is read all the same."""

    async def run() -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        backlog = Backlog(lambda answer, result: done.set_result(answer.slot.request))
        backlog.add(answers(1)[0])
        return await asyncio.wait_for(done, 30)

    assert asyncio.run(run()) == 0


@pytest.mark.usefixtures("endless_patience")
def test_too_many_bytes_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: what is above the limit does not wait for a quiet turn."""
    monkeypatch.setattr(backlog_module, "MAX_PENDING_BYTES", 10)
    read: list[int] = []

    async def run() -> list[int]:
        backlog = Backlog(lambda answer, result: read.append(answer.slot.request))
        for answer in answers(3):
            answer.exchange.parts.append(b"12345678")
            backlog.add(answer)
        at_once = list(read)
        await backlog.drain()
        return at_once

    assert asyncio.run(run()) == [0, 1]
    assert read == [0, 1, 2]
