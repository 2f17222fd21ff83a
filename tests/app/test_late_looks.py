"""A look that was asked for on a page that is left must not empty the page that is shown."""

from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.runtime.fragment import MemoryFragmentStorage
from streamlit.runtime.scriptrunner import RerunData, ScriptRunner

from app.late_looks import ignore_late_looks


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[RerunData]:
    """What Streamlit's own runner was given to run, once late looks are ignored."""
    seen: list[RerunData] = []
    assert hasattr(ScriptRunner, "_run_script"), "this Streamlit runs scripts in another way: look at app.late_looks"
    monkeypatch.setattr(ScriptRunner, "_run_script", lambda self, data: seen.append(data))
    ignore_late_looks()
    return seen


def look(data: RerunData, *known: str) -> None:
    """Asks for it in a session that holds the fragments `known`."""
    assert hasattr(MemoryFragmentStorage, "contains")
    session: Any = SimpleNamespace(_fragment_storage=SimpleNamespace(contains=known.__contains__))
    ScriptRunner._run_script(session, data)


def test_a_look_at_a_page_that_was_left_is_no_run(ran: list[RerunData]) -> None:
    """Its fragment is gone since the new page was drawn."""
    look(RerunData(fragment_id_queue=["live"], is_auto_rerun=True), "results")
    assert ran == []


@pytest.mark.parametrize(
    "data",
    [
        RerunData(),
        RerunData(fragment_id_queue=["live"], is_auto_rerun=True),
        RerunData(fragment_id_queue=["gone", "live"], is_auto_rerun=True),
        RerunData(fragment_id_queue=["gone"]),
    ],
)
def test_everything_else_runs_as_before(ran: list[RerunData], data: RerunData) -> None:
    """A page, a fragment that is there, several of which one is, and what a person asked for."""
    look(data, "live")
    assert ran == [data]


def test_it_is_done_once(ran: list[RerunData]) -> None:
    """A second dashboard in the same process adds no second layer."""
    before = ScriptRunner._run_script
    ignore_late_looks()
    assert ScriptRunner._run_script is before
    assert ran == []
