"""The dashboard interrupts nobody, and the worker that it starts takes turns as usual."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has it")
CHILD = """
import os
from runner.priority import take_turns_as_usual
before = os.sched_getscheduler(0)
take_turns_as_usual()
print(before, os.sched_getscheduler(0))
"""
PARENT = f"""
import os, subprocess, sys, threading
from runner.priority import yield_to_others
yield_to_others()
seen = []
thread = threading.Thread(target=lambda: seen.append(os.sched_getscheduler(0)))
thread.start(); thread.join()
print(os.sched_getscheduler(0), *seen, flush=True)
subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
"""


def test_yielding_is_handed_down_and_taken_back_without_rights() -> None:
    """Threads and processes inherit it; a child ends it for itself."""
    done = subprocess.run([sys.executable, "-c", PARENT], cwd=ROOT, capture_output=True, text=True, check=True)
    batch, usual = str(os.SCHED_BATCH), str(os.SCHED_OTHER)
    assert done.stdout.split() == [batch, batch, batch, usual]
