"""backends.toml: a browser adds and edits servers, and what a person wrote stays as it was."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import ConfigError
from runner.saved_backends import FILE, remove_backend, save_backend, saved_backends

BY_HAND = """# my servers
[nas]  # in the cellar
kind = "llama_cpp"
# this model fits
model = "x"
url = "http://127.0.0.1:8080"

[nas.control]
mode = "process"
command = [
  "llama-server", "-np", "{max_num_seqs}",
]

["the other one"]
kind = "vllm"
url = "http://10.0.0.2:8000/v1"
"""


def text_of(folder: Path) -> str:
    return (folder / FILE).read_text(encoding="utf-8")


def test_a_first_server_makes_a_file_that_explains_itself(tmp_path: Path) -> None:
    """The file says where commands go; empty fields are left out."""
    assert saved_backends(tmp_path) == {}
    save_backend(
        tmp_path, "nas", {"kind": "ollama", "url": " http://127.0.0.1:11434 ", "model": "", "api_key_env": None}
    )
    assert saved_backends(tmp_path) == {"nas": {"kind": "ollama", "url": "http://127.0.0.1:11434"}}
    assert "never typed in a browser" in text_of(tmp_path)


def test_an_edit_leaves_commands_comments_and_other_servers_alone(tmp_path: Path) -> None:
    """Only the lines of the edited keys differ."""
    (tmp_path / FILE).write_text(BY_HAND)
    save_backend(tmp_path, "nas", {"kind": "llama_cpp", "url": "http://127.0.0.1:9090", "api_key_env": "NAS_KEY"})
    save_backend(tmp_path, "the other one", {"kind": "sglang", "url": "http://10.0.0.2:30000"})
    after = tomllib.loads(text_of(tmp_path))
    assert after["nas"] == {
        "kind": "llama_cpp",
        "url": "http://127.0.0.1:9090",
        "api_key_env": "NAS_KEY",
        "control": tomllib.loads(BY_HAND)["nas"]["control"],
    }
    assert after["the other one"] == {"kind": "sglang", "url": "http://10.0.0.2:30000"}
    for line in (
        "# my servers",
        "[nas]  # in the cellar",
        "# this model fits",
        '  "llama-server", "-np", "{max_num_seqs}",',
    ):
        assert line in text_of(tmp_path).splitlines()


def test_a_server_is_added_below_the_others(tmp_path: Path) -> None:
    """Also when the last line has no end, and for names and models of any script."""
    (tmp_path / FILE).write_text(BY_HAND.rstrip("\n"))
    save_backend(tmp_path, "new-1", {"kind": "openai", "url": "http://10.0.0.3", "model": 'a"b\\c\n日本'})
    assert saved_backends(tmp_path)["new-1"]["model"] == 'a"b\\c\n日本'
    assert text_of(tmp_path).startswith(BY_HAND.rstrip("\n"))


def test_only_servers_without_commands_are_taken_out(tmp_path: Path) -> None:
    """What was written by hand is not thrown away by a click."""
    (tmp_path / FILE).write_text(BY_HAND)
    with pytest.raises(ConfigError, match="commands written by hand"):
        remove_backend(tmp_path, "nas")
    remove_backend(tmp_path, "the other one")
    assert text_of(tmp_path) == BY_HAND.partition('["the')[0]
    with pytest.raises(ConfigError, match="there is no"):
        remove_backend(tmp_path, "the other one")


@pytest.mark.parametrize(
    "text",
    [
        'nas = { kind = "openai", url = "http://a" }\n',
        'nas.kind = "openai"\nnas.url = "http://a"\n',
        '[nas]\nkind = "openai"\nurl = """\nhttp://a"""\n',
        '[nas.control]\nmode = "manual"\n',
    ],
)
def test_what_can_only_be_changed_by_hand_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    """Other ways to write a table are refused in one sentence, and the file keeps every byte."""
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match="text editor"):
        save_backend(tmp_path, "nas", {"kind": "vllm", "url": "http://10.0.0.9"})
    assert text_of(tmp_path) == text


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("nas", {"kind": "openai"}),
        ("nas", {"kind": "openai", "url": "http://me:secret@10.0.0.1"}),
        ("nas", {"kind": "openai", "url": "http://10.0.0.1", "api_key_env": "sk-123"}),
        ("nas", {"kind": "nonsense", "url": "http://10.0.0.1"}),
        ("a.b", {"kind": "openai", "url": "http://10.0.0.1"}),
        ("", {"kind": "openai", "url": "http://10.0.0.1"}),
        ("x]\n[y", {"kind": "openai", "url": "http://10.0.0.1"}),
    ],
)
def test_what_is_no_server_is_refused(tmp_path: Path, name: str, values: dict[str, str]) -> None:
    """No address, a key where its variable belongs, a name that would be more than a name: nothing is written."""
    with pytest.raises(ConfigError) as told:
        save_backend(tmp_path, name, values)
    assert "\n" not in str(told.value)
    assert not (tmp_path / FILE).exists()


def test_a_browser_cannot_write_a_command(tmp_path: Path) -> None:
    """Keys beyond the editable ones are not written, whatever is sent."""
    hostile = {"kind": "openai", "url": "http://10.0.0.1", "control": "x", "command": "rm"}
    save_backend(tmp_path, "nas", hostile)  # type: ignore[arg-type]
    assert set(saved_backends(tmp_path)["nas"]) == {"kind", "url"}


@settings(max_examples=40)
@given(model=st.text(max_size=40), key=st.sampled_from(["model", "metrics_url"]))
def test_any_text_is_stored_as_that_text(tmp_path_factory: pytest.TempPathFactory, model: str, key: str) -> None:
    """Quotes, brackets, line ends: it comes back as it was typed, or is refused, and never becomes another key."""
    folder = tmp_path_factory.mktemp("backends")
    (folder / FILE).write_text(BY_HAND)
    try:
        save_backend(folder, "nas", {"kind": "openai", "url": "http://10.0.0.1", key: model})
    except ConfigError:
        assert text_of(folder) == BY_HAND
        return
    assert saved_backends(folder)["nas"].get(key, "") == model.strip()
    assert saved_backends(folder)["nas"]["control"] == tomllib.loads(BY_HAND)["nas"]["control"]
