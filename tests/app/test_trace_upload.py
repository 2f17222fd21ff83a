"""Traces that people bring along: what is kept, and what is refused in one sentence."""

from pathlib import Path

import pytest

from app import trace_upload
from app.words import ENGLISH
from runner.config import parse_sweep
from runner.errors import ConfigError
from runner.trace_texts import read_trace_texts
from tests.support.small_sweeps import quick_raw

AZURE = b"""TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:56.6805900,879,55
"""


def test_an_azure_trace_is_kept_and_can_be_replayed(tmp_path: Path) -> None:
    """As our own CSV from its first request on; a sweep that names it carries its text along."""
    name = trace_upload.keep(tmp_path, "My traces/Azure conv (1).csv", AZURE, ENGLISH)
    assert name.startswith("azure-conv-1-")
    assert trace_upload.keep(tmp_path, "Azure conv (1).CSV", AZURE, ENGLISH) == name
    assert trace_upload.stored(tmp_path) == [name]
    assert trace_upload.facts(tmp_path, name) == trace_upload.TraceFacts(3, 10.0, 396, 55)
    recorded = {"name": "recorded", "trace": name, "prompt_tokens": 1, "output_tokens": 1}
    config = parse_sweep(quick_raw(classes=[recorded], grid={"load_scale": [1]}), "form")
    text = read_trace_texts(config, tmp_path / trace_upload.FOLDER)["recorded"]
    assert text.splitlines()[:2] == ["arrival_s,prompt_tokens,output_tokens", "0.000000,374,44"]


def test_lines_of_json_are_kept_alike(tmp_path: Path) -> None:
    """Whatever the format, what is kept is the same file."""
    line = '{"arrival_s": 5, "prompt_tokens": 7, "output_tokens": 9}'
    one = trace_upload.keep(tmp_path, "a.jsonl", line.encode(), ENGLISH)
    csv = b"arrival_s,prompt_tokens,output_tokens\n5,7,9\n"
    assert trace_upload.keep(tmp_path, "a.csv", csv, ENGLISH) == one


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        (b"", "no column arrival_s"),
        (b"arrival_s,prompt_tokens,output_tokens\n1,2,\n", "needs a time"),
        (b"arrival_s\n1\n", "needs a time"),
        (b"arrival_s,prompt_tokens,output_tokens\n=cmd(),1,1\n", "line 2"),
        (b"x" * 8_000_001, "is larger than 8 MB"),
        (b"arrival_s,prompt_tokens,output_tokens\n" + b"1,1,1\n" * 200_001, "has 200,001 requests"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    """The file is named as text, and nothing is kept."""
    with pytest.raises(ConfigError, match=words) as told:
        trace_upload.keep(tmp_path, "../../<b>evil</b>.csv", data, ENGLISH)
    assert str(told.value).startswith("b>.csv")
    assert "\n" not in str(told.value)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("name", ["../secret.csv", "/etc/passwd", "x.csv", "gone-01234567.csv", ""])
def test_only_kept_traces_are_read(tmp_path: Path, name: str) -> None:
    """A name from a browser never becomes a path of its own."""
    (tmp_path / "secret.csv").write_text("arrival_s\n1\n")
    with pytest.raises(ConfigError):
        trace_upload.facts(tmp_path, name)


def test_a_strange_name_and_a_missing_folder_do_no_harm(tmp_path: Path) -> None:
    """No letters at all, and no traces yet."""
    assert trace_upload.stored(tmp_path) == []
    data = b"arrival_s,prompt_tokens,output_tokens\n5,7,9\n"
    assert trace_upload.keep(tmp_path, "…/日本.csv", data, ENGLISH).startswith("trace-")
