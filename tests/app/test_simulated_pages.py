"""A sweep of virtual time on the pages: marked wherever it is named, and readable like any other."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app import backends, cache, data, jobs, ui
from runner.queue import enqueue
from runner.simulator.virtual_server import for_virtual_time
from runner.work import run_one
from storage.data_folder import open_data_folder
from tests.support.small_sweeps import quick_config

MAIN = Path(jobs.__file__).with_name("main.py")


@pytest.fixture
def sweep_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One sweep, simulated, in a data folder that the pages look at."""
    no_servers: list[dict[str, object]] = []
    monkeypatch.setattr(backends, "servers_here", lambda: no_servers)
    cache.servers.clear()
    monkeypatch.setattr(data, "SAMPLES", tmp_path / "no-samples")
    folder = open_data_folder(tmp_path / "data")
    monkeypatch.setenv("GOODPUT_DATA", str(folder))
    made = enqueue(folder, for_virtual_time(quick_config()), "test", simulated=True)
    assert run_one(folder, made, lambda line: None) == "done"
    return made


def said(page: AppTest) -> str:
    """Text, small print and what can be picked."""
    texts = [str(e.value) for kind in (page.markdown, page.caption) for e in kind]
    return "\n".join([*texts, *(str(option) for box in page.selectbox for option in box.options)])


@pytest.mark.parametrize("where", [ui.START, ui.LIVE, ui.RESULTS])
def test_every_page_says_that_it_was_simulated(sweep_id: str, where: str) -> None:
    """In the list of the start page, on the live page, on the results: never to be taken for a measurement."""
    page = AppTest.from_file(str(MAIN), default_timeout=60)
    page.query_params["sweep"] = sweep_id
    page.run()
    if where != ui.START:
        page.switch_page(where).run()
    assert [e.message for e in page.exception] == []
    assert "simulated" in said(page).lower()
