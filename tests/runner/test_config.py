"""A sweep file: what is taken, and one plain sentence for each mistake."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.config import parse_sweep
from runner.errors import ConfigError
from runner.plan import count_cells, plan_cells
from runner.sweep_file import load_sweep

Raw = dict[str, Any]
CHAT: Raw = {"name": "chat", "weight": 1, "prompt_tokens": 32, "output_tokens": {"p50": 10, "p90": 20, "max": 40}}
LATE: Raw = {"name": "chat", "dump": {"count": 1, "at_s": 150}, "prompt_tokens": 1, "output_tokens": 1}
PROCESS: Raw = {"mode": "process", "command": ["server", "-np", "{max_num_seqs}"]}


def sweep(**changes: object) -> Raw:
    base: Raw = {
        "name": "test",
        "backend": {"kind": "llama_cpp", "url": "http://127.0.0.1:8080"},
        "control": PROCESS,
        "grid": {"max_num_seqs": [1, 2], "request_rate": [1.0, 2.0]},
        "classes": [CHAT],
    }
    return {**copy.deepcopy(base), **changes}


def none_of(raw: Raw, **more: object) -> None:
    """A grid that sends no chat in one of its cells."""
    raw["grid"].update(chat_max_in_flight=[0, 4])
    raw["classes"][0].update(more)


def with_command(*command: str) -> Raw:
    return {"mode": "process", "command": list(command)}


def test_a_cap_of_none_is_for_background_work_beside_other_classes() -> None:
    """The baseline "no background" of an isolation sweep stands in the same grid as the caps."""
    jobs = {"name": "jobs", "rate": 1, "prompt_tokens": 1, "output_tokens": 1}
    config = parse_sweep(sweep(classes=[CHAT, jobs], grid={"request_rate": [1.0], "jobs_max_in_flight": [0, 4]}), "f")
    assert [plan.load["jobs_max_in_flight"] for plan in plan_cells(config)] == [0, 4]


def test_the_cells_of_a_setting_stand_together_so_that_its_server_starts_once() -> None:
    """Server settings vary slowest within a repeat, load levels fastest."""
    cells = plan_cells(parse_sweep(sweep(run={"repeats": 2, "drift_check": False}), "f"))
    assert [(c.repeat, c.setting["max_num_seqs"], c.load["request_rate"]) for c in cells] == [
        (0, 1, 1.0), (0, 1, 2.0), (0, 2, 1.0), (0, 2, 2.0),
        (1, 1, 1.0), (1, 1, 2.0), (1, 2, 1.0), (1, 2, 2.0),
    ]  # fmt: skip
    assert [c.cell for c in cells] == list(range(8))


def test_cells_are_counted_without_being_built() -> None:
    """A typo that asks for a million cells is counted at once."""
    raw = sweep(grid={"max_num_seqs": list(range(1, 1001)), "request_rate": [x / 10 for x in range(1, 1001)]})
    assert count_cells(parse_sweep({**raw, "run": {"drift_check": False}}, "f")) == 1_000_000


@pytest.mark.parametrize(("duration_s", "warmup_s"), [(120, 30), (600, 60), (1200, 120), (40, 10), (8, 2)])
def test_warm_up_is_the_larger_of_30_s_and_a_tenth_but_at_most_a_quarter(duration_s: float, warmup_s: float) -> None:
    """metrics.md: drop max(30 s, 10 %), scaled down for short runs."""
    assert parse_sweep(sweep(run={"duration_s": duration_s}), "f").run.warmup == warmup_s


MISTAKES: list[tuple[str, Callable[[Raw], object], list[str]]] = [
    ("unknown key", lambda d: d.update(gird={}), ["gird", "not a known key"]),
    ("unknown key inside", lambda d: d["backend"].update(ulr="x"), ["backend.ulr", "not a known key"]),
    ("a number for a table", lambda d: d.update(run=3), ["run is 3", "table of keys"]),
    ("a word for a table", lambda d: d.update(classes=["chat"]), ["classes.0 is 'chat'", "table of keys"]),
    ("a list for a grid", lambda d: d.update(grid=[1]), ["grid is [1]", "table of keys"]),
    ("missing part", lambda d: d.pop("classes"), ["classes", "missing"]),
    ("wrong type", lambda d: d.update(run={"duration_s": "long"}), ["run.duration_s", "number", "'long'"]),
    ("a number for a list", lambda d: d.update(grid={"request_rate": 3}), ["grid.request_rate", "list"]),
    ("empty grid", lambda d: d.update(grid={}), ["grid is empty", "request_rate = [1.0]"]),
    ("empty list", lambda d: d["grid"].update(max_num_seqs=[]), ["grid.max_num_seqs", "at least one value"]),
    ("value twice", lambda d: d["grid"].update(max_num_seqs=[4, 4]), ["grid.max_num_seqs", "twice"]),
    ("fraction of a seat", lambda d: d["grid"].update(max_num_seqs=[1.5]), ["grid.max_num_seqs", "whole numbers"]),
    ("rate below zero", lambda d: d["grid"].update(request_rate=[-1.0]), ["grid.request_rate", "above 0"]),
    ("no time at all", lambda d: d.update(run={"duration_s": 0}), ["run.duration_s", "above 0"]),
    ("time without end", lambda d: d.update(run={"warmup_s": float("inf")}), ["run.warmup_s", "finite"]),
    ("rate of zero", lambda d: d["grid"].update(request_rate=[0]), ["grid.request_rate", "above 0"]),
    ("two load axes", lambda d: d["grid"].update(max_concurrency=[1]), ["request_rate and max_concurrency"]),
    ("weights without a rate", lambda d: d.update(grid={"max_num_seqs": [1]}), ["request_rate or max_concurrency"]),
    ("less than none", lambda d: d["grid"].update(chat_max_in_flight=[-1]), ["chat_max_in_flight", "at least 0"]),
    ("none of a class with targets", lambda d: none_of(d, slo={"ttft_ms": 1, "gap_ms": 1}), ["chat", "has targets"]),
    ("alone with a share", lambda d: d.update(run={"alone": "chat"}), ["run.alone", "neither slo"]),
    ("priority of nobody", lambda d: d["grid"].update(nobody_priority=[0, 1]), ["nobody_priority", "names no class"]),
    ("half a priority", lambda d: d["grid"].update(chat_priority=[0, 0.5]), ["chat_priority", "whole numbers"]),
    ("only as a setting", lambda d: d["grid"].update(only=["chat"]), ["grid.only", "run.alone"]),
    ("nothing to send", lambda d: none_of(d), ["chat_max_in_flight = 0", "nothing to send"]),
    ("cap of no class", lambda d: d["grid"].update(rag_max_in_flight=[2]), ["rag_max_in_flight", "chat"]),
    ("a class twice", lambda d: d.update(classes=[CHAT, CHAT]), ["same name"]),
    ("no arrivals", lambda d: d["classes"][0].pop("weight"), ["classes.0", "exactly one of weight, rate"]),
    ("two arrivals", lambda d: d["classes"][0].update(rate=1), ["classes.0", "exactly one of weight, rate"]),
    ("two lengths", lambda d: d["classes"][0].update(prompt_tokens={"fixed": 3, "p50": 2}), ["exactly one of fixed"]),
    ("p90 below p50", lambda d: d["classes"][0].update(prompt_tokens={"p50": 9, "p90": 2}), ["p90 >= p50"]),
    ("target below zero", lambda d: d["classes"][0].update(slo={"ttft_ms": -1, "gap_ms": 1}), ["ttft_ms", "above 0"]),
    ("kind unknown", lambda d: d["backend"].update(kind="gpt"), ["backend.kind", "'llama_cpp'", "'gpt'"]),
    ("no URL", lambda d: d["backend"].pop("url"), ["backend", 'url = "http://host:port"']),
    ("settings nobody applies", lambda d: d.pop("control"), ["max_num_seqs", 'mode = "process"']),
    ("no command", lambda d: d.update(control={"mode": "process"}), ["control", "command"]),
    (
        "command as one text",
        lambda d: d.update(control={"mode": "process", "command": "llama-server -m x"}),
        ["control.command", 'list, such as ["start.sh", "{max_num_seqs}"]', "not 'llama-server -m x'"],
    ),
    ("saved backend unknown", lambda d: d.update(backend="nas"), ["backend 'nas'", "[backend]"]),
    ("user in the URL", lambda d: d["backend"].update(url="http://u:SECRET@h:1"), ["backend", "api_key_env"]),
    ("key in the URL", lambda d: d["backend"].update(url="http://h:1/v1?api_key=SECRET"), ["backend", "api_key_env"]),
    ("user without a scheme", lambda d: d["backend"].update(url="u:SECRET@h:1"), ["backend", "api_key_env"]),
    ("key right after the host", lambda d: d["backend"].update(url="http://h:1?key=SECRET"), ["api_key_env"]),
    ("key with another name", lambda d: d["backend"].update(url="http://h/v1?a=1;api%5Fkey=SECRET"), ["api_key_env"]),
    ("key in a flag", lambda d: d.update(control=with_command("s", "--api-key", "SECRET")), ["--api-key", "env"]),
    ("key after =", lambda d: d.update(control=with_command("s", "--api-key=SECRET")), ["--api-key", "env"]),
    ("blank name", lambda d: d.update(name="  "), ["name is", "one line of words"]),
    ("name of two lines", lambda d: d.update(name="a\nb"), ["name is", "one line of words"]),
    ("no classes", lambda d: d.update(classes=[]), ["classes is empty", "[[classes]]"]),
    ("not a number", lambda d: d["grid"].update(request_rate=[float("nan")]), ["grid.request_rate lists nan"]),
    ("list in a list", lambda d: d["grid"].update(request_rate=[[1]]), ["grid.request_rate lists [1]", "numbers"]),
    ("the same number twice", lambda d: d["grid"].update(request_rate=[2, 2.0]), ["grid.request_rate", "twice"]),
    ("rate beyond memory", lambda d: d["grid"].update(request_rate=[1e9]), ["10,000,000 requests", "lower the rate"]),
    ("endless run", lambda d: d.update(run={"duration_s": 1e300}), ["run.duration_s", "less than or equal"]),
    ("endless prompt", lambda d: d["classes"][0].update(prompt_tokens=10**11), ["prompt_tokens", "10000000"]),
    ("endless median", lambda d: d["classes"][0].update(prompt_tokens={"p50": 1e300, "p90": 1e300}), ["10000000"]),
    ("priority of no column", lambda d: d["classes"][0].update(priority=10**21), ["priority", "less than"]),
    ("streams beyond memory", lambda d: d.update(grid={"max_concurrency": [10**6]}, control={}), ["100,000 streams"]),
    ("number of no size", lambda d: d["grid"].update(max_num_seqs=[1 << 20_000]), ["grid.max_num_seqs", "smaller"]),
    ("seed of no size", lambda d: d.update(run={"seed": -(1 << 129)}), ["run.seed", "128 bits"]),
    ("bursts beyond sense", lambda d: d["classes"][0].update(arrival="gamma", cv=1e9), ["classes.0.cv", "100"]),
    ("less than a token", lambda d: d["classes"][0].update(prompt_tokens={"p50": 1e-300, "p90": 5}), ["p50"]),
    ("endless target", lambda d: d["classes"][0].update(slo={"ttft_ms": 1e300, "gap_ms": 1}), ["ttft_ms"]),
    ("gap of nothing", lambda d: d["classes"][0].update(slo={"ttft_ms": 1, "gap_ms": 1e-12}), ["gap_ms", "0.001"]),
    ("endless weight", lambda d: d["classes"][0].update(weight=1e308), ["classes.0.weight"]),
    (
        "endless wait",
        lambda d: d.update(backend={"kind": "simulated", "batch_wait_ms": 1e308}, control={}),
        ["backend.batch_wait_ms", "3600000"],
    ),
    ("late dump", lambda d: d.update(grid={"max_num_seqs": [1]}, classes=[LATE]), ["classes.chat.dump.at_s", "150 s"]),
    ("control of our own engine", lambda d: d.update(backend={"kind": "simulated"}), ["control.mode", "leave it out"]),
    ("key in the environment", lambda d: d["control"].update(env={"HF_TOKEN": "SECRET"}), ["env.HF_TOKEN"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_each_mistake_is_one_sentence_that_names_file_key_and_mend(
    change: Callable[[Raw], object], says: list[str]
) -> None:
    """The sentence has no line break, no secret, and the words a person needs to mend it."""
    raw = sweep()
    change(raw)
    with pytest.raises(ConfigError) as error:
        parse_sweep(raw, "mine.toml")
    text = str(error.value)
    assert text.startswith("mine.toml: ")
    assert "\n" not in text
    assert "SECRET" not in text
    for word in says:
        assert word in text.replace("greater than 0", "above 0")


def test_a_key_by_the_name_of_a_variable_is_taken() -> None:
    """`${NAME}` in control.env is how a server that we start gets its key."""
    config = parse_sweep(sweep(control={**PROCESS, "env": {"LLAMA_API_KEY": "${LLM_API_KEY}"}}), "f")
    assert config.control.env == {"LLAMA_API_KEY": "${LLM_API_KEY}"}


def test_a_saved_backend_brings_its_control_along() -> None:
    """`backend = "name"` takes the saved table, and its control unless the file has its own."""
    saved = {"nas": {"kind": "llama_cpp", "url": "http://127.0.0.1:1", "control": PROCESS}}
    raw = sweep(backend="nas")
    del raw["control"]
    config = parse_sweep(raw, "f", saved)
    assert config.control.mode == "process"
    assert config.backend.url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("none.toml", None, "no such file"),
        ("bad.toml", "name = ", "not valid TOML"),
        ("bad.json", "{", "not valid JSON"),
        ("latin.toml", b"name = '\xe6'", "cannot be read"),
        ("list.json", "[]", "the file is .*, where a table of keys must be"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, name: str, text: str | bytes | None, says: str
) -> None:
    """Missing, torn and foreign files are named with what to do."""
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=says) as error:
        load_sweep(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("wrong", ["x" * 100_000, ["x"] * 100_000, {"a" * 100_000: "a\nb"}])
def test_a_long_mistake_is_told_shortly(wrong: object) -> None:
    """What stands in a file may be of any length; the sentence about it is not."""
    for raw in (sweep(run={"duration_s": wrong}), sweep(name=[wrong]), sweep(grid={"request_rate": [wrong, [wrong]]})):
        with pytest.raises(ConfigError) as error:
            parse_sweep(raw, "f")
        assert len(str(error.value)) < 500
        assert "\n" not in str(error.value)


def test_a_key_that_is_no_word_is_still_one_line() -> None:
    """TOML takes any text for a key."""
    with pytest.raises(ConfigError, match="not a known key") as error:
        parse_sweep(sweep(**{"a\nb\x1b[31m" + "c" * 500: 1}), "f")
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(("name", "text"), [("deep.toml", "name = " + "[" * 50_000), ("deep.json", "[" * 50_000)])
def test_a_file_of_nothing_but_brackets_is_one_sentence(tmp_path: Path, name: str, text: str) -> None:
    """Nested deeper than any reader goes."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="not valid"):
        load_sweep(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '{"name": "a", "name": "b"}'), ("a.toml", 'name = "a"\nname = "b"')]
)
def test_a_key_given_twice_is_a_mistake(tmp_path: Path, name: str, text: str) -> None:
    """In JSON as in TOML: nobody knows which of the two is meant."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="not valid"):
        load_sweep(tmp_path / name)


EXAMPLE = """
name = "how many chats fit"
[backend]
kind = "llama_cpp"
url = "http://127.0.0.1:8080"
model = "m"
api_key_env = "LLM_API_KEY"
[control]
mode = "process"
command = ["llama-server", "-np", "{max_num_seqs}", "-b", "{max_num_batched_tokens}", "--metrics", "--port", "8080"]
ready_timeout_s = 1800
[grid]
max_num_seqs = [1, 4, 8]
max_num_batched_tokens = [256, 1024]
request_rate = [0.5, 1.0, 2.0]
background_max_in_flight = [2]
[run]
duration_s = 120
warmup_s = 30
repeats = 1
seed = 1
[[classes]]
name = "chat"
weight = 0.8
arrival = "poisson"
prompt_tokens = {p50 = 300, p90 = 1200, max = 4000}
output_tokens = {p50 = 160, p90 = 400, max = 1000}
priority = 0
slo = {ttft_ms = 1000, gap_ms = 150, rule = "p99_gap"}
"""
BACKGROUND = """
[[classes]]
name = "background"
prompt_tokens = 32
output_tokens = {uniform = [32, 512]}
"""


@pytest.mark.parametrize(
    "source",
    [
        "rate = 1.5",
        "closed = {concurrency = 4}",
        'trace = "file.csv"',
        "dump = {count = 240, at_s = 60}",
        "weight = 0.2",
    ],
)
@pytest.mark.parametrize("arrival", ['arrival = "constant"', 'arrival = "gamma"\ncv = 2'])
def test_the_sweep_file_that_outsiders_are_shown_is_taken(tmp_path: Path, source: str, arrival: str) -> None:
    """Every key of it, with a second class in each of the ways in which requests may come."""
    file = tmp_path / "sweep.toml"
    file.write_text(f"{EXAMPLE}{BACKGROUND}{source}\n{arrival}\n")
    config = load_sweep(file)
    assert count_cells(config) == 19  # 3 x 2 x 3, and the first once more at the end of a long sweep
    assert config.classes[0].slo is not None
    assert config.control.ready_timeout_s == 1800


def test_a_profile_lies_beside_its_sweep_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever we run, as with recorded traces; one that is not there is looked for where we run."""
    (tmp_path / "away").mkdir()
    (tmp_path / "mine.toml").write_text("kv_tokens = 4096\n[cost]\na = 1\nb = 1\n")
    file = tmp_path / "sweep.json"
    monkeypatch.chdir(tmp_path / "away")
    backend = {"kind": "simulated", "profile": "mine.toml"}
    file.write_text(json.dumps(sweep(backend=backend, control={})))
    assert load_sweep(file).backend.profile == str(tmp_path / "mine.toml")
    grid = {"profile": ["mine.toml", "other.toml"], "request_rate": [1.0]}
    file.write_text(json.dumps(sweep(backend={"kind": "simulated"}, control={}, grid=grid)))
    assert load_sweep(file).grid["profile"] == (str(tmp_path / "mine.toml"), "other.toml")


def test_one_mistake_is_told_once() -> None:
    """A class that is wrong does not also count as a class that is missing."""
    raw = sweep()
    raw["classes"][0]["weight"] = 0
    with pytest.raises(ConfigError) as error:
        parse_sweep(raw, "f")
    assert "more)" not in str(error.value)


def test_a_byte_order_mark_and_windows_line_ends_are_no_mistake(tmp_path: Path) -> None:
    """Editors on Windows put the one in front of UTF-8 files and end lines with the other."""
    file = tmp_path / "sweep.toml"
    text = 'name = "x"\n[backend]\nkind = "simulated"\n[grid]\nmax_num_seqs = [1]\n[[classes]]\nname = "chat"\n'
    text += "rate = 1\nprompt_tokens = 1\noutput_tokens = 1\n"
    file.write_text(text, encoding="utf-8-sig", newline="\r\n")
    assert load_sweep(file).name == "x"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"run": {"repeats": True}}, "run.repeats is true; give a number"),
        ({"run": {"duration_s": False}}, "run.duration_s is false; give a number"),
        ({"run": {"stop_after_failures": True}}, "run.stop_after_failures is true; give a number"),
        ({"classes": [{**CHAT, "priority": True}]}, "classes.0.priority is true; give a number"),
        ({"classes": [{**CHAT, "prompt_tokens": {"fixed": True}}]}, "classes.0.prompt_tokens.fixed is true"),
        ({"classes": [{**CHAT, "prompt_tokens": {"uniform": [True, 5]}}]}, "classes.0.prompt_tokens.uniform is true"),
        ({"classes": [{**CHAT, "slo": {"ttft_ms": True, "gap_ms": 1}}]}, "classes.0.slo.ttft_ms is true"),
        ({"control": {**PROCESS, "ready_timeout_s": True}}, "control.ready_timeout_s is true; give a number"),
        ({"grid": {"max_num_seqs": [True], "request_rate": [1.0]}}, "grid.max_num_seqs needs whole numbers"),
        ({"grid": {"max_num_seqs": [1], "request_rate": [True]}}, "grid.request_rate needs numbers above 0"),
    ],
)
def test_true_is_not_taken_for_1(changes: Raw, sentence: str) -> None:
    """A slip of the hand must not change what is measured."""
    with pytest.raises(ConfigError, match=sentence.replace(".", r"\.")):
        parse_sweep(sweep(**changes), "f")


def test_yes_and_no_stay_what_they_are_where_they_are_meant() -> None:
    """A setting that is switched on and off, and the drift check."""
    raw = sweep(grid={"enable_chunked_prefill": [True, False], "request_rate": [1.0]}, run={"drift_check": True})
    config = parse_sweep(raw, "f")
    assert config.grid["enable_chunked_prefill"] == (True, False)
    assert config.run.drift_check is True
    with pytest.raises(ConfigError, match=r"run\.drift_check"):
        parse_sweep(sweep(run={"drift_check": 1}), "f")


def test_toml_s_own_times_are_taken_for_stop_by(tmp_path: Path) -> None:
    """Quoted or not."""
    for written in ('"07:00"', "07:00:00", "2026-12-24T07:00:00"):
        path = tmp_path / "f.toml"
        path.write_text(f"""name = "t"
[backend]
kind = "simulated"
[grid]
request_rate = [1.0]
[run]
stop_by = {written}
[[classes]]
name = "chat"
weight = 1
prompt_tokens = 1
output_tokens = 1
""")
        assert "07:00" in (load_sweep(path).run.stop_by or "")


def test_a_sweep_file_without_end_is_refused() -> None:
    """A device is read no further than a sweep file may be long."""
    with pytest.raises(ConfigError, match="larger than 10 MB"):
        load_sweep(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ({"find_rate": True, "budget": "20m"}, "give one of them"),
        ({"find_rate": True, "repeats": 2}, "run.repeats = 2 has no use beside run.find_rate"),
        ({"budget": "20m", "drift_check": True}, "run.drift_check = true has no use beside run.budget"),
        ({"budget": "soon"}, 'write the time the sweep may take, such as "20m"'),
        ({"budget": "0m"}, "budget is"),
        ({"budget": "1000h"}, "budget is"),
    ],
)
def test_a_search_refuses_what_it_could_not_keep(run: dict[str, object], says: str) -> None:
    """One sentence each: two searches at once, keys that say which cells there shall be, no span of time."""
    with pytest.raises(ConfigError, match=says):
        parse_sweep(sweep(run=run), "f")


def test_a_search_needs_targets_and_a_load() -> None:
    """A class with slo; and for find_rate something that can be raised."""
    chat = {"name": "chat", "closed": {"concurrency": 2}, "prompt_tokens": 8, "output_tokens": 8}
    slo = {"ttft_ms": 1000, "gap_ms": 150}
    run = {"find_rate": True}
    with pytest.raises(ConfigError, match=r"run\.find_rate needs targets"):
        parse_sweep(sweep(classes=[chat], grid={"max_concurrency": [4]}, run=run), "f")
    with pytest.raises(ConfigError, match="needs a load to raise"):
        parse_sweep(sweep(classes=[{**chat, "slo": slo}], grid={"max_num_seqs": [4]}, run=run), "f")
    assert parse_sweep(sweep(classes=[{**chat, "slo": slo}], grid={"max_num_seqs": [4]}, run={"budget": "1h30m"}), "f")
