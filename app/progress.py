"""The progress of a sweep on stderr: one line drawn anew on a terminal, else a line for each cell."""

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TextIO

WIDTH = 24


class Progress:
    """Give `show` to a sweep as its on_progress."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._cells_done = -1
        self._drawn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._drawn:
            with contextlib.suppress(OSError):
                self._out.write("\n")

    def show(self, line: Mapping[str, Any]) -> None:
        """Draws one line of live.jsonl. A terminal that went away does not end the sweep by an error of writing."""
        with contextlib.suppress(OSError):
            self._draw(line, progress_text(line))

    def _draw(self, line: Mapping[str, Any], text: str) -> None:
        if self._live:
            self._out.write("\r" + text.ljust(self._drawn))
            self._drawn = len(text)
        elif line["cells_done"] != self._cells_done:
            self._out.write(text + "\n")
        self._cells_done = line["cells_done"]
        self._out.flush()


def progress_text(line: Mapping[str, Any]) -> str:
    """[#####     ] 2/6 cells  measure  ttft p50 120 ms  gap p50 31 ms  running 4  waiting 0  failed 0  1 min left."""
    done, total = line["cells_done"], line["cells_total"]
    filled = WIDTH * done // max(1, total)
    parts = [f"[{'#' * filled}{' ' * (WIDTH - filled)}] {done}/{total} cells", str(line["phase"])]
    for key, name in (("ttft_p50_ms", "ttft p50"), ("gap_p50_ms", "gap p50")):
        if line.get(key) is not None:
            parts.append(f"{name} {line[key]:.0f} ms")
    for key in ("running", "waiting"):
        if line.get(key) is not None:
            parts.append(f"{key} {line[key]:.0f}")
    if line.get("failed"):
        parts.append(f"failed {line['failed']}")
    if line.get("eta_s") is not None:
        parts.append(f"{line['eta_s'] / 60:.0f} min left" if line["eta_s"] >= 90 else f"{line['eta_s']:.0f} s left")
    return "  ".join(parts)
