"""The backends page without a browser: add, edit, check, and never a command from a browser."""

import json
import re
from pathlib import Path

import pytest

from app import backends, ui
from runner.saved_backends import FILE, saved_backends
from storage.side_files import list_sweeps
from tests.support.pages import HOSTILE, Open, data_dir, fine, opened, said, shown, started

__all__ = ["data_dir", "opened", "started"]  # fixtures
BY_HAND = """[nas]
kind = "llama_cpp"
url = "http://127.0.0.1:8080"
api_key_env = "NAS_KEY"
[nas.control]
mode = "process"
command = ["/opt/bin/llama-server", "-np", "{max_num_seqs}", "--port", "{port}"]
"""


def test_a_server_is_saved_from_an_empty_page(opened: Open, data_dir: Path) -> None:
    """An empty page says what to do; the form writes the file, and the server is listed."""
    at = opened(ui.BACKENDS)
    assert "None is saved yet." in shown(at)
    at.text_input(key="new-name").set_value("office")
    at.text_input(key="url-").set_value("http://10.0.0.2:8000")
    at.button(key="save-").click()
    fine(at.run())
    assert saved_backends(data_dir) == {"office": {"kind": "openai", "url": "http://10.0.0.2:8000"}}
    assert "Its settings stay as they are" in shown(fine(at.run()))


def test_a_form_that_is_no_server_says_why(opened: Open, data_dir: Path) -> None:
    """A key where its variable belongs is refused, and not written anywhere."""
    at = opened(ui.BACKENDS)
    at.text_input(key="new-name").set_value("office")
    at.text_input(key="url-").set_value("http://10.0.0.2:8000")
    at.text_input(key="key-env-").set_value("sk-secret-1")
    at.button(key="save-").click()
    told = fine(at.run()).error[0].value
    assert "never the key itself" in told
    assert "secret" not in told
    assert not (data_dir / FILE).exists()


def test_an_edit_from_a_link_keeps_what_was_written_by_hand(
    opened: Open, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The form of `?edit=nas` begins with its values; program and key variable are told, the key is not."""
    monkeypatch.setenv("NAS_KEY", "sk-very-secret")
    (data_dir / FILE).write_text(BY_HAND)
    at = opened(ui.BACKENDS)
    assert "Goodput Lab starts it anew for each setting: llama-server." in shown(at)
    assert "It can vary max_num_seqs." in shown(at)
    assert "NAS_KEY" in shown(at)
    assert "sk-very-secret" not in shown(at)
    assert at.button(key="remove-0").disabled
    at.button(key="edit-0").click()
    fine(at.run())
    assert at.text_input(key="url-nas").value == "http://127.0.0.1:8080"
    at.text_input(key="url-nas").set_value("http://127.0.0.1:9090")
    at.button(key="save-nas").click()
    fine(at.run())
    assert (data_dir / FILE).read_text().partition("[nas.control]")[2] == BY_HAND.partition("[nas.control]")[2]
    assert saved_backends(data_dir)["nas"]["url"] == "http://127.0.0.1:9090"


def test_the_check_tells_what_is_there_and_what_is_missing(
    opened: Open, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server says is shown as text."""
    (data_dir / FILE).write_text(BY_HAND)
    monkeypatch.setattr(backends, "check_connection", lambda server, w: (False, HOSTILE))
    monkeypatch.setattr(backends, "what_it_says", lambda server, w: ["Metrics: start it with --metrics."])
    at = opened(ui.BACKENDS)
    at.button(key="check-0").click()
    fine(at.run())
    assert at.error[0].value == ui.plain(HOSTILE)
    assert "start it with --metrics" in shown(at)


def test_a_saved_server_is_checked_quickly_as_it_is(opened: Open, data_dir: Path, started: list[Path]) -> None:
    """Its command is not part of the sweep."""
    (data_dir / FILE).write_text(BY_HAND)
    at = opened(ui.BACKENDS)
    at.button(key="quick-0").click()
    fine(at.run())
    (sweep,) = list_sweeps(data_dir)
    assert sweep.name == "Quick check: nas at 127.0.0.1:8080"
    assert "llama-server" not in (sweep.folder / "sweep.json").read_text()


def test_a_server_of_the_file_that_cannot_work_says_so(opened: Open, data_dir: Path) -> None:
    """A missing address is named on its card; it can be taken out, and the others stay usable."""
    (data_dir / FILE).write_text(BY_HAND + '[half]\nkind = "vllm"\n')
    at = opened(ui.BACKENDS)
    assert "give url" in at.error[0].value
    assert at.button(key="quick-1").disabled
    at.button(key="remove-1").click()
    fine(at.run())
    assert list(saved_backends(data_dir)) == ["nas"]


def test_a_broken_file_is_told_and_nothing_is_written(opened: Open, data_dir: Path) -> None:
    """One sentence with the line; no form that would overwrite it."""
    (data_dir / FILE).write_text("[nas")
    at = opened(ui.BACKENDS)
    assert len(at.error) == 1
    assert not at.text_input


def test_names_and_values_of_the_file_are_text(opened: Open, data_dir: Path) -> None:
    """A name, a model or an address that would be markup is shown as it is, on this page and on New sweep."""
    quoted = json.dumps(HOSTILE)
    (data_dir / FILE).write_text(f'[{quoted}]\nkind = "vllm"\nurl = "http://10.0.0.2"\nmodel = {quoted}\n')
    for at in (opened(ui.BACKENDS, edit=HOSTILE), opened(ui.NEW, saved=HOSTILE)):
        bare = re.sub(r"\\.", "", said(at))
        assert set(bare) & set("<>[]()`$!_~|") == set()
        assert ":material" not in bare
    assert HOSTILE in shown(opened(ui.BACKENDS))
