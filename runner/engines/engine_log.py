"""The engine's output: pumped from its pipes into a bounded file, without secrets, its last lines at hand."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from runner.protocols.scrub import scrub

MAX_BYTES = 10_000_000
_KEPT_LINES = 200
_LONGEST_LINE = 64_000  # bytes; a progress bar without line ends must not grow without bound


class EngineLog:
    """One start's part of folder/engine.log. Threads read, so a full pipe never blocks the engine or a hook."""

    def __init__(self, path: Path, header: str, secrets: Sequence[str], max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._secrets = secrets
        self._max_bytes = max_bytes
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._threads: list[threading.Thread] = []
        self._writing = threading.Lock()  # hooks and a server that one of them left running write side by side
        self._out: IO[bytes] | None = None
        self.head(header)

    def head(self, header: str) -> None:
        """A line of our own before what follows."""
        self._write(f"=== {scrub(header, self._secrets)}\n".encode())

    def follow(self, pipe: IO[bytes]) -> None:
        thread = threading.Thread(target=self._pump, args=(pipe,), name="engine-log", daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def text(self) -> str:
        """The last lines of this start."""
        return "\n".join(list(self._lines))

    def finish(self, timeout_s: float) -> None:
        """Waits, up to the limit, until the dead engine's last lines are read (a child may keep the pipe open)."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._writing:
            if self._out is not None:  # opened anew should a child have more to say
                with contextlib.suppress(OSError):
                    self._out.close()
                self._out = None

    def _pump(self, pipe: IO[bytes]) -> None:
        with pipe:
            while raw := pipe.readline(_LONGEST_LINE):
                line = scrub(raw.decode("utf-8", "replace"), self._secrets)
                self._lines.append(line.rstrip())
                self._write(line.encode())

    def _write(self, data: bytes) -> None:
        """Appends; beyond half the bound the file becomes engine.log.1 and a new one begins. A full disk ends the log,
        not the engine: what it says is still read and kept at hand."""
        with self._writing, contextlib.suppress(OSError):
            out = self._out or self._path.open("ab")
            if out.tell() + len(data) > self._max_bytes // 2 and out.tell():
                out.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                out = self._path.open("ab")
            self._out = out
            out.write(data)
            out.flush()
