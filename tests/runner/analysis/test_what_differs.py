"""What two sweeps differ in, and nothing else."""

from dataclasses import replace
from typing import Any

from runner.analysis.prepare import Prepared
from runner.analysis.what_differs import flat, what_differs
from tests.support.tables import CHAT, make_config
from tests.support.two_sweeps import sweep

START = ["llama-server", "-m", "a.gguf", "-t", "2", "--metrics", "--temp=0", "-ngl", "-1", "-np", "{max_num_seqs}"]


def real(command: list[str] | None, **changes: Any) -> Prepared:  # noqa: ANN401
    """A sweep of a llama.cpp server with this start command."""
    control = {"mode": "process", "command": command} if command else {"mode": "none"}
    grid = {"max_num_seqs": [4], "request_rate": [1.2]} if command else {"request_rate": [1.2]}
    backend = {"kind": "llama_cpp", "url": "http://127.0.0.1:1"}
    config = make_config(**{"control": control, "grid": grid, "backend": backend, **changes})
    return replace(sweep(), config=config)


def keys(a: Prepared, b: Prepared, where: str) -> dict[str, tuple[Any, Any]]:
    return {d["key"]: (d["a"], d["b"]) for d in what_differs(a, b) if d["where"] == where}


def test_a_start_command_is_told_apart_flag_by_flag() -> None:
    """-t with its value, a switch that is gone, a value with =, a negative number, a word without a flag."""
    other = ["llama-server", "-m", "b.gguf", "-t", "1", "--temp=1", "-ngl", "20", "-np", "{max_num_seqs}", "extra"]
    assert keys(real(START), real(other), "control") == {
        "-m": ("a.gguf", "b.gguf"),
        "-t": ("2", "1"),
        "--metrics": (True, None),
        "--temp": ("0", "1"),
        "-ngl": ("-1", "20"),
        "word 11": (None, "extra"),
    }
    assert keys(real(START), real(START), "control") == {}


def test_a_command_that_is_not_told_is_no_difference_of_its_flags() -> None:
    """A sweep from elsewhere has none: only the mode is listed."""
    assert keys(real(START), real(None), "control") == {"mode": ("process", "none")}


def test_variables_of_the_server_are_part_of_its_start() -> None:
    """CUDA_VISIBLE_DEVICES and the like."""
    control = {"mode": "process", "command": START, "env": {"CUDA_VISIBLE_DEVICES": "0"}}
    assert keys(real(START), real(START, control=control), "control") == {"env.CUDA_VISIBLE_DEVICES": (None, "0")}


def test_workload_run_and_machine_are_told_by_their_keys() -> None:
    """A longer answer, another duration and another graphics card; what a moment's load was is no difference."""
    a, b = (sweep(n=20) for _ in range(2))
    longer = make_config(**{
        "grid": {"max_num_seqs": [4], "request_rate": [1.2]},
        "classes": [{**CHAT, "output_tokens": {"p50": 100, "p90": 300}}],
        "run": {"duration_s": 60, "warmup_s": 0, "drift_check": False},
    })  # fmt: skip
    a.tables.meta["environment"] = {"gpus": ["RTX 3090"], "load_average_1m": 0.1}
    b.tables.meta["environment"] = {"gpus": ["RTX 4090"], "load_average_1m": 7.0}
    b = replace(b, config=longer)
    assert keys(a, b, "environment") == {"gpus": (["RTX 3090"], ["RTX 4090"])}
    assert keys(a, b, "run") == {"duration_s": (100.0, 60.0)}
    assert keys(a, b, "workload") == {
        "chat.output_tokens.fixed": (16, None),
        "chat.output_tokens.p50": (None, 100.0),
        "chat.output_tokens.p90": (None, 300.0),
    }


def test_nested_names_are_joined_and_nulls_left_out() -> None:
    """Lists stay values."""
    assert flat({"a": {"b": 1, "c": None}, "d": [1, {"e": 2}]}) == {"a.b": 1, "d": [1, {"e": 2}]}
