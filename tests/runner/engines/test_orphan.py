"""An engine whose runner was killed is found and ended, and nobody else is."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from runner.engines.address import free_port, port_is_taken
from runner.engines.orphan import PID_FILE, end_orphan, write_pid_file
from runner.engines.process import created_at

RUNNER = """
import asyncio, os, signal, sys
from pathlib import Path
from runner.engines.server import Server
from tests.engines_support.sweeps import scripted_sweep

async def main():
    await Server(scripted_sweep(int(sys.argv[2]), "--ignore-term", "--child"), Path(sys.argv[1])).apply({})
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
LEADER = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
"""
ROOT = Path(__file__).parents[3]


def test_the_engine_of_a_killed_runner_is_ended_with_its_child(tmp_path: Path) -> None:
    """kill -9 of the runner leaves the engine; end_orphan ends it, frees the port and forgets it."""
    port = free_port()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", RUNNER, str(tmp_path), str(port)], env=env, check=False, timeout=60)
    pid = json.loads((tmp_path / PID_FILE).read_text())["pid"]
    child = psutil.Process(pid).children()[0]
    assert port_is_taken("127.0.0.1", port)
    assert end_orphan(tmp_path, stop_timeout_s=0.3)
    assert not port_is_taken("127.0.0.1", port)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert not end_orphan(tmp_path)


def test_a_number_that_now_belongs_to_another_process_is_left_alone(tmp_path: Path) -> None:
    """Same number, other creation time: not ours."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        write_pid_file(tmp_path, process.pid, created_at(process.pid) - 100.0, 1)
        assert not end_orphan(tmp_path)
        assert process.poll() is None
        assert not (tmp_path / PID_FILE).exists()
    finally:
        process.kill()
        process.communicate()


def test_a_file_from_before_a_restart_of_the_machine_is_left_alone(tmp_path: Path) -> None:
    """After a reboot every number is someone else's."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        write_pid_file(tmp_path, process.pid, created_at(process.pid), 1)
        facts = json.loads((tmp_path / PID_FILE).read_text())
        (tmp_path / PID_FILE).write_text(json.dumps(facts | {"boot_time": facts["boot_time"] - 3600}))
        assert not end_orphan(tmp_path)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_children_left_by_a_dead_leader_are_ended(tmp_path: Path) -> None:
    """The leader is gone, its worker still holds memory: the group is ended."""
    leader = subprocess.Popen([sys.executable, "-c", LEADER], stdout=subprocess.PIPE, start_new_session=True, text=True)
    write_pid_file(tmp_path, leader.pid, created_at(leader.pid), 1)
    assert leader.stdout is not None
    worker = psutil.Process(int(leader.stdout.readline()))
    leader.wait()
    assert end_orphan(tmp_path, stop_timeout_s=2.0)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_no_file_or_a_damaged_one_means_no_orphan(tmp_path: Path) -> None:
    """Nothing to end, nothing raised."""
    assert not end_orphan(tmp_path)
    (tmp_path / PID_FILE).write_text('{"pid": 1')
    started = time.monotonic()
    assert not end_orphan(tmp_path)
    assert time.monotonic() - started < 5
