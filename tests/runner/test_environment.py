"""What a sweep keeps about its machine: enough to judge the numbers, nothing that names it."""

import json
import platform
import socket
import time
from pathlib import Path

import pytest

from runner import environment
from runner.environment import (
    describe_machine,
    find_gpus,
    machine_name,
    parse_nvidia_smi,
    parse_rocm_smi,
    short_cpu,
)


@pytest.fixture(scope="module")
def machine() -> dict[str, object]:
    return describe_machine(look_s=0.05)


def fake_tool(folder: Path, name: str, body: str) -> None:
    script = folder / name
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)


def test_description_is_plain_json(machine: dict[str, object]):
    """The description survives strict JSON unchanged, so that it can be stored and shared."""
    assert json.loads(json.dumps(machine, allow_nan=False)) == machine


def test_description_says_what_the_numbers_depend_on(machine: dict[str, object]):
    """Cores, memory, kernel, versions and the kind of clock are there and plausible."""
    cores, memory = machine["cores"], machine["memory_gib"]
    assert isinstance(cores, int)
    assert cores >= 1
    assert isinstance(memory, float)
    assert memory > 0.1
    assert machine["kernel"] == platform.release()
    assert machine["python"] == platform.python_version()
    assert machine["clock"] in ("kernel", "user")
    libraries = machine["libraries"]
    assert isinstance(libraries, dict)
    assert libraries["httpx"]


def test_description_does_not_name_the_machine(machine: dict[str, object]):
    """No host name, no address and no path of this machine is in it: a report may be shared."""
    text = json.dumps(machine)
    for secret in (socket.gethostname(), str(Path.home()), str(Path.cwd()), "127.0.0.1"):
        assert secret not in text


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({"cpu": "AMD EPYC", "cores": 2, "memory_gib": 23.5, "gpus": []}, "2-core AMD EPYC, 24 GiB"),
        (
            {"cpu": "AMD EPYC 7763 64-Core Processor", "cores": 16, "memory_gib": 62.8,
             "gpus": [{"name": "NVIDIA GeForce RTX 3090"}] * 2},
            "16-core AMD EPYC 7763, 63 GiB, 2 x NVIDIA GeForce RTX 3090",
        ),
        ({"cpu": None, "architecture": "aarch64", "cores": 4, "memory_gib": 7.6, "gpus": []}, "4-core aarch64, 8 GiB"),
    ],
)  # fmt: skip
def test_machine_name_is_one_line(env: dict[str, object], line: str):
    """Cores, processor, memory and each kind of GPU in one line."""
    assert machine_name(env) == line


def test_machine_name_of_this_machine(machine: dict[str, object]):
    """The one line can be made from the description of any machine the tests run on."""
    assert machine_name(machine).startswith(f"{machine['cores']}-core ")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Intel(R) Core(TM) i7-6700 CPU @ 3.40GHz", "Intel Core i7-6700"),
        ("13th Gen Intel(R) Core(TM) i7-13700K", "Intel Core i7-13700K"),
        ("AMD Ryzen 7 5700G with Radeon Graphics", "AMD Ryzen 7 5700G"),
        ("AMD Ryzen 5 2600X Six-Core Processor", "AMD Ryzen 5 2600X"),
        ("Apple M2", "Apple M2"),
    ],
)
def test_short_cpu_drops_what_says_nothing(model: str, name: str):
    """Trade marks, clock rates and core counts go; maker and model stay."""
    assert short_cpu(model) == name


def test_nvidia_smi_lines():
    """Each line is a card: name, MiB and driver; a unified memory without a size is null; other lines are not cards."""
    text = "NVIDIA GeForce RTX 3090, 24576, 570.86.15\nNVIDIA GB10, [N/A], 580.1\nNo devices were found\n"
    assert parse_nvidia_smi(text) == [
        {"name": "NVIDIA GeForce RTX 3090", "memory_gib": 24.0, "driver": "570.86.15"},
        {"name": "NVIDIA GB10", "memory_gib": None, "driver": "580.1"},
    ]


@pytest.mark.parametrize("series", ["Card series", "Card Series"])
def test_rocm_smi_json(series: str):
    """Cards of the JSON form, whatever the case of its keys; members that are no card are left out."""
    card = {series: "AMD Radeon RX 7900 XTX", "VRAM Total Memory (B)": str(24 << 30)}
    text = json.dumps({"card0": card, "system": {"Driver version": "6.8"}})
    assert parse_rocm_smi(text) == [{"name": "AMD Radeon RX 7900 XTX", "memory_gib": 24.0, "driver": None}]


@pytest.mark.parametrize("text", ["", "WARNING: no GPU", "[]", '{"card0": 3}', "null"])
def test_rocm_smi_nonsense_is_no_gpu(text: str):
    """Whatever the tool prints instead of cards is no GPU and no error."""
    assert parse_rocm_smi(text) == []


def test_gpus_come_from_the_vendors_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A tool on the path is asked; one that fails tells nothing."""
    fake_tool(tmp_path, "nvidia-smi", "echo 'NVIDIA L4, 23034, 550.1'")
    fake_tool(tmp_path, "rocm-smi", 'echo \'{"card0": {"Card Series": "x"}}\'; exit 2')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_gpus() == [{"name": "NVIDIA L4", "memory_gib": 22.5, "driver": "550.1"}]


def test_a_hanging_tool_does_not_hold_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A driver that hangs costs the time limit, not the sweep."""
    fake_tool(tmp_path, "nvidia-smi", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    began = time.monotonic()
    assert find_gpus(timeout_s=0.2) == []
    assert time.monotonic() - began < 20


def test_no_tool_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without the vendors' tools the list is empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_gpus() == []


def test_a_busy_machine_is_said(monkeypatch: pytest.MonkeyPatch):
    """A third of the processor taken by others at the start is marked, a tenth is not."""
    for percent, busy in ((33.0, True), (10.0, False)):
        monkeypatch.setattr(environment.psutil, "cpu_percent", lambda interval, p=percent: p)
        found = describe_machine()
        assert (found["busy_share_at_start"], found["busy_at_start"]) == (percent / 100, busy)
