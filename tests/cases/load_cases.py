"""The public bug reports of `cases.json`, rebuilt as small inputs with the value that is right (see CASES.md)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES_FILE = Path(__file__).with_name("cases.json")


@dataclass(frozen=True)
class StreamCase:
    """One case that a server plays: `chunks` are (ms after the one before, bytes of one write)."""

    id: str
    title: str
    api: str
    status: int
    headers: dict[str, str]
    end: str  # clean | cut | hold:N
    chunks: list[tuple[int, bytes]]
    request: dict[str, Any]
    expected: dict[str, Any]

    def reads(self, sent_ns: int = 0) -> list[tuple[int, bytes]]:
        """The chunks as stamped reads, each exactly on time after the request was sent."""
        at, stamped = sent_ns, []
        for delay_ms, data in self.chunks:
            at += delay_ms * 1_000_000
            stamped.append((at, data))
        return stamped


def load_cases() -> list[dict[str, Any]]:
    """All cases, as they stand in the file."""
    cases: list[dict[str, Any]] = json.loads(CASES_FILE.read_text(encoding="utf-8"))
    return cases


def load_stream_cases() -> list[StreamCase]:
    """The cases whose input is a stream."""
    return [_stream_case(case) for case in load_cases() if case["input"]["kind"] == "stream"]


def _stream_case(case: dict[str, Any]) -> StreamCase:
    given = case["input"]
    return StreamCase(
        id=case["id"],
        title=case["title"],
        api=given["api"],
        status=given["http"]["status"],
        headers=given["http"]["headers"],
        end=given["http"]["end"],
        chunks=[(delay_ms, text.encode("latin-1")) for delay_ms, text in given["chunks"]],
        request=given["request"],
        expected=case["expected"],
    )
