"""The sweep files of sample_data/papers, run as `goodput simulate FILE --json` runs them, and how their cells are read.

Nothing here knows a load or a cost model: those stand in the files alone.
"""

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from app.cli import main

FOLDER = Path(__file__).parents[2] / "sample_data" / "papers"
Cell = dict[str, Any]


@cache
def cells_of(name: str) -> tuple[Cell, ...]:
    """Cells of the result object of one sweep file; run once in a process. Raises RuntimeError if the command fails."""
    told, said = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as data, contextlib.redirect_stdout(told), contextlib.redirect_stderr(said):
        code = main(["simulate", str(FOLDER / f"{name}.toml"), "--json", "--data", data])
    if code:
        raise RuntimeError(f"{name}: exit code {code}: {said.getvalue()}")
    return tuple(json.loads(told.getvalue())["cells"])


def cell(name: str, request_rate: float | None = None, cap: int | None = None, **setting: object) -> Cell:
    """The one cell with this load and, among others, these settings."""
    found = [
        c
        for c in cells_of(name)
        if setting.items() <= c["setting"].items()
        and request_rate in (None, c["request_rate"])
        and cap in (None, c["load"].get("background_max_in_flight"))
    ]
    assert len(found) == 1, f"{name}: {len(found)} cells for {setting}"
    return found[0]


def capacity(name: str, holds: Callable[[Cell], bool], **setting: object) -> float:
    """The largest rate of the file up to which every cell with these settings holds, requests/s; 0 if the lowest fails.

    A file whose highest rate holds says too little: that is an AssertionError.
    """
    line = sorted(
        (c for c in cells_of(name) if setting.items() <= c["setting"].items()), key=lambda c: float(c["request_rate"])
    )
    held = 0.0
    for c in line:
        if not holds(c):
            return held
        held = float(c["request_rate"])
    raise AssertionError(f"{name} {setting}: holds at its highest rate, {held:g}; add higher ones")
