"""The built-in engine as a process of its own, for tests that talk to it as to any server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def engine_process(*flags: str) -> Iterator[tuple["subprocess.Popen[str]", str, str]]:
    """A running engine on a free port: (process, base URL, ready line); it ends with the block."""
    command = [sys.executable, "-m", "runner.simulator", "--port", "0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            url = re.search(r"http://[\d.]+:\d+", line)
            assert url, line
            yield process, url.group(), line
        finally:
            process.kill()


@contextmanager
def running_engine(*flags: str) -> Iterator[str]:
    """Its base URL."""
    with engine_process(*flags) as (_, url, _line):
        yield url
