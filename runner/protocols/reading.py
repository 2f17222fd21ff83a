"""The loop that every dialect shares: reads -> events -> JSON -> the dialect's own function -> facts."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from runner.protocols.answer import Answer, facts_of
from runner.protocols.counts import Counts
from runner.protocols.errors import error_in_stream
from runner.protocols.facts import Reads, StampedRead, StreamFacts, by_column
from runner.protocols.ndjson import NdjsonParser
from runner.protocols.shortcut import Shortcut
from runner.protocols.sse import SseParser

Json = dict[str, Any]
Take = Callable[[Json, int, Answer], None]  # (event's JSON object, stamp in ns, what to fill)
Count = Callable[[Json, Json], Counts]  # (usage as the dialect noted it, timings)

_HEAD_BYTES = 64


def read_answer(
    stamped: Sequence[StampedRead], take: Take, count: Count, *, content_type: str | None, clean_end: bool
) -> StreamFacts:
    """The facts of one answer of status 200. Never raises, whatever the bytes are.

    The body's first character decides its form, since servers and proxies send wrong content types: `{` is JSON
    lines (or one JSON answer of a server that does not stream), `<` a web page, all else server-sent events.
    """
    answer, reads = Answer(), by_column(stamped)
    head = _head(reads.data)
    streamed = True
    if head == b"{":
        streamed = not _read_json(reads, take, answer, content_type, clean_end=clean_end)
    elif head == b"<":
        answer.error = ("http_error", f"the server answered with a web page ({content_type}) instead of a stream")
    else:
        _read_events(reads, SseParser(), take, answer, clean_end=clean_end)
    return facts_of(answer, count(answer.usage, answer.timings), clean_end=clean_end, streamed=streamed)


def _read_events(
    reads: Reads,
    parser: SseParser | NdjsonParser,
    take: Take,
    answer: Answer,
    *,
    clean_end: bool,
) -> int:
    """Every event in turn; returns how many there were."""
    seen = 0
    shortcut = Shortcut(lambda event, probe: _take_event(0, "", event, take, probe))

    def take_read(stamp: int, data: bytes) -> None:
        nonlocal seen
        for at, name, text in parser.feed(stamp, data):
            seen += 1
            plain = None if name or answer.ended or answer.error else shortcut.text_of(text)
            if plain is not None:
                answer.add(at, plain)
                continue
            known = len(answer.text)
            _take_event(at, name, text, take, answer)
            if len(answer.text) > known and not name:
                shortcut.learn(text, answer.text[-1])

    stamps, bodies = reads.stamps, reads.data
    at, count = 0, len(bodies)
    while at < count:
        stop = at + 1
        if parser.idle and not (answer.ended or answer.error):
            stop = shortcut.end_of_alike(bodies, at) or stop
        found = shortcut.texts_in(stamps[at:stop], bodies[at:stop]) if stop - at > 1 else None
        if found is None:  # one of them is not plain
            for stamp, body in zip(stamps[at:stop], bodies[at:stop], strict=True):
                take_read(stamp, body)
        else:
            seen += len(found[1])
            answer.add_texts(*found)
        at = stop
    last = parser.finish()
    if last:
        malformed = answer.malformed
        _take_event(*last, take, answer)
        if not clean_end:  # half an event at the end of a broken stream is the break, not bad JSON
            answer.malformed = malformed
    return seen + (last is not None)


def _read_json(reads: Reads, take: Take, answer: Answer, content_type: str | None, *, clean_end: bool) -> bool:
    """JSON lines, or one JSON answer on one or several lines; True for the latter."""
    lines = _read_events(reads, NdjsonParser(), take, answer, clean_end=clean_end)
    if lines > 1 and answer.malformed >= lines - 1:
        chunk = _load(b"".join(reads.data).decode("utf-8-sig", "replace"))
        if isinstance(chunk, dict):
            answer.malformed = 0
            _take_chunk(max(stamp for stamp, data in reads if data), "", "", chunk, take, answer)
            return True
    return lines == 1 and "ndjson" not in (content_type or "")


def _take_event(stamp: int, name: str, text: str, take: Take, answer: Answer) -> None:
    if text.strip() == "[DONE]":
        answer.ended = True
        return
    chunk = _load(text)
    if answer.ended:
        if isinstance(chunk, dict) and not answer.usage:  # some servers count only when they are done
            answer.note_usage(chunk.get("usage"))
        return
    if isinstance(chunk, dict):
        _take_chunk(stamp, name, text, chunk, take, answer)
    elif name == "error":
        answer.error = answer.error or error_in_stream(name, text, None)
    elif text.strip():
        answer.malformed += 1


def _take_chunk(stamp: int, name: str, text: str, chunk: Json, take: Take, answer: Answer) -> None:
    error = error_in_stream(name, text, chunk)
    if error:
        answer.error = answer.error or error
    elif not answer.error:
        take(chunk, stamp, answer)


def _load(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _head(reads: Sequence[bytes]) -> bytes:
    """The first character of the body that is neither white space nor a byte order mark."""
    head = b""
    for data in reads:
        head += data
        if len(head) >= _HEAD_BYTES:
            break
    return head[:_HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
