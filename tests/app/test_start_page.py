"""The start page without a browser: quick check, the list, states that are no success."""

import os
import time
from pathlib import Path

import psutil
import pytest

from app import backends
from runner.queue import enqueue
from storage.side_files import list_sweeps, write_state
from tests.support.pages import Open, address, data_dir, fine, opened, shown, started
from tests.support.small_sweeps import quick_config

__all__ = ["data_dir", "opened", "started"]  # fixtures
FOUND = {
    "kind": "llama_cpp",
    "title": "llama.cpp",
    "url": "http://127.0.0.1:8080",
    "version": "b1",
    "models": ["/models/<b>x</b>.gguf"],
    "api": "openai_chat",
    "metrics": False,
    "metrics_hint": "start llama-server with --metrics",
    "needs_key": False,
    "notes": [],
}


def test_a_found_server_is_checked_with_one_click(
    opened: Open, data_dir: Path, monkeypatch: pytest.MonkeyPatch, started: list[Path]
) -> None:
    """The button queues the small sweep under the server's name and leads to the live page; a path is shortened."""
    monkeypatch.setattr(backends, "servers_here", lambda: [FOUND])
    at = opened()
    assert "llama.cpp b1, with b>.gguf." in shown(at)
    at.button(key="check-0").click()
    fine(at.run())
    (sweep,) = list_sweeps(data_dir)
    assert (sweep.name, sweep.source, sweep.cells_total) == (
        "Quick check: llama.cpp at 127.0.0.1:8080", "quick check", 4
    )  # fmt: skip
    assert address(at) == sweep.sweep_id
    assert started == [data_dir]


def test_a_server_that_wants_a_key_is_not_checked_without(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its button is off; the note says how a key is given."""
    monkeypatch.setattr(backends, "servers_here", lambda: [{**FOUND, "needs_key": True, "notes": ["It wants a key."]}])
    at = opened()
    assert at.button(key="check-0").disabled
    assert "It wants a key." in shown(at)


@pytest.mark.parametrize(
    ("typed", "found", "problem", "queued"),
    [
        ("10.0.0.7:8080", FOUND, None, 1),
        ("10.0.0.7:8080", None, None, 1),
        ("10.0.0.7:8080", None, "Nobody answers.", 0),
        ("10.0.0.7:8080", FOUND, "It wants an API key.", 0),
        ("", None, None, 0),
    ],
)
def test_a_typed_address_is_looked_at_first(
    opened: Open,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    found: dict[str, object] | None,
    problem: str | None,
    queued: int,
) -> None:
    """What can't be measured is told on the page and leaves no sweep behind."""
    monkeypatch.setattr(backends, "look_at", lambda url, w: (found, problem))
    at = opened()
    at.text_input(key="typed").set_value(typed)
    at.button(key="check-typed").click()
    fine(at.run())
    assert len(list_sweeps(data_dir)) == queued
    assert len(at.error) == 1 - queued


def test_what_runs_stands_before_everything_else(opened: Open, data_dir: Path, started: list[Path]) -> None:
    """With its progress, and a button that leads to it."""
    sweep = enqueue(data_dir, quick_config(), "test")
    state = {"pid": os.getpid(), "create_time": psutil.Process().create_time(), "heartbeat_unix_ns": time.time_ns()}
    write_state(data_dir / "sweeps" / sweep, {"status": "running", **state, "cells_total": 4, "cells_done": 1})
    at = opened()
    assert "Now: quick" in shown(at)
    at.button(key=f"watch-{sweep}").click()
    fine(at.run())
    assert address(at) == sweep


def test_sweeps_without_a_result_say_why(opened: Open, data_dir: Path) -> None:
    """Failed, cut short, damaged: a sentence each in place of the verdict."""
    names = [enqueue(data_dir, quick_config(name=name), "test") for name in ("one", "two", "three")]
    folders = [data_dir / "sweeps" / name for name in names]
    write_state(folders[0], {"status": "failed", "message": "backend: nobody *answers*"})
    write_state(folders[1], {"status": "running"})
    (folders[2] / "sweep.json").write_text("{half")
    text = shown(opened())
    assert "backend: nobody *answers*" in text
    assert "It was cut short" in text
    assert f"copy the folder {names[2]} again" in text


def test_200_sweeps_are_listed_at_once(opened: Open, data_dir: Path) -> None:
    """Page by page, newest first, found by name; the whole page takes no longer than a look."""
    for number in range(200):
        folder = data_dir / "sweeps" / f"s{number:03}"
        folder.mkdir()
        (folder / "sweep.json").write_text(f'{{"name": "sweep {number}", "created_unix_ns": {number + 1}}}')
        write_state(folder, {"status": "done", "cells_total": 4, "cells_done": 4, "verdict": f"verdict {number}"})
    at = opened()
    assert "verdict 199" in shown(at)
    assert "verdict 187" not in shown(at)
    at.get("pagination")[0].set_value(17)
    assert "verdict 0\n" in shown(fine(at.run())) + "\n"
    assert "verdict 199" not in shown(at)
    at.text_input(key="find").set_value("SWEEP 77")
    fine(at.run())
    assert "verdict 77" in shown(at)
    assert len(at.get("page_link")) == 1
    at.text_input(key="find").set_value("nothing like it")
    assert "No sweep has that in its name." in shown(fine(at.run()))


def test_an_address_carries_the_search_of_the_list(opened: Open, data_dir: Path) -> None:
    """A link to the sweeps of a name, or to a later part of the list, opens with them."""
    for number in range(13):
        enqueue(data_dir, quick_config(name=f"sweep {number}"), "test")
    assert len(opened(find="sweep 1").get("page_link")) == 4  # 1, 10, 11, 12
    assert len(opened(part="2").get("page_link")) == 1
