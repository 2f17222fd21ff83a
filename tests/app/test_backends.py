"""Saved servers, and the connection check."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.backends import (
    check_connection,
    check_sentence,
    key_sentence,
    look_at,
    server_sentences,
    settings_sentences,
    what_it_says,
)
from app.cli import main
from app.words import ENGLISH
from runner.config import parse_sweep
from runner.engines.address import free_port
from runner.errors import ConfigError
from runner.saved_backends import FILE, saved_backends
from tests.support.running_engine import running_engine
from tests.support.small_sweeps import quick_raw


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """The built-in engine as a server of its own."""
    with running_engine() as url:
        yield url


def test_a_saved_backend_brings_its_command(tmp_path: Path) -> None:
    """The file's tables are backends by name; a sweep that names one takes its control along."""
    assert saved_backends(tmp_path) == {}
    (tmp_path / FILE).write_text(
        '[nas]\nkind = "llama_cpp"\nurl = "http://127.0.0.1:8080"\n'
        '[nas.control]\nmode = "process"\ncommand = ["llama-server", "-np", "{max_num_seqs}"]\n'
    )
    config = parse_sweep({**quick_raw(), "backend": "nas"}, "form", saved_backends(tmp_path))
    assert config.backend.kind == "llama_cpp"
    assert config.control.command == ("llama-server", "-np", "{max_num_seqs}")


def test_a_sweep_file_may_name_a_saved_backend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also headless: the name is looked up in the data folder; one that is not there is told with those that are."""
    data = tmp_path / "data"
    data.mkdir()
    (data / FILE).write_text('[lab]\nkind = "simulated"\ncost = { a = 2.0, b = 0.01 }\nkv_tokens = 4096\n')
    sweep = tmp_path / "sweep.json"
    sweep.write_text(json.dumps({**quick_raw(), "backend": "lab"}))
    assert main(["simulate", str(sweep), "--data", str(data), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 2
    sweep.write_text(json.dumps({**quick_raw(), "backend": "gone"}))
    assert main(["simulate", str(sweep), "--data", str(data), "--json"]) == 2
    assert "saved: lab" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[nas", "nas = 3"])
def test_a_broken_file_is_told_in_one_sentence(tmp_path: Path, text: str) -> None:
    """Bad TOML, or something that is no table."""
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match=FILE):
        saved_backends(tmp_path)


def test_the_check_tells_what_a_server_answered(engine: str) -> None:
    """One streamed request: first words and time per token."""
    fine, sentence = check_connection({"url": engine}, ENGLISH)
    assert fine
    assert sentence.startswith("It answers: first words after ")


def test_the_check_of_a_closed_port_is_one_sentence() -> None:
    """Nobody there: no traceback, and a flag-like address stays an address."""
    for url in (f"http://127.0.0.1:{free_port()}", "--help"):
        fine, sentence = check_connection({"url": url}, ENGLISH)
        assert not fine
        assert sentence
        assert "Traceback" not in sentence
        assert "\n" not in sentence


def test_a_failed_request_says_its_kind() -> None:
    """The kind in words, then what the server said."""
    answer = {"outcome": "error", "error_kind": "model_not_found", "error_detail": "no such model"}
    assert check_sentence(answer, ENGLISH) == "It does not answer as it should: model not found. no such model"


def test_the_look_at_a_running_engine_names_kind_and_metrics(engine: str) -> None:
    """What was detected, that another kind fits better, that the metrics are on; nothing at a closed port."""
    said = what_it_says({"url": f"{engine}/v1", "kind": "openai"}, ENGLISH)
    assert said[0].startswith("Built-in engine, with ")
    assert said[1] == "Choose the kind vLLM, so that it is asked in its own way."
    assert said[2].startswith("It shows its metrics")
    assert len(what_it_says({"url": engine, "kind": "vllm"}, ENGLISH)) == len(said) - 1
    assert what_it_says({"url": f"http://127.0.0.1:{free_port()}", "kind": "vllm"}, ENGLISH) == []


def test_a_server_without_models_and_metrics_says_how_to_mend_it() -> None:
    """The hint and the notes follow the name; a kind that was not chosen is not judged."""
    row = {"kind": "llama_cpp", "title": "llama.cpp", "version": None, "models": [], "metrics": False,
           "metrics_hint": "start llama-server with --metrics", "notes": ["lists no model"]}  # fmt: skip
    expected = ["llama.cpp.", "Metrics: start llama-server with --metrics.", "lists no model"]
    assert server_sentences(row, None, ENGLISH) == server_sentences(row, "llama_cpp", ENGLISH) == expected


def test_a_typed_address_is_looked_at(engine: str) -> None:
    """A server tells what it is; nobody there, or no address at all, is a sentence."""
    row, problem = look_at(f"{engine}/v1/", ENGLISH)
    assert row
    assert (row["kind"], problem) == ("simulated", None)
    for url in (f"127.0.0.1:{free_port()}", "file:///etc/passwd", "http://a b"):
        row, problem = look_at(url, ENGLISH)
        assert row is None
        assert problem


def test_how_settings_are_applied_is_said_without_the_command() -> None:
    """The program and what it can vary; arguments, which may hold paths, are not told."""
    control = {"mode": "process", "command": ["/opt/llama-server", "-m", "/secret/x.gguf", "-np", "{max_num_seqs}"]}
    assert settings_sentences({"control": control}, ENGLISH) == [
        "Goodput Lab starts it anew for each setting: llama-server.",
        "It can vary max_num_seqs.",
    ]
    hook = {"mode": "command", "command": ["./set.sh", "{url}"], "env": {"OLLAMA_NUM_PARALLEL": "{max_num_seqs}"}}
    assert settings_sentences({"control": hook}, ENGLISH)[1] == "It can vary max_num_seqs."
    assert settings_sentences({}, ENGLISH) == ["Its settings stay as they are; only the load is varied."]


def test_a_key_is_told_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set or not set; never what it holds."""
    monkeypatch.setenv("LLM_KEY", "sk-very-secret")
    assert key_sentence("LLM_KEY", ENGLISH) == "Its key is in the environment variable LLM_KEY."
    assert "is not set" in str(key_sentence("LLM_KEY_THAT_IS_NOT", ENGLISH))
    assert key_sentence(None, ENGLISH) is None
