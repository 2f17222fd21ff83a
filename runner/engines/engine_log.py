"""The engine's output: pumped from its pipe into a bounded file, without secrets, its last lines at hand."""

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from runner.protocols.scrub import scrub

MAX_BYTES = 10_000_000
_KEPT_LINES = 200
_LONGEST_LINE = 64_000  # bytes; a progress bar without line ends must not grow without bound


class EngineLog:
    """One start's part of folder/engine.log. A thread reads, so a full pipe never blocks the engine."""

    def __init__(self, path: Path, header: str, secrets: Sequence[str], max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._secrets = secrets
        self._max_bytes = max_bytes
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._thread: threading.Thread | None = None
        self._write(path.open("ab"), f"=== {header}\n".encode()).close()

    def follow(self, pipe: IO[bytes]) -> None:
        self._thread = threading.Thread(target=self._pump, args=(pipe,), name="engine-log", daemon=True)
        self._thread.start()

    def text(self) -> str:
        """The last lines of this start."""
        return "\n".join(list(self._lines))

    def finish(self, timeout_s: float) -> None:
        """Waits, up to the limit, until the dead engine's last lines are read (a child may keep the pipe open)."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _pump(self, pipe: IO[bytes]) -> None:
        out: IO[bytes] = self._path.open("ab")
        with pipe:
            while raw := pipe.readline(_LONGEST_LINE):
                line = scrub(raw.decode("utf-8", "replace"), self._secrets)
                self._lines.append(line.rstrip())
                out = self._write(out, line.encode())
        out.close()

    def _write(self, out: IO[bytes], data: bytes) -> IO[bytes]:
        """Appends; beyond half the bound the file becomes engine.log.1 and a new one begins."""
        if out.tell() + len(data) > self._max_bytes // 2 and out.tell():
            out.close()
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            out = self._path.open("ab")
        out.write(data)
        out.flush()
        return out
