"""The pages without a browser: what they say, what they queue, what they never do."""

import os
import re
import shutil
import time
from pathlib import Path

import psutil
import pytest

from app import backends, data, ui
from storage.side_files import append_line, asked, list_sweeps, status_of, write_state
from storage.tables import SweepTables
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import HOSTILE, Open, address, data_dir, fine, opened, said, shown, started
from tests.support.tables import make_cell, make_config, make_request, make_tables

__all__ = ["data_dir", "opened", "started"]  # fixtures
PAGES = (ui.START, ui.NEW, ui.LIVE, ui.RESULTS, ui.WHAT_IF, ui.BACKENDS, ui.METHOD)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep with a hostile name: four settings, two rates, of which one setting failed."""
    t = made_up_tables((2, 8), (256, 2048), (1.0, 3.0))
    tables = SweepTables({**t.meta, "name": HOSTILE}, t.cells, t.requests, t.engine, t.client)
    return finished_sweep(tmp_path_factory.mktemp("once"), tables, "made-up")


@pytest.fixture
def made(made_once: Path, data_dir: Path) -> Path:
    """A copy of that sweep in the data folder of the test."""
    return Path(shutil.copytree(made_once, data_dir / "sweeps" / "made-up"))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_on_an_empty_data_folder(opened: Open, page: str) -> None:
    """A first visit meets no error on any page."""
    assert said(opened(page))


@pytest.mark.parametrize("page", [ui.LIVE, ui.COMPARE])
def test_the_language_can_be_switched_below_a_page_that_ends_early(opened: Open, page: str) -> None:
    """An empty page has its foot too, and a wrong address in the chosen language is told in it."""
    assert opened(page).selectbox(key="lang").value == "en"
    wrong = opened(ui.RESULTS, "gone", lang="pl")
    assert wrong.selectbox(key="lang").value == "pl"
    assert "gone" in wrong.error[0].value
    assert "there is" not in wrong.error[0].value.lower()


def test_an_import_is_no_lost_sweep(opened: Open, data_dir: Path) -> None:
    """Its address on the live page leads to the page that shows it."""
    (data_dir / "imports" / "imp-0123456789ab").mkdir(parents=True)
    at = opened(ui.LIVE, "imp-0123456789ab")
    assert not at.error
    assert "imported" in at.info[0].value
    assert at.get("page_link")


def test_demo_button_gives_one_sweep_and_leads_to_live(opened: Open, data_dir: Path, started: list[Path]) -> None:
    """A double click, and a click in a second browser, still give one sweep and one worker."""
    at = opened()
    at.button(key="demo").click()
    fine(at.run())
    other = opened()
    other.button(key="demo").click()
    fine(other.run())
    sweeps = list_sweeps(data_dir)
    assert [s.status for s in sweeps] == ["queued"]
    assert started == [data_dir]
    assert address(at) == address(other) == sweeps[0].sweep_id
    assert at.button(key="stop").label == "Stop"


def test_stopping_a_waiting_sweep_takes_it_out_of_the_queue(opened: Open, data_dir: Path) -> None:
    """A sweep that nobody measures yet is stopped at once, and can be resumed."""
    at = opened()
    at.button(key="demo").click()
    at.run()
    at.button(key="stop").click()
    fine(at.run())
    (sweep,) = list_sweeps(data_dir)
    assert (sweep.status, list((data_dir / "queue").iterdir())) == ("stopped", [])


def test_results_say_the_verdict_and_sliders_change_it(opened: Open, made: Path) -> None:
    """Harder targets change the answer at once; the button brings the first answer back."""
    at = opened(ui.RESULTS, "made-up")
    first = at.markdown[0].value
    assert "max\\_num\\_seqs" in first
    at.select_slider(key="gap-chat-made-up").set_value(5.0)
    fine(at.run())
    assert at.markdown[0].value != first
    assert "Target missed everywhere" in at.markdown[0].value
    at.button(key="reset").click()
    fine(at.run())
    assert at.markdown[0].value == first


@pytest.mark.parametrize("section", ["latency", "grid", "share", "rules", "batch", "cell", "numbers", "facts"])
def test_every_section_of_the_results_opens(opened: Open, made: Path, section: str) -> None:
    """Each closer look draws, for the pick and for a cell that failed."""
    at = opened(ui.RESULTS, "made-up")
    at.session_state["section"] = section
    fine(at.run())
    if section == "cell":
        at.selectbox(key="cell").set_value(6)
        assert "out of memory" in said(fine(at.run()))


def test_names_are_text_and_never_markup(opened: Open, made: Path) -> None:
    """HTML, links, images, icons and formulas in a sweep's name are shown, not interpreted."""
    append_line(made, "live.jsonl", {"at_s": 1, "cell": 0, "errors": {HOSTILE: 1}})
    for page in (ui.START, ui.RESULTS, ui.LIVE):
        at = opened(page, "made-up")
        assert page == ui.RESULTS or HOSTILE in shown(at)
        bare = re.sub(r"\\.", "", said(at))  # what is left without its escaped characters
        bare = re.sub(r":[a-z]+-badge\[[a-z]+\]", "", bare)
        assert set(bare) & set("<>[]()`$!_~|") == set()
        assert ":material" not in bare


def test_a_damaged_sweep_is_told_in_one_sentence(opened: Open, made: Path) -> None:
    """A half-copied database gives a sentence that names it, and the page stays."""
    (made / "sweep.duckdb").write_bytes(b"not a database")
    at = opened(ui.RESULTS, "made-up")
    assert len(at.error) == 1
    assert "sweep" in at.error[0].value
    assert at.selectbox(key="which").value == "made-up"


def test_a_wrong_address_is_told_in_one_sentence(opened: Open) -> None:
    """An id that is none, or not even the shape of one, gives a sentence and a way back."""
    for wrong in ("gone", "../../etc/passwd"):
        at = opened(ui.RESULTS, wrong)
        assert len(at.error) == 1
        assert at.get("page_link")


def test_a_sweep_that_waits_for_a_person_says_what_to_change(opened: Open, made: Path) -> None:
    """The live page shows the text as text, and its button lets the sweep go on; the other buttons stay."""
    state = {"pid": os.getpid(), "create_time": psutil.Process().create_time(), "heartbeat_unix_ns": time.time_ns()}
    waiting_for = {"setting": {"max_num_seqs": 8}, "text": f"Set max_num_seqs to 8 on {HOSTILE} and restart it."}
    write_state(made, {"status": "paused", **state, "cells_total": 8, "cells_done": 1, "waiting_for": waiting_for})
    at = opened(ui.LIVE, "made-up")
    assert at.warning[0].value == ui.plain(waiting_for["text"])
    assert not asked(made, "continue")
    at.button(key="continue").click()
    fine(at.run())
    assert asked(made, "continue")
    assert at.button(key="skip")
    write_state(made, {"status": "running", **state, "cells_total": 8, "cells_done": 1, "waiting_for": None})
    assert "continue" not in {b.key for b in fine(at.run()).button}


def test_a_running_sweep_is_watched_not_opened(opened: Open, made: Path) -> None:
    """While the worker holds the database the results page only points to the live page."""
    state = {"pid": os.getpid(), "create_time": psutil.Process().create_time(), "heartbeat_unix_ns": time.time_ns()}
    write_state(made, {"status": "running", **state, "cell": 1, "cells_total": 8, "cells_done": 1})
    append_line(
        made,
        "live.jsonl",
        {
            "at_s": 5.0,
            "cell": 1,
            "phase": "measure",
            "eta_s": 60.0,
            "sent": 12,
            "completed": 9,
            "errors": {"timeout": 3},
        },
    )
    at = opened(ui.RESULTS, "made-up")
    at.button(key="watch").click()
    fine(at.run())
    assert "Cell 2 of 8, max_num_seqs 2, max_num_batched_tokens 256 at 3 req/s: measuring." in shown(at)
    assert list(at.dataframe[-1].value["kind"]) == ["timeout"]
    at.button(key="pause").click()
    at.button(key="pause").click()
    fine(at.run())
    assert asked(made, "pause")


def test_the_results_of_a_stopped_sweep_offer_to_go_on(opened: Open, made: Path, started: list[Path]) -> None:
    """What was stopped opens with its results; the button queues the rest."""
    write_state(made, {"status": "stopped", "cells_done": 2, "cells_total": 9})
    at = opened(ui.RESULTS, "made-up")
    at.button(key="resume").click()
    fine(at.run())
    assert status_of(made) == "queued"
    assert started


def test_an_interrupted_sweep_offers_to_go_on(opened: Open, made: Path, started: list[Path]) -> None:
    """Its worker is gone: Resume queues it again, with what is finished kept."""
    write_state(made, {"status": "running"})
    assert status_of(made) == "interrupted"
    at = opened(ui.LIVE, "made-up")
    at.button(key="resume").click()
    fine(at.run())
    assert status_of(made) == "queued"
    assert started == [made.parents[1]]


def test_a_new_sweep_is_sized_and_queued(opened: Open, data_dir: Path) -> None:
    """The form's defaults are a valid sweep: 3 limits x 2 budgets x 3 rates, one server start a setting."""
    at = opened(ui.NEW)
    assert [m.value for m in at.metric[:2]] == ["18", "6"]
    at.button(key="start").click()
    fine(at.run())
    (sweep,) = list_sweeps(data_dir)
    assert (sweep.status, sweep.cells_total) == ("queued", 18)
    assert address(at) == sweep.sweep_id


def test_a_form_that_is_no_sweep_says_why_in_one_sentence(opened: Open, data_dir: Path) -> None:
    """A server without an address is asked for, a wrong one is told; neither can be started."""
    at = opened(ui.NEW)
    at.button_group(key="server").set_value("address")
    assert "Type the address" in shown(fine(at.run()))
    at.text_input(key="url").set_value("ftp://host")
    fine(at.run())
    assert len(at.error) == 1
    assert "is not a web address" in at.error[0].value
    assert list_sweeps(data_dir) == []


def test_samples_are_shown_and_cannot_be_deleted(opened: Open, made_once: Path) -> None:
    """A recorded sweep that came with the program is listed apart as a sample, opens, and offers no delete."""
    shutil.copytree(made_once, data.SAMPLES / "recorded")
    at = opened()
    assert "A real one to look at" in shown(at)
    assert ":violet-badge[sample]" in said(at)
    assert [link.proto.query_string for link in at.get("page_link")] == ["sweep=recorded"]
    at = opened(ui.RESULTS, "recorded")
    assert address(at) == "recorded"
    assert "delete" not in [b.key for b in at.button]


def test_delete_removes_the_sweep(opened: Open, made: Path) -> None:
    """After the second click the folder is gone and the start page is shown."""
    at = opened(ui.RESULTS, "made-up")
    at.button(key="delete").click()
    fine(at.run())
    assert not made.exists()
    assert at.button(key="demo")


@pytest.mark.parametrize("section", ["latency", "grid", "share", "rules", "batch", "cell", "numbers"])
def test_results_of_a_server_whose_settings_stay(opened: Open, data_dir: Path, section: str) -> None:
    """Only the load was varied, the server tells no metrics: every section still opens."""
    server = {"kind": "openai", "url": "http://127.0.0.1:9"}
    config = make_config(backend=server, grid={"request_rate": [1.0]})
    requests = [make_request(i, at_ms=2000 * i, gaps_ms=[20] * 15) for i in range(45)]
    finished_sweep(data_dir, make_tables(requests, cells=[make_cell(setting={})], config=config), "plain")
    at = opened(ui.RESULTS, "plain")
    at.session_state["section"] = section
    fine(at.run())


def test_results_of_a_sweep_without_any_request(opened: Open, data_dir: Path) -> None:
    """Every cell failed: the page says so, and shows why."""
    failed = make_cell(status="failed", error_kind="out_of_memory", error_detail="no room", window_end_ns=None)
    finished_sweep(data_dir, make_tables(cells=[failed]), "empty")
    at = opened(ui.RESULTS, "empty")
    assert "No setting could be chosen" in shown(at)
    assert "no room" in shown(at)


OLLAMA = {
    "kind": "ollama",
    "title": "Ollama",
    "url": "http://127.0.0.1:11434",
    "version": "0.32.1",
    "models": ["llama3.2:3b", "<b>x</b>"],
    "api": "ollama_chat",
    "metrics": None,
    "metrics_hint": "Ollama has no metrics",
    "needs_key": False,
    "notes": ["Ollama does not tell how many wait."],
}


def test_servers_that_were_found_lead_to_a_filled_in_form(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start page lists them as text; the button opens New sweep with address and kind."""
    monkeypatch.setattr(backends, "servers_here", lambda: [OLLAMA])
    at = opened()
    assert "Ollama 0.32.1, with llama3.2:3b, <b>x</b>." in shown(at)
    assert "<b>" not in said(at)
    assert "Ollama has no metrics" in shown(at)
    at.button(key="measure-0").click()
    fine(at.run())
    assert at.button_group(key="server").value == "address"
    assert at.text_input(key="url").value == "http://127.0.0.1:11434"
    assert at.selectbox(key="kind").value == "ollama"


def test_servers_are_looked_for_again_on_demand(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found is remembered for a while; the button looks anew."""
    at = opened()
    assert "No server answers on the usual ports" in shown(at)
    monkeypatch.setattr(backends, "servers_here", lambda: [OLLAMA])
    assert "No server answers" in shown(fine(at.run()))
    at.button(key="look").click()
    assert "Ollama 0.32.1" in shown(fine(at.run()))


def test_the_form_says_what_the_server_would_ignore(opened: Open) -> None:
    """Priorities without the policy that heeds them, beside the form."""
    at = opened(ui.NEW)
    at.button_group(key="workload").set_value("mixed")
    assert "ignores them unless its policy is priority" in shown(fine(at.run()))


def test_the_check_says_what_was_found(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the answer's sentence: what the server is, and how its metrics are switched on."""
    monkeypatch.setattr(backends, "check_connection", lambda server, w: (True, "It answers."))
    monkeypatch.setattr(
        backends, "what_it_says", lambda server, w: [f"{server['kind']} at {server['url']}", "No metrics."]
    )
    at = opened(ui.NEW)
    at.button_group(key="server").set_value("address")
    fine(at.run())
    at.text_input(key="url").set_value("http://127.0.0.1:1")
    fine(at.run())
    at.button(key="check").click()
    assert "openai at http://127.0.0.1:1\nNo metrics." in shown(fine(at.run()))
