"""The loop that every dialect shares: reads -> events -> JSON -> the dialect's own function -> facts."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from runner.protocols.answer import Answer, facts_of
from runner.protocols.counts import Counts
from runner.protocols.errors import error_in_stream
from runner.protocols.facts import StampedRead, StreamFacts
from runner.protocols.ndjson import NdjsonParser
from runner.protocols.shortcut import Shortcut
from runner.protocols.sse import SseParser

Json = dict[str, Any]
Take = Callable[[Json, int, Answer], None]  # (event's JSON object, stamp in ns, what to fill)
Count = Callable[[Json, Json], Counts]  # (usage as the dialect noted it, timings)

_HEAD_BYTES = 64


def read_answer(
    reads: Sequence[StampedRead], take: Take, count: Count, *, content_type: str | None, clean_end: bool
) -> StreamFacts:
    """The facts of one answer of status 200. Never raises, whatever the bytes are.

    The body's first character decides its form, since servers and proxies send wrong content types: `{` is JSON
    lines (or one JSON answer of a server that does not stream), `<` a web page, all else server-sent events.
    """
    answer = Answer()
    head = _head(reads)
    streamed = True
    if head == b"{":
        streamed = not _read_json(reads, take, answer, content_type, clean_end=clean_end)
    elif head == b"<":
        answer.error = ("http_error", f"the server answered with a web page ({content_type}) instead of a stream")
    else:
        _read_events(reads, SseParser(), take, answer, clean_end=clean_end)
    return facts_of(answer, count(answer.usage, answer.timings), clean_end=clean_end, streamed=streamed)


def _read_events(
    reads: Sequence[StampedRead],
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

    def take_alike(alike: list[StampedRead]) -> None:
        """Reads of one event each, all of the form that the shortcut knows."""
        nonlocal seen
        texts = None if answer.ended or answer.error else shortcut.texts_in([data for _, data in alike])
        if texts is None:  # one of them is not plain
            for read in alike:
                take_read(*read)
        else:
            seen += len(texts)
            answer.add_texts([stamp for stamp, _ in alike], texts)

    alike: list[StampedRead] = []
    head, tail = shortcut.head, shortcut.tail
    for read in reads:
        if head and read[1].startswith(head) and read[1].endswith(tail) and (alike or parser.idle):
            alike.append(read)
            continue
        if alike:
            take_alike(alike)
            alike = []
        take_read(*read)
        head, tail = shortcut.head, shortcut.tail
    if alike:
        take_alike(alike)
    last = parser.finish()
    if last:
        malformed = answer.malformed
        _take_event(*last, take, answer)
        if not clean_end:  # half an event at the end of a broken stream is the break, not bad JSON
            answer.malformed = malformed
    return seen + (last is not None)


def _read_json(
    reads: Sequence[StampedRead], take: Take, answer: Answer, content_type: str | None, *, clean_end: bool
) -> bool:
    """JSON lines, or one JSON answer on one or several lines; True for the latter."""
    lines = _read_events(reads, NdjsonParser(), take, answer, clean_end=clean_end)
    if lines > 1 and answer.malformed >= lines - 1:
        chunk = _load(b"".join(data for _, data in reads).decode("utf-8-sig", "replace"))
        if isinstance(chunk, dict):
            answer.malformed = 0
            _take_chunk(max(stamp for stamp, data in reads if data), "", "", chunk, take, answer)
            return True
    return lines == 1 and "ndjson" not in (content_type or "")


def _take_event(stamp: int, name: str, text: str, take: Take, answer: Answer) -> None:
    chunk = _load(text)
    if answer.ended:
        if isinstance(chunk, dict) and not answer.usage:  # some servers count only when they are done
            answer.note_usage(chunk.get("usage"))
        return
    if isinstance(chunk, dict):
        _take_chunk(stamp, name, text, chunk, take, answer)
    elif text.strip() == "[DONE]":
        answer.ended = True
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


def _head(reads: Sequence[StampedRead]) -> bytes:
    """The first character of the body that is neither white space nor a byte order mark."""
    head = b""
    for _, data in reads:
        head += data
        if len(head) >= _HEAD_BYTES:
            break
    return head[:_HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
