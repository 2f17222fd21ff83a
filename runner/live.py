"""The side files of a running sweep: heartbeat in state.json, one line a second in live.jsonl.

Phases of a line: starting (the server), warmup, measure, drain, cooldown (between two cells, `cell` is null), idle
(paused), stopping.
"""

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from runner.analysis.timeline import live_summary
from runner.plan import PlannedCell
from storage.records import ClientSample, EngineSample, RequestRecord
from storage.side_files import append_line, write_state

Progress = Callable[[Mapping[str, Any]], None]
SAME_SECOND_NS = 1_500_000_000  # every load process tells of itself once a second, not all at once


class LiveFeed:
    """What a page may know while the database belongs to the runner."""

    def __init__(
        self, folder: Path, cells_total: int, on_progress: Progress, closed_classes: Sequence[str] = ()
    ) -> None:
        self._folder = folder
        self._writing = threading.Lock()
        self._on_progress = on_progress
        self._closed_classes = closed_classes
        self._started = time.monotonic()
        self._recent: list[RequestRecord] = []
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._sent = 0  # of those that have ended; the open ones are counted apart
        self._engine: EngineSample | None = None
        self._clients: list[ClientSample] = []  # the last second's, one of each load process
        self.open_streams = 0
        self.cells_total = cells_total
        self.cells_done = 0
        self.cell: int | None = None
        self._plan: PlannedCell | None = None
        self.phase = "starting"
        self.eta_s: float | None = None
        self.status = "starting"
        self.message = ""
        self.waiting_for: dict[str, Any] | None = None  # what the user is asked to do by hand: {"setting", "text"}
        self.verdict: str | None = None
        self.brief: dict[str, Any] | None = None  # the result in brief (runner.brief), once it is there
        self.stopped_by: str | None = None  # user | stop_by | failures, once it has stopped before its last cell
        self._owner = {"pid": os.getpid(), "create_time": psutil.Process().create_time()}

    def expect(self, cells_left: int, eta_s: float) -> None:
        """How much is still to come; a search learns it as it goes, so its `cells_total` may grow or shrink."""
        self.cells_total = self.cells_done + cells_left
        self.eta_s = round(eta_s, 1)

    def begin_cell(self, cell: int, phase: str, plan: PlannedCell | None = None) -> None:
        """A new cell: counts start again, what the page shows is of this cell. `plan`: what it is, for a page that
        cannot know, since a search chooses as it goes."""
        self.cell, self.phase, self._plan = cell, phase, plan
        self._counts.clear()
        self._errors.clear()
        self._recent = []
        self._sent = 0
        self._engine = None
        self._clients = []

    def note_record(self, record: RequestRecord) -> None:
        self._sent += record.sent_ns is not None
        self._recent.append(record)
        rejected = record.error_kind in ("rate_limited", "overloaded")
        self._counts["rejected" if rejected else record.outcome] += 1
        if record.error_kind and record.outcome == "error":
            self._errors[record.error_kind] += 1

    def note_engine(self, sample: EngineSample) -> None:
        self._engine = sample

    def note_client(self, sample: ClientSample) -> None:
        self._clients = [c for c in self._clients if c.at_ns > sample.at_ns - SAME_SECOND_NS] + [sample]

    def state(self) -> dict[str, Any]:
        """The content of state.json."""
        return {
            "status": self.status,
            **self._owner,
            "heartbeat_unix_ns": time.time_ns(),
            "cell": self.cell,
            "cells_total": self.cells_total,
            "cells_done": self.cells_done,
            "message": self.message,
            "waiting_for": self.waiting_for,
            "verdict": self.verdict,
            "brief": self.brief,
            "stopped_by": self.stopped_by,
        }

    def line(self) -> dict[str, Any]:
        """One line of live.jsonl; the latencies are of the requests that ended since the line before."""
        recent, self._recent = self._recent, []
        e, clients = self._engine, self._clients
        return {
            "at_s": round(time.monotonic() - self._started, 3),
            "cell": self.cell,
            "setting": self._plan.setting if self._plan and self.cell is not None else None,
            "load": self._plan.load if self._plan and self.cell is not None else None,
            "phase": self.phase,
            "cells_done": self.cells_done,
            "cells_total": self.cells_total,
            "eta_s": self.eta_s,
            "sent": self._sent + self.open_streams,
            "completed": self._counts["ok"],
            "failed": self._counts["error"],
            "rejected": self._counts["rejected"],
            **live_summary(recent, self._closed_classes),
            "running": e.running if e else None,
            "waiting": e.waiting if e else None,
            "kv_cache_usage": e.kv_cache_usage if e else None,
            "num_preemptions": e.num_preemptions_total if e else None,
            "open_streams": self.open_streams,
            "loop_lag_ms": round(max(c.loop_lag_ms for c in clients), 3) if clients else None,
            "cpu_share": round(max(c.cpu_share for c in clients), 3) if clients else None,
            "errors": dict(self._errors),
        }

    def write_state(self) -> None:
        """The state as it is when its turn to be written comes: a tick in a thread never puts an older one over it."""
        with self._writing:
            write_state(self._folder, self.state())

    async def tick(self) -> None:
        """Writes one line and the heartbeat, off the event loop."""
        line = self.line()
        await asyncio.to_thread(self._write, line)
        self._on_progress(line)

    def _write(self, line: Mapping[str, Any]) -> None:
        append_line(self._folder, "live.jsonl", dict(line))
        self.write_state()

    async def tick_every_second(self) -> None:
        """Runs until cancelled."""
        while True:
            await self.tick()
            await asyncio.sleep(1.0)
