"""Settings that a person changes: what is asked, what is checked, when it goes on. Real sockets; the user is played."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.config import Scalar, SweepConfig
from runner.engines.address import free_port
from runner.engines.catalogue import KINDS
from runner.engines.readiness import wait_until_ready
from runner.engines.running import Running, User
from runner.engines.server import Server
from runner.engines.set_by_hand import instruction
from runner.errors import SettingFailed, SettingSkipped
from tests.engines_support.http_pages import Reply, Request, serve_pages
from tests.engines_support.sweeps import sweep
from tests.support.posting_server import server as fixed_pages

PAGES: dict[str, Any] = {"/health": {}, "/props": {"total_slots": 4}}


class Played:
    """A user who does one thing after each question: `acts` in order; the last one goes on for ever."""

    def __init__(self, *acts: Callable[[], bool]) -> None:
        self.asked: list[str] = []
        self.settings: list[Mapping[str, Scalar]] = []
        self.thanked = 0
        self.skip = False
        self._acts = acts

    def user(self) -> User:
        return User(self._ask, self._continued, lambda: self.skip, self._thank)

    def _ask(self, setting: Mapping[str, Scalar], text: str) -> None:
        self.settings.append(setting)
        self.asked.append(text)

    def _continued(self) -> bool:
        return self._acts[min(len(self.asked), len(self._acts)) - 1]()

    def _thank(self) -> None:
        self.thanked += 1


def yes() -> bool:
    return True


def by_hand(url: str, **grid: list[Any]) -> SweepConfig:
    return sweep({"kind": "llama_cpp", "url": url}, grid or {"max_num_seqs": [4, 8]}, mode="manual")


def apply(config: SweepConfig, played: Played, *settings: dict[str, Scalar]) -> list[Running]:
    async def run() -> list[Running]:
        server = Server(config, Path(), user=played.user())
        return [await server.apply(s) for s in settings]

    return asyncio.run(run())


def test_the_text_names_what_changes_and_where_with_the_start_line() -> None:
    """First every key, then only what differs; the fragment to paste is whole, in the engine's own flags."""
    config = by_hand("http://127.0.0.1:8080/v1", max_num_seqs=[4, 8], max_num_batched_tokens=[256], kind=["a", "b"])
    first = {"max_num_seqs": 4, "max_num_batched_tokens": 256, "kind": "a"}
    assert instruction(config, first, None) == (
        "Set max_num_seqs to 4, max_num_batched_tokens to 256 and kind to a on the server at http://127.0.0.1:8080 "
        "and restart it with -np 4 -b 256."
    )
    assert instruction(config, {**first, "max_num_seqs": 8}, first) == (
        "Set max_num_seqs to 8 on the server at http://127.0.0.1:8080 and restart it with -np 8 -b 256."
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ollama", " with OLLAMA_NUM_PARALLEL=8"),
        ("tabbyapi", " with model.max_batch_size = 8 in config.yml"),
        ("openai", ""),
    ],
)
def test_each_kind_of_server_is_named_its_own_way_of_being_set(kind: str, words: str) -> None:
    """A variable, a key of a settings file; nothing is made up for a server that is not known."""
    config = sweep({"kind": kind, "url": "http://127.0.0.1:1"}, {"max_num_seqs": [8]}, mode="manual")
    text = instruction(config, {"max_num_seqs": 8}, None)
    assert text == f"Set max_num_seqs to 8 on the server at http://127.0.0.1:1 and restart it{words}."


def test_the_user_is_asked_once_for_each_setting(tmp_path: Path) -> None:
    """Asked, continued, measured; cells of the same setting are not asked for again."""
    pages = {**PAGES}
    played = Played(yes, lambda: pages.update({"/props": {"total_slots": 8}}) is None)
    with fixed_pages(pages, lambda path, body: (404, "")) as (url, _):
        # the pages come from this very process, which is never restarted
        config = by_hand(url)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("runner.engines.proof.listener_of", lambda port: None)
            got = apply(config, played, {"max_num_seqs": 4}, {"max_num_seqs": 4}, {"max_num_seqs": 8})
    assert [r.started_new for r in got] == [True, False, True]
    assert [r.notes for r in got] == [(), (), ()]
    assert [s["max_num_seqs"] for s in played.settings] == [4, 8]
    assert played.thanked == 2
    assert got[0].start_line is None


def test_a_server_that_does_not_answer_is_told_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Continued too early: the sentence says so, nothing fails, and the next continue finds the server."""
    monkeypatch.setattr("runner.engines.readiness._FOREIGN_PATIENCE_S", 0.1)
    pages: dict[str, Any] = {"/props": {"total_slots": 4}, "/health": (401, "{}")}
    played = Played(yes, lambda: pages.update({"/health": {}}) is None)
    with fixed_pages(pages, lambda path, body: (404, "")) as (url, _):
        (running,) = apply(by_hand(url), played, {"max_num_seqs": 4})
    assert running.notes == ()
    assert len(played.asked) == 2
    assert "Not yet: " in played.asked[1]
    assert "wants a key" in played.asked[1]
    assert played.asked[1].endswith(played.asked[0])


def test_a_setting_that_was_not_tried_may_be_skipped() -> None:
    """The user leaves the cell out at once: nothing is wrong with the setting."""
    played = Played(lambda: setattr(played, "skip", True) is not None)
    with pytest.raises(SettingSkipped, match="skipped by the user"):
        apply(by_hand(f"http://127.0.0.1:{free_port()}"), played, {"max_num_seqs": 4})


def test_a_closed_port_is_waited_for_until_the_user_gives_the_setting_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens: asked again and again; left out after that, the setting has failed, and for this reason."""
    monkeypatch.setattr("runner.engines.readiness._FOREIGN_PATIENCE_S", 0.1)
    played = Played(yes, lambda: setattr(played, "skip", True) is not None)
    with pytest.raises(SettingFailed, match=r"given up by the user: .*does not answer"):
        apply(by_hand(f"http://127.0.0.1:{free_port()}"), played, {"max_num_seqs": 4})
    assert "does not answer" in played.asked[1]
    assert played.thanked == 1


def test_a_server_that_dies_while_it_loads_is_told_long_before_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered 503, then nobody: without this a person would be left in silence for the half hour of the limit."""
    monkeypatch.setattr("runner.engines.readiness._FOREIGN_PATIENCE_S", 0.3)
    port = free_port()
    asked: list[str] = []

    async def loads(request: Request) -> Reply:
        asked.append(request.path)
        return 503, {}, "loading"

    async def run() -> None:
        async with serve_pages(loads, port):
            waiting = asyncio.create_task(wait_until_ready(f"http://127.0.0.1:{port}", KINDS["openai"], None, 1800.0))
            while not asked:
                await asyncio.sleep(0.01)
        with pytest.raises(SettingFailed, match="stopped answering while it was loading") as failed:
            await asyncio.wait_for(waiting, 60.0)
        assert failed.value.error_kind == "unreachable"

    asyncio.run(run())


def test_a_server_that_says_something_else_needs_a_second_yes_and_a_note() -> None:
    """Four slots instead of eight: told in one sentence; continued all the same, the cells carry the note."""
    played = Played(yes, yes)
    with fixed_pages(PAGES, lambda path, body: (404, "")) as (url, _):
        (running,) = apply(by_hand(url), played, {"max_num_seqs": 8})
    wrong = "the server says that it runs with max_num_seqs 4 instead of 8"
    assert played.asked[1].startswith(f"Not yet: {wrong}. Set max_num_seqs to 8 on ")
    assert played.asked[1].endswith("To measure it all the same, continue once more.")
    assert running.notes == (f"{wrong}; the user went on all the same",)


def test_a_server_that_was_not_restarted_needs_a_second_yes_and_a_note() -> None:
    """The same process answers as for the setting before, and it does not tell its setting."""
    played = Played(yes, yes, yes)
    with fixed_pages({"/health": {}}, lambda path, body: (404, "")) as (url, _):
        first, second = apply(by_hand(url), played, {"max_num_seqs": 4}, {"max_num_seqs": 8})
    assert first.notes == ()
    assert second.notes == (
        "the server has not been restarted since the setting before; the user went on all the same",
    )
    assert len(played.asked) == 3


def test_a_sweep_without_server_settings_asks_nobody(tmp_path: Path) -> None:
    """By hand with only load axes there is nothing to change."""
    with fixed_pages(PAGES, lambda path, body: (404, "")) as (url, _):
        config = sweep({"kind": "llama_cpp", "url": url}, mode="manual")
        running = asyncio.run(Server(config, tmp_path).apply({}))
    assert running.started_new is False
