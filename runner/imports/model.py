"""What other tools' result files say, in one form: a file has runs, a run may have requests. PURE.

Nothing of a file is kept but what is named here: files hold prompts, answers, addresses and keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from storage.errors import GoodputError

Rescoring = Literal["full", "mean_only", "none"]
MAX_FILE_BYTES = 64_000_000
MAX_REQUESTS = 1_000_000  # of one import
MAX_TOKENS = 10_000_000  # of one request, and chunks of one import
CLASS = "requests"  # other tools have one class


class ImportFailed(GoodputError):
    """A file that can't be taken in; the text says which, why, and what would help. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Point:
    """One request. Times in s after the run's start, durations in ms; null where the tool does not tell."""

    sent_s: float
    scheduled_s: float  # the same as sent_s unless the tool tells when the request was due
    ttft_ms: float | None  # from send
    gaps_ms: tuple[float, ...] | None  # between chunks; null: the tool keeps no single gaps
    tpot_ms: float | None  # mean after the first token, by the definition (last - first) / (n - 1)
    end_ms: float | None  # from send
    output_tokens: int | None
    prompt_tokens: int | None
    error: str | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One setting at one load. `stated`: the tool's own numbers under the keys of `cells[]` rows."""

    setting: Mapping[str, Any]
    load: Mapping[str, Any]
    repeat: int
    duration_s: float | None
    stated: Mapping[str, Any]
    points: tuple[Point, ...] = ()
    timed: bool = False  # whether the points' sent_s are told by the tool
    error: str | None = None  # a run that failed as a whole


@dataclass(frozen=True, slots=True)
class ToolFile:
    """One import of another tool. `badges`: how its definitions differ from ours (ids, see app.views.badges)."""

    tool: str
    tool_version: str | None
    model: str | None
    kind: str  # backend kind, as in a sweep file
    runs: tuple[ToolRun, ...]
    badges: tuple[str, ...]
    targets: Mapping[str, float] = field(default_factory=dict)  # ttft_ms, gap_ms (of the mean) it was run with

    @property
    def rescoring(self) -> Rescoring:
        """What can be worked out again for every run that did not fail."""
        alive = [r for r in self.runs if r.error is None]
        answered = [[p for p in r.points if p.error is None and not p.cancelled] for r in alive]
        if not alive or not all(r.points for r in alive):
            return "none"
        if all(p.ttft_ms is not None and p.gaps_ms is not None for run in answered for p in run):
            return "full"
        known = all(p.ttft_ms is not None for run in answered for p in run)
        return "mean_only" if known else "none"
