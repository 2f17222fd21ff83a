"""Server-sent events, read as they come: bytes in, events out.

The format is the WHATWG one (https://html.spec.whatwg.org/multipage/server-sent-events.html): a line ends
with LF, CRLF or CR, wherever the reads were cut; a blank line ends an event; several `data` lines are joined
by LF; lines that begin with a colon are comments; a byte order mark at the start is skipped. `id` and `retry`
say nothing about an answer and are ignored. Bytes that are no UTF-8 become U+FFFD.

An event carries the stamp of the read that brought the end of its blank line, since no client can act on it
earlier. CR ends a line at once: waiting for a possible LF would date an event to the next read.

Two liberties are taken. Servers that leave the blank lines out are understood: data that is a whole JSON object (or the
end mark) is an event when the next `data` line comes, dated to the read that completed it; as the beginning of a
longer JSON text it would make no sense. And a field `error` is data of an event of that name: llama.cpp told errors so
till late in 2025 (https://github.com/coddy-project/coddy-agent/pull/106).
"""

import json

# (stamp in ns, event name or "", data)
Event = tuple[int, str, str]

_BOM = b"\xef\xbb\xbf"


class SseParser:
    """One stream. `feed` every read in order, then `finish` once for what the last blank line did not close."""

    __slots__ = ("_data", "_data_stamp", "_first_line", "_idle", "_line_stamp", "_name", "_skip_lf", "_tail")

    def __init__(self) -> None:
        self._tail = bytearray()  # the line that is not complete yet
        self._data: list[bytes] = []  # data lines of the event that is not complete yet
        self._data_stamp = 0  # of the last byte that belongs to the event
        self._line_stamp = 0  # of the last data line that is complete
        self._name = b""
        self._skip_lf = False  # the last read ended with CR: an LF that follows belongs to it
        self._first_line = True
        self._idle = True  # nothing of an event is held back

    @property
    def idle(self) -> bool:
        """Nothing of an event is held back: the next read begins a line."""
        return self._idle

    def feed(self, stamp: int, data: bytes) -> list[Event]:
        """The events that this read completes. `stamp` in ns. Never raises."""
        # The common form, one whole event in one read, is worth a way of its own: it is five times as fast.
        plain = self._idle and data[:6] == b"data: " and data[-2:] == b"\n\n"
        if plain and data.count(b"\n") == 2 and b"\r" not in data:
            self._first_line = False
            return [(stamp, "", data[6:-2].decode("utf-8", "replace"))]
        events: list[Event] = []
        for line in self._lines(data):
            if line:
                if self._data and line.startswith((b"data:", b"error:")) and _is_whole(self._data):
                    events.append((self._line_stamp, _text(self._name), _text(b"\n".join(self._data))))
                    self._data, self._name = [], b""
                self._take_line(stamp, line)
            else:
                if self._data:
                    events.append((stamp, _text(self._name), _text(b"\n".join(self._data))))
                self._data, self._name = [], b""
        if self._tail:
            self._data_stamp = stamp
        self._idle = not (self._tail or self._data or self._name or self._skip_lf)
        return events

    def finish(self) -> Event | None:
        """The event that the stream ended in, if any, with the stamp of its last byte.

        The standard throws it away; real servers leave out the blank line after the last event, so it is given,
        and the reader of its data decides whether it is whole.
        """
        if self._tail:
            line, self._tail = self._start(bytes(self._tail)), bytearray()
            self._take_line(self._data_stamp, line)
        if not self._data:
            return None
        event = (self._data_stamp, _text(self._name), _text(b"\n".join(self._data)))
        self._data, self._name, self._idle = [], b"", True
        return event

    def _lines(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes; the rest waits in the tail."""
        if self._skip_lf and data:
            data = data.removeprefix(b"\n")
            self._skip_lf = False
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        if len(lines) > 1 and self._tail:
            lines[0] = bytes(self._tail) + lines[0]
            self._tail.clear()
        self._tail += lines.pop()
        if lines:
            lines[0] = self._start(lines[0])
        return lines

    def _start(self, line: bytes) -> bytes:
        """The line without the byte order mark that only the first line of a stream may have."""
        if self._first_line:
            self._first_line = False
            return line.removeprefix(_BOM)
        return line

    def _take_line(self, stamp: int, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_stamp = self._line_stamp = stamp
        elif name == b"event":
            self._name = value.removeprefix(b" ")
        elif name == b"error":
            self._name = b"error"
            self._data.append(value.removeprefix(b" "))
            self._data_stamp = self._line_stamp = stamp


def _is_whole(lines: list[bytes]) -> bool:
    """Whether these data lines are a JSON object, or the end mark, without more of them."""
    data = b"\n".join(lines).strip()
    if data == b"[DONE]":
        return True
    if not (data.startswith(b"{") and data.endswith(b"}")):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
