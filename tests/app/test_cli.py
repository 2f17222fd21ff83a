"""The command line as outsiders use it: JSON alone on stdout, one sentence on stderr, exit codes as promised."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.cli import main, parser
from app.progress import progress_text
from runner.config import parse_sweep
from runner.engines.address import free_port
from runner.engines.discover import Found
from runner.engines.identify import Identity
from runner.queue import enqueue
from storage.data_folder import locked, open_data_folder
from storage.queries import read_sweep
from storage.side_files import status_of
from tests.support.posting_server import chat_answer, server
from tests.support.small_sweeps import quick_raw, write_toml

REQUEST_KEYS = {
    "outcome", "error_kind", "error_detail", "http_status", "text", "reasoning_text", "finish_reason", "scheduled_ns",
    "sent_ns", "connect_ms", "ttft_ms", "ttft_answer_ms", "last_token_ms", "e2e_ms", "tpot_ms", "chunk_gaps_ms",
    "token_events", "output_tokens", "output_tokens_source", "reasoning_tokens", "prompt_tokens",
    "cached_prompt_tokens", "load_ms", "retry_after_s", "malformed_events", "clock", "flags",
}  # fmt: skip
RESULT_KEYS = {"sweep_id", "name", "status", "simulated", "backend", "environment", "cells", "choice"}
CELL_KEYS = {
    "cell", "setting", "request_rate", "offered_rate", "repeat", "status", "error_kind", "flags", "scheduled",
    "completed", "failed", "cancelled", "rejected", "output_tok_per_s", "prompt_tok_per_s", "request_per_s", "ttft_ms",
    "gap_ms", "tpot_ms", "e2e_ms", "goodput_per_s", "share", "share_low", "share_high", "classes", "engine",
    "on_frontier",
}  # fmt: skip
ENGINE_KEYS = {
    "running_mean", "running_max", "waiting_max", "kv_cache_usage_max", "num_preemptions", "batch_tokens_mean", "source"
}  # fmt: skip


def goodput(*args: str | Path, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "app.cli", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=110, env={**os.environ, **env}, stdin=subprocess.DEVNULL
    )


def strict(text: str) -> Any:  # noqa: ANN401 - any JSON
    """JSON as other readers take it: no NaN, no Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Path]:
    """(data folder, printed result, written page) of one quick sweep run through the command."""
    folder = tmp_path_factory.mktemp("cli")
    sweep, page = write_toml(folder / "quick.toml", quick_raw()), folder / "out.html"
    done = goodput("run", sweep, "--data", folder / "data", "--json", "--report", page)
    assert done.returncode == 0, done.stderr
    assert "2/2 cells" in done.stderr
    return folder / "data", strict(done.stdout), page


def test_run_prints_the_result_object_alone_and_writes_the_page(
    finished: tuple[Path, dict[str, Any], Path],
) -> None:
    """stdout is one JSON object with every promised key; the page is an HTML file."""
    _, result, page = finished
    assert set(result) >= RESULT_KEYS
    assert result["status"] == "done"
    assert len(result["cells"]) == 2
    for cell in result["cells"]:
        assert set(cell) >= CELL_KEYS
        assert set(cell["engine"]) >= ENGINE_KEYS
        assert set(cell["classes"]["chat"]) >= CELL_KEYS & {"scheduled", "completed", "ttft_ms", "gap_ms", "share"}
    assert set(result["choice"]) >= {"setting", "request_rate", "reason", "target_met", "raw_throughput_setting"}
    assert page.read_text(encoding="utf-8").lower().startswith("<!doctype html")


def test_show_prints_the_same_object_as_run(finished: tuple[Path, dict[str, Any], Path]) -> None:
    """The command that measured and the one that looks later agree in every number."""
    data, result, _ = finished
    again = goodput("show", result["sweep_id"], "--data", data, "--json")
    assert again.returncode == 0
    assert strict(again.stdout) == result


def test_show_ends_with_the_line_to_paste(finished: tuple[Path, dict[str, Any], Path]) -> None:
    """The start command of the chosen setting, in the object and as the last line of the text."""
    data, result, _ = finished
    line = result["choice"]["start_line"]
    assert line.startswith("goodput engine ")
    assert f"--max-num-seqs {result['choice']['setting']['max_num_seqs']}" in line
    assert goodput("show", result["sweep_id"], "--data", data).stdout.splitlines()[-1] == line


def test_list_show_resume_report_and_delete_work_on_a_finished_sweep(
    finished: tuple[Path, dict[str, Any], Path], tmp_path: Path
) -> None:
    """Each command finds the sweep by a prefix of its id; resuming a finished sweep measures nothing."""
    data, result, page = finished
    sweep_id = result["sweep_id"]
    assert sweep_id in goodput("list", "--data", data).stdout
    assert strict(goodput("list", "--data", data, "--json").stdout)[0]["status"] == "done"
    shown = goodput("show", sweep_id[:15], "--data", data)
    assert result["choice"]["reason"] in shown.stdout
    assert strict(goodput("resume", sweep_id, "--data", data, "--json").stdout) == result
    again = tmp_path / "again.html"
    assert goodput("report", sweep_id, "-o", again, "--data", data).returncode == 0
    assert again.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(data), str(copy)], check=True)
    assert goodput("delete", sweep_id, "--data", copy).returncode == 0
    assert goodput("show", sweep_id, "--data", copy).returncode == 2


def one_sentence(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    for word in words:
        assert word in done.stderr


def test_bad_config_is_exit_2_with_file_key_and_mend(tmp_path: Path) -> None:
    """Unknown key, empty grid: nothing is measured and no sweep is made."""
    sweep = write_toml(tmp_path / "bad.toml", quick_raw(grid={"max_num_seqs": [], "request_rate": [1.0]}))
    one_sentence(goodput("run", sweep, "--data", tmp_path / "d"), 2, "bad.toml", "grid.max_num_seqs", "at least one")
    assert not (tmp_path / "d").exists()


def test_an_unreachable_server_is_exit_2_before_anything_is_measured(tmp_path: Path) -> None:
    """The address is named; no sweep folder is left behind."""
    port = free_port()
    raw = quick_raw(backend={"kind": "openai", "url": f"http://127.0.0.1:{port}"}, grid={"request_rate": [1.0]})
    done = goodput("run", write_toml(tmp_path / "s.toml", raw), "--data", tmp_path / "d")
    one_sentence(done, 2, f"127.0.0.1:{port}")
    assert not list((tmp_path / "d" / "sweeps").iterdir())


def test_ten_thousand_cells_are_asked_about(tmp_path: Path) -> None:
    """Without a terminal to ask on, a very large sweep is refused with the flag that allows it."""
    grid = {"max_num_seqs": list(range(1, 101)), "request_rate": [x / 10 for x in range(1, 101)]}
    done = goodput("run", write_toml(tmp_path / "big.toml", quick_raw(grid=grid)), "--data", tmp_path / "d")
    one_sentence(done, 2, "10,000 cells", "--yes")


def test_a_second_runner_says_who_holds_the_folder(tmp_path: Path) -> None:
    """Two runners on one folder: the second one names the process of the first."""
    data = open_data_folder(tmp_path / "d")
    with locked(data, {"pid": os.getpid(), "since_unix_ns": 1, "command": "goodput run"}) as holder:
        assert holder is None
        one_sentence(goodput("runner", "--data", data), 2, str(os.getpid()), "goodput run")


def test_a_data_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "d").write_text("")
    sweep = write_toml(tmp_path / "s.toml", quick_raw())
    one_sentence(goodput("run", sweep, "--data", tmp_path / "d" / "x"), 1, str(tmp_path / "d"))


def test_ctrl_c_keeps_what_is_finished_and_ends_with_130(tmp_path: Path) -> None:
    """SIGINT in the second cell: exit code 130, the first cell kept, the way to go on is said."""
    import signal

    raw = quick_raw(grid={"max_num_seqs": [2, 4, 8], "request_rate": [20.0]})
    sweep = write_toml(tmp_path / "s.toml", raw)
    command = [sys.executable, "-m", "app.cli", "run", str(sweep), "--data", str(tmp_path / "d")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "1/3 cells" in line:
                running.send_signal(signal.SIGINT)
                break
        rest = running.stderr.read()
        assert running.wait(60) == 130
    assert "goodput resume" in rest
    assert "Traceback" not in rest


def test_probe_of_nothing_is_a_failed_request_object(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that is not there is data too: every key, outcome error, kind connect, exit code 1."""
    assert main(["probe", f"http://127.0.0.1:{free_port()}", "--json"]) == 1
    answer = strict(capsys.readouterr().out)
    assert set(answer) == REQUEST_KEYS
    assert (answer["outcome"], answer["error_kind"], answer["ttft_ms"]) == ("error", "connect", None)


def test_probe_with_an_unknown_dialect_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """The known ones are listed."""
    assert main(["probe", "http://127.0.0.1:1", "--api", "grpc"]) == 2
    assert "openai_chat" in capsys.readouterr().err


def test_every_command_of_the_interface_is_there() -> None:
    """Names and flags as promised."""
    for line in (
        "run s.toml --data d --report r.html --json", "resume ID", "list", "show ID --json", "delete ID",
        "report ID -o f.html",
        "probe http://h --api openai_chat --model m --prompt t --max-tokens 3 --api-key-env V --json",
        "engine --scheduler vllm_v1 --preset p --port 1 --max-num-seqs 2 --max-num-batched-tokens 3",
        "discover --json", "bench-client --json", "runner", "--host h --port 1 --data d --no-browser",
    ):  # fmt: skip
        assert callable(parser().parse_args(line.split()).do)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run", "SWEEP.toml"),
        ("rum sweep.toml", "'rum'"),
        ("run s.toml --nope", "--nope"),
        ("engine --port 99999", "99999 is above 65535"),
        ("probe http://h --max-tokens many", "'many'"),
        ("export ID --format xls -o x", "'xls'"),
    ],
)
def test_a_flag_that_is_wrong_is_one_sentence(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong and where the flags are shown, not all of them; exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("goodput")
    assert says in sentence
    assert "--help` shows" in sentence


def test_the_command_starts_without_the_heavy_libraries() -> None:
    """`goodput --help` and `goodput probe` must not wait for pandas, Streamlit or Plotly."""
    code = "import sys, app.cli; print([m for m in ('pandas', 'streamlit', 'plotly', 'duckdb') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_progress_line_says_what_runs_and_what_is_left() -> None:
    """Cells, phase, latencies, batch and time left in one line."""
    line = {
        "cells_done": 1, "cells_total": 4, "phase": "measure", "ttft_p50_ms": 120.4, "gap_p50_ms": 31.0,
        "running": 4.0, "waiting": 0.0, "failed": 0, "eta_s": 150.0,
    }  # fmt: skip
    assert progress_text(line).endswith(
        "1/4 cells  measure  ttft p50 120 ms  gap p50 31 ms  running 4  waiting 0  2 min left"
    )


def test_a_disk_that_fills_up_ends_the_sweep_with_one_sentence(tmp_path: Path) -> None:
    """Files may not grow beyond 900 kB: the sweep fails in plain words and its database stays whole."""
    raw = quick_raw(grid={"max_num_seqs": [64], "request_rate": [300.0]}, run={"duration_s": 20, "warmup_s": 0})
    raw["classes"][0]["output_tokens"] = 100
    sweep = write_toml(tmp_path / "s.toml", raw)
    code = (
        "import resource, signal, sys; from app.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, resource.RLIM_INFINITY))\n"
        f"sys.exit(main(['run', {str(sweep)!r}, '--data', {str(tmp_path / 'd')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=110)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("goodput: ")
    assert "sweep.duckdb" in last
    folder = next((tmp_path / "d" / "sweeps").iterdir())
    assert status_of(folder) == "failed"
    assert list(read_sweep(folder).cells["status"]) == ["running"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://[::1", "ftp://box", ""])
def test_a_probe_of_no_web_address_is_wrong_usage(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one sentence with the mend; nothing is sent anywhere."""
    assert main(["probe", url, "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "write it as http://host:port" in err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["http://u:SECRET@127.0.0.1:1"], "--api-key-env"),
        (["127.0.0.1:1/v1?api_key=SECRET"], "--api-key-env"),
        (["http://127.0.0.1:1", "--prompt", "\udcff"], "--prompt is not UTF-8"),
        (["http://127.0.0.1:1", "--model", "\udcff"], "--model is not UTF-8"),
        (["http://127.0.0.1:1", "--max-tokens", "0"], "--max-tokens 0"),
        (["http://127.0.0.1:1", "--api-key-env", "sk-SECRET"], "--api-key-env is not the name"),
    ],
)
def test_a_probe_that_cannot_be_meant_is_wrong_usage(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key in the address (which is not repeated), bytes that are no text, no answer asked for."""
    assert main(["probe", *args, "--json"]) == 2
    out, err = capsys.readouterr()
    assert (out, "SECRET" in err) == ("", False)
    assert says in err


def test_a_server_s_words_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences in an answer are not passed on; its line ends are. JSON has everything as it came."""
    with server({}, lambda *_: (200, chat_answer("red\x1b[31m\nblue"))) as (url, _):
        ask = ["probe", url, "--api", "openai_chat", "--model", "m"]
        assert main(ask) == 0
        shown = capsys.readouterr().out
        assert main([*ask, "--json"]) == 0
        answer = strict(capsys.readouterr().out)
    assert "\x1b" not in shown
    assert "[31m\nblue" in shown
    assert answer["text"] == "red\x1b[31m\nblue"


def test_a_run_that_is_refused_leaves_nothing_in_the_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another runner holds the folder: its end must not start what the user was told is not started."""
    data = open_data_folder(tmp_path / "data")
    sweep = write_toml(tmp_path / "quick.toml", quick_raw())
    with locked(data, {"pid": os.getpid()}):
        assert main(["run", str(sweep), "--data", str(data)]) == 2
    assert "another runner is at work" in capsys.readouterr().err
    assert list(data.glob("queue/*.json")) == []
    assert list(data.glob("sweeps/*")) == []


def test_ctrl_c_before_the_sweep_begins_leaves_nothing_in_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dashboard opened tomorrow must not measure what was broken off today; resume still can."""

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("runner.work.run_one", interrupted)
    data = open_data_folder(tmp_path / "data")
    assert main(["run", str(write_toml(tmp_path / "quick.toml", quick_raw())), "--data", str(data)]) == 130
    assert list(data.glob("queue/*.json")) == []
    assert [status_of(folder) for folder in data.glob("sweeps/*")] == ["stopped"]


@pytest.mark.parametrize(("page", "says"), [("none/x.html", "does not exist"), ("", "is a folder")])
def test_a_page_that_could_not_be_written_is_refused_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], page: str, says: str
) -> None:
    """Hours of measuring must not end with a wrong path; nothing is queued."""
    sweep = write_toml(tmp_path / "quick.toml", quick_raw())
    assert main(["run", str(sweep), "--data", str(tmp_path / "data"), "--report", str(tmp_path / page)]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.glob("data/sweeps/*")) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_stdout_is_one_sentence(tmp_path: Path) -> None:
    """`goodput list --json > file` on a full disk: exit code 1, no traceback."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", "list", "--json", "--data", str(tmp_path)],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "goodput: the output: No space left on device\n"


def test_a_name_in_any_script_is_listed_on_a_plain_terminal(tmp_path: Path) -> None:
    """A terminal without UTF-8 gets escapes for the letters it does not have; JSON is ASCII anyway."""
    data = open_data_folder(tmp_path)
    enqueue(data, parse_sweep(quick_raw(name="für 漢字"), "x"), "test")
    plain = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    listed = goodput("list", "--data", data, **plain)
    assert (listed.returncode, "f\\xfcr" in listed.stdout) == (0, True)
    assert strict(goodput("list", "--json", "--data", data, **plain).stdout)[0]["name"] == "für 漢字"


@pytest.mark.parametrize(("flag", "out", "err"), [("--json", "[]\n", ""), (None, "", "no LLM server answers")])
def test_discover_without_any_server_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str | None, out: str, err: str
) -> None:
    """An empty list on stdout, or a sentence on stderr; exit 0."""
    nothing: list[Found] = []
    monkeypatch.setattr("runner.once.discover_once", lambda: nothing)
    assert main(["discover", *([flag] if flag else [])]) == 0
    printed = capsys.readouterr()
    assert printed.out == out
    assert err in printed.err


def test_discover_prints_what_was_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON row of each server, or a table."""
    identity = Identity("ollama", "Ollama", "0.32.1", ("a:1b",), None, "no metrics", False, ("one note",))
    monkeypatch.setattr("runner.once.discover_once", lambda: [Found("http://127.0.0.1:11434", "ollama_chat", identity)])
    assert main(["discover", "--json"]) == 0
    (row,) = strict(capsys.readouterr().out)
    assert (row["kind"], row["url"], row["models"]) == ("ollama", "http://127.0.0.1:11434", ["a:1b"])
    assert main(["discover"]) == 0
    assert "Ollama  0.32.1   http://127.0.0.1:11434  ollama_chat  a:1b" in capsys.readouterr().out


def test_a_setting_that_the_server_refuses_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM would not start: told before anything is measured, with file and values."""
    raw = quick_raw(
        backend={"kind": "vllm", "url": f"http://127.0.0.1:{free_port()}"},
        control={"mode": "process", "command": [sys.executable, "{max_num_seqs}", "{max_num_batched_tokens}"]},
        grid={"max_num_seqs": [64], "max_num_batched_tokens": [32], "request_rate": [1.0]},
    )
    sweep = write_toml(tmp_path / "bad.toml", raw)
    assert main(["run", str(sweep), "--data", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().err
    assert "bad.toml: grid: vLLM does not start with max_num_batched_tokens = 32 below max_num_seqs = 64" in said
    assert list((tmp_path / "data").glob("sweeps/*")) == []


def test_what_the_server_ignores_is_said_before_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two priorities and a policy that does not heed them: one line on stderr, and the sweep goes on."""

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("runner.work.run_one", interrupted)
    chat = quick_raw()["classes"][0]
    raw = quick_raw(classes=[chat, {**chat, "name": "background", "priority": 1}])
    assert main(["run", str(write_toml(tmp_path / "quick.toml", raw)), "--data", str(tmp_path / "data")]) == 130
    assert "ignored: Built-in engine accepts priorities and ignores them" in capsys.readouterr().err
