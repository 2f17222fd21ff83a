"""Imports on the pages: the results page shows what their data allow, says what they don't, and hides nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from app import ui
from app.cli import main
from app.data import load_prepared, report_html, result_of
from app.export.redact import redact
from app.export.shared_page import read_page
from app.imports import add_files, load_import
from storage.imports import list_imports
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep
from tests.support.pages import Open, data_dir, fine, opened, shown, started

__all__ = ["data_dir", "opened", "started"]  # fixtures
TOOLS = Path(__file__).resolve().parents[1] / "fixtures" / "imports"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Somebody's sweep of two settings at two rates: its shared page and its JSON export."""
    folder = tmp_path_factory.mktemp("theirs")
    sweep = finished_sweep(folder, made_up_tables((2, 8), (2048,), (1.0, 3.0)), "theirs")
    assert main(["export", str(sweep), "--format", "json", "-o", str(folder / "all.json")]) == 0
    page = report_html(sweep)
    result = redact(result_of(load_prepared(sweep), sweep))
    told = {"format": "goodput-export", "version": 1, "result": {**result, "simulated": True}}
    return {
        "page": page.encode(),
        "export": (folder / "all.json").read_bytes(),
        "simulated": json.dumps(told).encode(),
    }


def taken(data_dir: Path, name: str, content: bytes) -> str:
    (import_id,) = add_files(data_dir, [(name, content)])
    return import_id


def tool(data_dir: Path, name: str) -> str:
    """One of the recorded files or folders of other tools."""
    path = TOOLS / name
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    (import_id,) = add_files(data_dir, [(f"{name}/{p.name}", p.read_bytes()) for p in files])
    return import_id


def test_a_shared_page_is_shown_with_its_sliders(opened: Open, data_dir: Path, theirs: dict[str, bytes]) -> None:
    """Verdict, frontier, table and the sliders in the page's own steps; single requests are not in it, and that is said
    where they would be."""
    import_id = taken(data_dir, "sweep.html", theirs["page"])
    at = opened(ui.RESULTS, import_id)
    assert "Imported from Goodput Lab" in shown(at)
    assert "Not shown: Distributions, Where the time goes, Stalls, One cell; a shared page holds counts" in shown(at)
    before = [m.value for m in at.metric]
    assert len(before) == 5
    at.select_slider(key=f"ttft-chat-{import_id}").set_value(50.0)
    at.select_slider(key=f"ttft-rag-{import_id}").set_value(50.0)
    assert [m.value for m in fine(at.run()).metric] != before
    at.button(key="reset").click()
    assert [m.value for m in fine(at.run()).metric] == before


def test_a_shared_page_gives_a_comparison_its_targets(opened: Open, data_dir: Path, theirs: dict[str, bytes]) -> None:
    """First among the sides, its sliders move all of them."""
    export = taken(data_dir, "all.json", theirs["export"])
    import_id = taken(data_dir, "sweep.html", theirs["page"])
    at = opened(ui.COMPARE, sweeps=f"{import_id},{export}")
    assert "The same targets for all" in shown(at)
    before = list(at.dataframe[0].value["share"])
    for name in ("chat", "rag"):
        at.select_slider(key=f"ttft-{name}-compare-{import_id}").set_value(50.0)
    after = list(fine(at.run()).dataframe[0].value["share"])
    assert before[0] == before[1] != after[0] == after[1]


def test_an_export_has_everything(opened: Open, data_dir: Path, theirs: dict[str, bytes]) -> None:
    """Its requests are all there: every section, a cell, a request; the address names it."""
    import_id = taken(data_dir, "all.json", theirs["export"])
    at = opened(ui.RESULTS, import_id, section="cell", cell="1")
    assert at.query_params["sweep"] in (import_id, [import_id])
    assert at.selectbox(key="cell").value == 1
    assert "Not shown" not in shown(at)
    assert "token by token" in shown(at)


@pytest.mark.parametrize(
    ("name", "says", "sliders"),
    [
        ("vllm_detailed.json", "TTFT from send", True),
        ("guidellm.json", "Distributions, Stalls, One cell; the tool keeps no single gaps", True),
        ("vllm_summary.json", "the file tells nothing of single requests", False),
        ("aiperf", "the file tells nothing of the server's batch", True),
    ],
)
def test_files_of_other_tools_are_shown_as_far_as_they_go(
    opened: Open, data_dir: Path, name: str, says: str, sliders: bool
) -> None:
    """With whose definitions they are, and what can't be worked out from them."""
    at = opened(ui.RESULTS, tool(data_dir, name))
    assert "Imported from" in shown(at)
    assert says in shown(at)
    assert bool(at.select_slider) is sliders
    assert ("Times against raw output" in shown(at)) is not sliders  # of summaries, in place of a goodput frontier
    at.session_state["section"] = "numbers"
    assert len(fine(at.run()).dataframe) > 0


@pytest.mark.parametrize(
    ("name", "sections"),
    [
        ("vllm_detailed.json", ("spread", "stalls", "cell", "rules")),
        ("guidellm.json", ("latency", "time", "grid", "share")),
    ],
)
def test_every_section_that_is_offered_opens(
    opened: Open, data_dir: Path, name: str, sections: tuple[str, ...]
) -> None:
    """What is offered can be drawn."""
    at = opened(ui.RESULTS, tool(data_dir, name), section=sections[0])
    for section in sections:
        at.session_state["section"] = section
        assert fine(at.run()).session_state["section"] == section
        assert "can't be shown" not in shown(at)


def test_a_section_that_an_import_has_not_leads_to_another(
    opened: Open, data_dir: Path, theirs: dict[str, bytes]
) -> None:
    """An address of an older visit, or of somebody's own sweep."""
    at = opened(ui.RESULTS, taken(data_dir, "sweep.html", theirs["page"]), section="cell", cell="0", request="3")
    assert at.session_state["section"] == "latency"
    assert at.query_params.get("cell") in (None, [])


def test_the_start_page_lists_an_import_and_leads_to_it(opened: Open, data_dir: Path, theirs: dict[str, bytes]) -> None:
    """With its tool and its verdict, as sweeps have theirs."""
    import_id = taken(data_dir, "sweep.html", theirs["page"])
    at = opened()
    assert [link.proto.query_string for link in at.get("page_link")] == [f"sweep={import_id}"]
    assert "from Goodput Lab" in shown(at)
    assert "requests stay inside the targets" in shown(at)
    assert "Nothing measured yet" not in shown(at)


def test_an_import_is_deleted_on_its_page(opened: Open, data_dir: Path, theirs: dict[str, bytes]) -> None:
    """And the start page is shown."""
    at = opened(ui.RESULTS, taken(data_dir, "sweep.html", theirs["page"]))
    at.button(key="delete").click()
    fine(at.run())
    assert list_imports(data_dir) == []
    assert at.button(key="demo")


def test_a_damaged_import_is_told_where_it_is_opened(opened: Open, data_dir: Path) -> None:
    """Half copied, torn, of a strange shape: a sentence, and the list goes on."""
    kept = tool(data_dir, "vllm_detailed.json")
    half = data_dir / "imports" / "imp-000000000001"
    half.mkdir()
    (half / "about.json").write_text((data_dir / "imports" / kept / "about.json").read_text())
    torn = data_dir / "imports" / "imp-000000000002"
    torn.mkdir()
    (torn / "about.json").write_text('{"name": "torn", "tool": "vllm", "created_unix_ns": 1e30, "cells": -1}')
    (torn / "import.json").write_text('{"format": "goodput-im')
    at = opened()
    assert "damaged" in shown(at)
    for folder in (half, torn):
        at = opened(ui.RESULTS, folder.name)
        assert len(at.error) == 1
    assert {s.import_id: s.status for s in list_imports(data_dir)}[half.name] == "damaged"


def test_a_result_that_somebody_changed_keeps_the_page_standing(
    opened: Open, data_dir: Path, theirs: dict[str, bytes]
) -> None:
    """Parts of another version or of a prankster are named as such; the others are shown."""
    told = json.loads(theirs["simulated"])
    told["result"] |= {
        "isolation": {"arms": 3},
        "max_rates": [{"reason": 5}],
        "budget": {"reason": "x", "verification": 7},
    }
    at = opened(ui.RESULTS, taken(data_dir, "a.json", json.dumps(told).encode()))
    assert "of another version" in shown(at)
    at.session_state["section"] = "numbers"
    assert len(fine(at.run()).dataframe) > 0


def test_a_simulated_sweep_stays_simulated_when_it_is_imported(
    opened: Open, data_dir: Path, theirs: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """In the list and its JSON, on the start page, the results, the compare page, and in the page that is passed on."""
    import_id = taken(data_dir, "a.json", theirs["simulated"])
    assert main(["list", "--json", "--data", str(data_dir)]) == 0
    assert [row["simulated"] for row in json.loads(capsys.readouterr().out)] == [True]
    assert main(["list", "--data", str(data_dir)]) == 0
    assert "simulated" in capsys.readouterr().out
    assert "simulated" in shown(opened())
    at = opened(ui.RESULTS, import_id)
    assert "Simulated: nothing was measured" in shown(at)
    assert "simulated" in at.selectbox(key="which").options[0]
    at = opened(ui.COMPARE, sweeps=import_id)
    assert "simulated" in at.multiselect(key="chosen").options[0]
    assert "Simulated: nothing was measured" in report_html(data_dir / "imports" / import_id)


def test_an_older_import_s_line_does_not_hide_that_it_was_simulated(data_dir: Path, theirs: dict[str, bytes]) -> None:
    """Lines were written without the key; the document knows."""
    import_id = taken(data_dir, "a.json", theirs["simulated"])
    about = data_dir / "imports" / import_id / "about.json"
    about.write_text(json.dumps({k: v for k, v in json.loads(about.read_text()).items() if k != "simulated"}))
    assert [s.simulated for s in list_imports(data_dir)] == [True]


def test_a_page_that_is_passed_on_keeps_its_sliders_and_its_origin(data_dir: Path, theirs: dict[str, bytes]) -> None:
    """Imported, written again, imported again: the counts its sliders move by, and which tool it was."""
    import_id = taken(data_dir, "sweep.html", theirs["page"])
    first, again = read_page(theirs["page"].decode()), read_page(report_html(data_dir / "imports" / import_id))
    assert again["tallies"] == first["tallies"]
    assert again["result"]["imported"]["tool"] == "goodput"
    vllm = tool(data_dir, "vllm_detailed.json")
    html = report_html(data_dir / "imports" / vllm)
    assert "Measured by vLLM" in html
    back = load_import(data_dir / "imports" / taken(data_dir, "again.html", html.encode()))
    assert (back["tool"], back["rescoring"]) == ("vllm", "steps")
    assert "Measured by vLLM" in report_html(data_dir / "imports" / back["import_id"])


@pytest.mark.parametrize(
    "spoil", [{"classes": [{"name": "x", "ttft": '"><script>'}]}, {"classes": 3}, {"cells": {"0": []}}]
)
def test_counts_of_a_strange_shape_are_left_out(
    data_dir: Path, theirs: dict[str, bytes], spoil: dict[str, Any]
) -> None:
    """They would go into a page as they are: without sliders it is still a page."""
    import_id = taken(data_dir, "sweep.html", theirs["page"])
    path = data_dir / "imports" / import_id / "import.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "tallies": {**document["tallies"], **spoil}}))
    html = report_html(data_dir / "imports" / import_id)
    assert '"><script>' not in html
    assert read_page(html)["tallies"] is None
