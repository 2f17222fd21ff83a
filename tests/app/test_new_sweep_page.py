"""The new-sweep form without a browser: presets, links, own traces, saved servers, ways to search."""

import json
from pathlib import Path

import pytest

from app import ui
from app.presets import WORKLOADS
from runner.queue import read_config
from runner.saved_backends import FILE
from storage.side_files import list_sweeps
from tests.support.pages import HOSTILE, Open, address, data_dir, fine, opened, shown, started

__all__ = ["data_dir", "opened", "started"]  # fixtures
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:56.68,396,109\n"


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "chat"])
def test_a_link_opens_the_form_with_a_workload(opened: Open, workload: str) -> None:
    """Every preset gives a sweep that could be started as it stands, and says where its numbers come from."""
    at = opened(ui.NEW, workload=workload)
    assert at.button_group(key="workload").value == workload
    assert WORKLOADS[workload].source in shown(at)
    assert not at.error
    assert not at.button(key="start").disabled


def test_a_link_with_nonsense_opens_the_usual_form(opened: Open) -> None:
    """Unknown names in an address are passed over and never shown as markup."""
    at = opened(ui.NEW, workload=HOSTILE, targets="x", server="x", find="x", duration="7", kind="x")
    assert (at.button_group(key="workload").value, at.select_slider(key="duration").value) == ("chat", 60)
    assert not at.error


def test_a_full_link_opens_the_form_as_it_was_shared(opened: Open) -> None:
    """Server, address, kind, targets, search and time of a cell."""
    link = {"url": "http://10.0.0.2:8000", "kind": "vllm", "targets": "mlperf_8b", "find": "rate", "duration": "120"}
    at = opened(ui.NEW, **link)
    assert at.text_input(key="url").value == "http://10.0.0.2:8000"
    assert at.selectbox(key="kind").value == "vllm"
    assert at.selectbox(key="targets").value == "mlperf_8b"
    assert at.button_group(key="find").value == "rate"
    assert at.select_slider(key="duration").value == 120
    assert {key: at.query_params[key] for key in link} == link
    at.button_group(key="server").set_value("simulated")
    fine(at.run())
    assert set(at.query_params) & {"url", "kind", "saved"} == set()
    assert at.query_params["find"] == "rate"


def test_an_own_trace_is_uploaded_kept_and_replayed(opened: Open, data_dir: Path) -> None:
    """The file's text goes into the sweep, its facts stand below it, and it is there for the next sweep."""
    at = opened(ui.NEW, workload="trace")
    assert "None is kept here yet." in shown(at)
    at.file_uploader(key="upload").set_value(("Azure.csv", AZURE, "text/csv"))
    assert "2 requests in 10 s, 0.20/s" in shown(fine(at.run()))
    at.button(key="start").click()
    fine(at.run())
    (sweep,) = list_sweeps(data_dir)
    assert address(at) == sweep.sweep_id
    texts = json.loads((sweep.folder / "sweep.json").read_text())["traces"]
    assert texts["recorded"].splitlines()[1:] == ["0.000000,374,44", "10.000000,396,109"]
    assert "2 requests in 10 s" in shown(opened(ui.NEW, workload="trace"))


def test_a_file_that_is_no_trace_is_told_in_one_sentence(opened: Open, data_dir: Path) -> None:
    """Its name is shown as text, and the form goes on."""
    at = opened(ui.NEW, workload="trace")
    at.file_uploader(key="upload").set_value((f"{HOSTILE[:20]}.csv", b"hello", "text/csv"))
    fine(at.run())
    assert len(at.error) == 1
    assert "<" not in at.error[0].value.replace("\\<", "")
    assert not (data_dir / "traces").exists()


def test_a_saved_server_brings_its_settings_to_the_grid(opened: Open, data_dir: Path) -> None:
    """What its command takes is what is varied at first; a program that is not there is told beside the form."""
    (data_dir / FILE).write_text(
        '[nas]\nkind = "llama_cpp"\nurl = "http://127.0.0.1:8080"\n[nas.control]\nmode = "process"\n'
        'command = ["/gone/llama-server", "-np", "{max_num_seqs}", "--port", "{port}"]\n'
    )
    at = opened(ui.NEW, saved="nas")
    assert "It can vary max_num_seqs." in shown(at)
    assert "/gone/llama-server is not found" in shown(at)


def test_a_calibrated_server_is_told_its_token_budget(opened: Open, data_dir: Path) -> None:
    """What the calibration under What-if found goes for the new sweep too; one that can't be read is passed over."""
    (data_dir / FILE).write_text('[nas]\nkind = "vllm"\nurl = "http://127.0.0.1:8000"\n')
    assert "tokens an iteration" not in shown(opened(ui.NEW, saved="nas", workload="family"))
    (data_dir / "profiles").mkdir()
    (data_dir / "profiles" / "nas.toml").write_text("kv_tokens = 9000\n[cost]\na = 50.0\nb = 0.5\nd = 0.0\n")
    at = opened(ui.NEW, saved="nas", workload="family")
    assert "tokens an iteration keep the gap target" in shown(at)
    assert "worked out from the server's calibration" in shown(at)
    (data_dir / "profiles" / "nas.toml").write_text("kv_tokens = 9000\n[cost]\na = 500.0\nb = 0.5\n")
    assert "every prompt breaks the gap target" in shown(opened(ui.NEW, saved="nas", workload="family"))
    (data_dir / "profiles" / "nas.toml").write_text("torn")
    assert "tokens an iteration" not in shown(opened(ui.NEW, saved="nas", workload="family"))


@pytest.mark.parametrize(("find", "kept"), [("rate", (True, None)), ("budget", (False, "20m"))])
def test_a_search_is_asked_for_by_one_click(
    opened: Open, data_dir: Path, find: str, kept: tuple[bool, str | None]
) -> None:
    """The largest load of each setting, or the best setting within a time."""
    at = opened(ui.NEW, find=find)
    at.button(key="start").click()
    fine(at.run())
    (sweep,) = list_sweeps(data_dir)
    run = read_config(sweep.folder).run
    assert (run.find_rate, run.budget) == kept
