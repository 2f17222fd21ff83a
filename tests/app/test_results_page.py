"""The results page without a browser: its address, what leads where, and states that are not the usual one."""

import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from streamlit.testing.v1 import AppTest

from app import cache, ui
from runner.quick_check import quick_check
from storage.errors import StorageError
from storage.side_files import write_state
from storage.tables import SweepTables
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import Open, data_dir, fine, opened, shown, started
from tests.support.tables import make_cell, make_config, make_request, make_tables

__all__ = ["data_dir", "opened", "started"]  # fixtures


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of two settings at two rates; the first cell of the second setting failed."""
    t = made_up_tables((2, 8), (2048,), (1.0, 3.0))
    tables = SweepTables({**t.meta, "name": "two settings"}, t.cells, t.requests, t.engine, t.client)
    return finished_sweep(tmp_path_factory.mktemp("once"), tables, "made-up")


@pytest.fixture
def made(made_once: Path, data_dir: Path) -> Path:
    return Path(shutil.copytree(made_once, data_dir / "sweeps" / "made-up"))


def told(at: AppTest, key: str) -> str | None:
    """A name of the page's address."""
    value = at.query_params.get(key)
    return str(value[0] if isinstance(value, list) else value) if value else None


def test_an_address_opens_what_it_names(opened: Open, made: Path) -> None:
    """Sweep, section, cell and request come from the address, and stand in it."""
    at = opened(ui.RESULTS, "made-up", section="cell", cell="1", request="7")
    assert at.session_state["section"] == "cell"
    assert at.selectbox(key="cell").value == 1
    assert at.number_input(key="request").value == 7
    assert "Request 7," in shown(at)
    assert [told(at, k) for k in ("sweep", "section", "cell", "request")] == ["made-up", "cell", "1", "7"]


def test_a_wrong_address_opens_what_there_is(opened: Open, made: Path) -> None:
    """Names that are none fall back to the usual section, the pick's cell and its request of the longest gap."""
    at = opened(ui.RESULTS, "made-up", section="../etc", cell="99", request="x")
    assert told(at, "section") == "latency"
    at = opened(ui.RESULTS, "made-up", section="cell", cell="99", request="-1")
    assert told(at, "cell") in ("0", "1")
    assert told(at, "request") is not None


def test_the_address_follows_what_is_chosen(opened: Open, made: Path) -> None:
    """Another section and another cell change it; a section without a cell has none in it."""
    at = opened(ui.RESULTS, "made-up", section="cell", cell="0")
    at.selectbox(key="cell").set_value(1)
    fine(at.run())
    assert told(at, "cell") == "1"
    at.session_state["section"] = "numbers"
    fine(at.run())
    assert told(at, "section") == "numbers"
    assert told(at, "cell") is None


def test_the_back_button_brings_back_what_was_there(opened: Open, made: Path) -> None:
    """An address that changes by itself goes before what was chosen."""
    at = opened(ui.RESULTS, "made-up", section="batch")
    at.session_state["section"] = "grid"
    fine(at.run())
    assert told(at, "section") == "grid"
    at.query_params["section"] = "batch"
    fine(at.run())
    assert at.session_state["section"] == "batch"


def test_a_kept_result_needs_no_look_at_requests(opened: Open, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large sweep is shown at once; only what is asked of single requests is read, or says why it can't be."""
    before = shown(opened(ui.RESULTS, "made-up"))
    for remembered in (cache._own_result, cache._prepared):
        remembered.clear()

    def unreadable(folder: Path) -> NoReturn:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(cache, "load_prepared", unreadable)
    assert shown(opened(ui.RESULTS, "made-up")) == before
    assert "the disk is gone" in opened(ui.RESULTS, "made-up", section="cell").error[0].value


@pytest.mark.parametrize("section", ["spread", "time", "stalls", "cell"])
def test_closer_looks_follow_the_targets(opened: Open, made: Path, section: str) -> None:
    """Each draws at the sweep's own targets and at hard ones."""
    at = opened(ui.RESULTS, "made-up", section=section)
    at.select_slider(key="gap-chat-made-up").set_value(5.0)
    at.select_slider(key="ttft-rag-made-up").set_value(50.0)
    fine(at.run())


def test_stalls_are_listed_with_the_worst_first(opened: Open, made: Path) -> None:
    """Large prefills freeze running chats: the page says how many passed by their mean all the same."""
    at = opened(ui.RESULTS, "made-up", section="stalls")
    assert "froze all the same" in shown(at)
    frame = at.dataframe[0].value
    assert {"cell", "request", "longest_gap"} <= set(frame.columns)


def test_a_box_narrows_the_numbers_and_a_button_takes_it_away(opened: Open, made: Path) -> None:
    """Cells that were boxed are the rows that are left; another sweep's box means nothing."""
    at = opened(ui.RESULTS, "made-up", section="numbers")
    everything = len(at.dataframe[0].value)
    at.session_state["brushed"] = ("made-up", [0])
    assert len(fine(at.run()).dataframe[0].value) == 1
    at.button(key="show-all").click()
    assert len(fine(at.run()).dataframe[0].value) == everything
    at.session_state["brushed"] = ("another", [0])
    assert len(fine(at.run()).dataframe[0].value) == everything


def test_a_long_cell_is_looked_at_from_a_moment_on(opened: Open, data_dir: Path) -> None:
    """More requests than fit one picture: it begins where the asked-for request is among them."""
    requests = [make_request(i, at_ms=200 * i, gaps_ms=[20, 30]) for i in range(450)]
    finished_sweep(data_dir, make_tables(requests, cells=[make_cell()], config=make_config()), "long")
    at = opened(ui.RESULTS, "long", section="cell", cell="0", request="440")
    assert at.slider(key="from-0").value == pytest.approx(30.0)  # the last 300 of 450, one every 0.2 s


def test_a_cell_without_requests_says_so(opened: Open, data_dir: Path) -> None:
    """An idle cell draws nothing and raises nothing."""
    finished_sweep(data_dir, make_tables(cells=[make_cell()], config=make_config()), "idle")
    assert "No request was sent in this cell." in shown(opened(ui.RESULTS, "idle", section="cell", cell="0"))


def test_a_quick_check_answers_with_its_own_sentence(opened: Open, data_dir: Path) -> None:
    """How many people can chat at once, not the verdict of a long sweep."""
    config = quick_check({"kind": "openai", "url": "http://127.0.0.1:9"}, "Quick check: x")
    cells = [make_cell(i, setting={}, load={"max_concurrency": n}) for i, n in enumerate((1, 2, 4, 8))]
    requests = [make_request(i, at_ms=2000 * i, gaps_ms=[20] * 15, cell=cell) for cell in range(4) for i in range(12)]
    finished_sweep(data_dir, make_tables(requests, cells=cells, config=config), "quick")
    at = opened(ui.RESULTS, "quick")
    assert "At least 8 people can chat at once" in at.markdown[0].value


def test_a_sweep_of_a_later_version_is_told_in_one_sentence(opened: Open, made: Path) -> None:
    """A configuration that this version can't read says so, and the page and its list stay."""
    (made / "sweep.duckdb").unlink()
    at = opened(ui.RESULTS, "made-up")
    assert len(at.error) == 1
    assert at.selectbox(key="which").value == "made-up"


def test_the_line_to_paste_is_text(opened: Open, data_dir: Path) -> None:
    """A start line with markup in it is shown as it is."""
    line = "serve '<img src=x onerror=alert(1)>' & wait"
    requests = [make_request(i, at_ms=2000 * i, gaps_ms=[20] * 15) for i in range(45)]
    finished_sweep(data_dir, make_tables(requests, cells=[make_cell(start_line=line)], config=make_config()), "line")
    at = opened(ui.RESULTS, "line")
    (shown_line,) = [x.proto.body for x in at.get("html") if "to-paste" in x.proto.body]
    assert "serve &#x27;&lt;img src=x onerror=alert(1)&gt;&#x27; &amp; wait</pre>" in shown_line
    assert "<img" not in shown_line


def test_a_failed_sweep_says_why_and_offers_to_go_on(opened: Open, made: Path) -> None:
    """What ended it, how far it came, and the way on."""
    write_state(made, {"status": "failed", "cells_done": 1, "cells_total": 4, "message": "the server did not start"})
    at = opened(ui.RESULTS, "made-up")
    assert "the server did not start" in shown(at)
    assert at.button(key="resume")


def test_largest_loads_have_a_section_where_they_were_searched(opened: Open, data_dir: Path) -> None:
    """A sweep that searched for rates tells them; one that did not has no such section."""
    requests = [make_request(i, at_ms=2000 * i, gaps_ms=[20] * 15) for i in range(45)]
    config = make_config(run={"duration_s": 100, "warmup_s": 0, "find_rate": True})
    finished_sweep(data_dir, make_tables(requests, cells=[make_cell()], config=config), "searched")
    at = opened(ui.RESULTS, "searched", section="rates")
    assert at.session_state["section"] == "rates"
    assert "keeps its targets" in shown(at)
