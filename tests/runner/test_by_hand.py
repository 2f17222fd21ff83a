"""What a sweep asks the person at the server stands in its state, and the answer is taken once."""

import asyncio
from pathlib import Path

import pytest

from runner.by_hand import user_of
from runner.live import LiveFeed
from storage.side_files import ask, asked, read_state


def test_what_is_asked_stands_in_the_state_until_it_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Paused with setting and text, told on stderr with both ways to go on; the answer counts once."""
    live = LiveFeed(tmp_path, 1, lambda _: None)
    user = user_of(tmp_path, live)
    ask(tmp_path, "continue")  # said before anything was asked
    user.ask({"max_num_seqs": 8}, "Set it to 8.")
    state = read_state(tmp_path) or {}
    assert (state["status"], state["waiting_for"]) == (
        "paused",
        {"setting": {"max_num_seqs": 8}, "text": "Set it to 8."},
    )
    assert f"Set it to 8. Then press Continue on the Live page, run `goodput continue {tmp_path.name}`." in (
        capsys.readouterr().err
    )
    assert not user.continued()
    ask(tmp_path, "continue")
    assert user.continued()
    state = read_state(tmp_path) or {}
    assert (state["status"], state["waiting_for"]) == ("running", None)
    assert not asked(tmp_path, "continue")
    assert not user.continued()


def test_a_heartbeat_that_is_being_written_does_not_hide_what_is_asked(tmp_path: Path) -> None:
    """The second's tick began before the question, and is written after it: the question still stands."""

    async def run() -> None:
        live = LiveFeed(tmp_path, 1, lambda _: None)
        user = user_of(tmp_path, live)
        for _ in range(20):
            ticks = [asyncio.create_task(live.tick()) for _ in range(3)]
            await asyncio.sleep(0)  # their threads are on their way
            user.ask({}, "Do it.")
            await asyncio.gather(*ticks)
            assert (read_state(tmp_path) or {})["waiting_for"] is not None
            user.thank()

    asyncio.run(run())
