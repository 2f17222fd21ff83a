"""`goodput isolate`: what it takes for a server, and a whole experiment on a real llama.cpp server."""

import json
import os
from pathlib import Path

import pytest

from app.cli import main
from app.isolate import isolation_config
from runner.errors import ConfigError
from runner.isolation_plan import Wishes
from tests.engines_support.llama import llama_installed, running_llama
from tests.support.running_engine import running_engine

FILE = """
name = "mine"
backend = "nas"
[grid]
request_rate = [1.0]
[[classes]]
name = "chat"
weight = 1
prompt_tokens = 8
output_tokens = 4
slo = { ttft_ms = 500, gap_ms = 100 }
[[classes]]
name = "night"
closed = { concurrency = 6 }
prompt_tokens = 8
output_tokens = 4
"""


def saved(tmp_path: Path, text: str) -> Path:
    """A data folder with these backends."""
    (tmp_path / "backends.toml").write_text(text)
    return tmp_path


def test_a_sweep_file_names_its_classes_and_its_server(tmp_path: Path) -> None:
    """The class with targets is who waits, the other the background; here as many at once as its loop has."""
    data = saved(tmp_path, '[nas]\nkind = "openai"\nurl = "http://127.0.0.1:9"\n')
    path = tmp_path / "mine.toml"
    path.write_text(FILE)
    found = isolation_config(data, str(path), Wishes((2, 8)))
    assert found.backend.url == "http://127.0.0.1:9"
    assert found.grid["night_max_in_flight"] == (0, 2, 6)
    assert found.run.alone == "night"


def test_the_built_in_engine_is_sized_by_its_costs(tmp_path: Path) -> None:
    """Nothing has to be asked: a preset says how fast it is, and its policy can be tried."""
    found = isolation_config(saved(tmp_path, '[card]\nkind = "simulated"\n'), "card", Wishes())
    chat, indexing = found.classes
    assert chat.rate is not None
    assert 0.1 < chat.rate < 2
    assert indexing.dump is not None
    assert indexing.dump.count > 50
    assert found.grid["policy"] == ("fcfs", "priority")


def test_a_server_that_we_start_later_needs_rate_and_jobs(tmp_path: Path) -> None:
    """Its pace can't be looked at; with both given it is as good as any."""
    control = '[nas.control]\nmode = "process"\ncommand = ["llama-server", "--port", "9"]\n'
    data = saved(tmp_path, f'[nas]\nkind = "llama_cpp"\nurl = "http://127.0.0.1:9"\n{control}')
    with pytest.raises(ConfigError, match="nas is not running, so"):
        isolation_config(data, "nas", Wishes())
    assert isolation_config(data, "nas", Wishes(chat_rate=1.0, jobs=9)).grid["indexing_max_in_flight"] == (
        0,
        2,
        4,
        8,
        9,
    )


def test_a_url_is_looked_at_and_measured_as_what_it_is(tmp_path: Path) -> None:
    """A running engine answers as vLLM does; two requests tell its pace: 20 ms a token, 0.1 ms a prompt token.

    Chats of some 140 and 75 tokens then take 1.5 s or, on a busy machine, a little longer.
    """
    with running_engine("--cost", "a=20,b=0.1", "--max-num-seqs", "4") as url:
        found = isolation_config(tmp_path, url, Wishes())
    assert (found.backend.kind, found.backend.url) == ("vllm", url)
    assert found.name == "Isolation: vLLM"  # a name goes with every shared page: no address in it
    assert found.classes[0].rate is not None
    assert 0.03 < found.classes[0].rate < 0.25
    assert "policy" not in found.grid


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["nowhere"], "nowhere is neither a sweep file, nor a saved backend"),
        (["nothing.toml"], "nothing.toml: no such file"),
        (["http://127.0.0.1:9"], "does not answer as it should"),
        (["x", "--caps", "2,none"], "--caps 2,none: give whole numbers"),
        (["x", "--duration", "-1"], "--duration -1 must be above 0"),
        (["mine.toml", "--ttft-ms", "500"], "--ttft-ms is not read beside a sweep file; change it in mine.toml"),
        (["mine.toml", "--model", "m"], "--model is not read beside a sweep file; change it in mine.toml"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    """With exit code 2, and nothing measured."""
    assert main(["isolate", "--data", str(tmp_path / "data"), *flags]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "data" / "sweeps").exists()


@pytest.mark.llama
@pytest.mark.skipif(
    not llama_installed() and not os.environ.get("CI"), reason="xllamacpp is not installed (make test installs it)"
)
def test_every_way_is_measured_on_a_real_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Chats alone, a pile of documents beside them at once and one by one, and the pile by itself: a cell each, and
    every document is done or counted as left."""
    flags = ["--caps", "1", "--duration", "2", "--chat-rate", "4", "--jobs", "5", "--data", str(tmp_path / "data")]
    with running_llama("-c", "4096", "-np", "2", "--no-cache-prompt") as url:
        assert main(["isolate", url, "--json", *flags]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [c["status"] for c in result["cells"]] == ["ok"] * 4
    found = result["isolation"]
    assert [arm["kind"] for arm in found["arms"]] == ["alone", "as_is", "cap", "window"]
    assert found["background"] == "indexing"
    assert len({arm["judged"] for arm in found["arms"]}) == 1  # the same chats in every arm
    jobs = [arm["background"]["jobs"] for arm in found["arms"] if arm["background"]]
    assert jobs == [5, 5, 5]
    assert all(arm["background"]["makespan_s"] > 0 for arm in found["arms"] if arm["background"])
    assert found["reason"]
