"""JSON lines, read as they come: bytes in, lines out.

A line ends with LF (a CR before it is white space to JSON). It carries the stamp of the read that brought its
end; a last line without LF carries the stamp of its last byte. Bytes that are no UTF-8 become U+FFFD.
"""

from runner.protocols.sse import Event

_BOM = "\ufeff"


class NdjsonParser:
    """One stream. `feed` every read in order, then `finish` once for a last line without a line end."""

    __slots__ = ("_first_line", "_tail", "_tail_stamp")

    def __init__(self) -> None:
        self._tail = bytearray()
        self._tail_stamp = 0
        self._first_line = True

    @property
    def idle(self) -> bool:
        """Never by the rules of server-sent events, which end an event with a blank line."""
        return False

    def feed(self, stamp: int, data: bytes) -> list[Event]:
        """The lines that this read completes, as events without a name; blank ones left out. Never raises."""
        lines = data.split(b"\n")
        if len(lines) > 1 and self._tail:
            lines[0] = bytes(self._tail) + lines[0]
            self._tail.clear()
        self._tail += lines.pop()
        if data:
            self._tail_stamp = stamp
        return [(stamp, "", text) for text in map(self._text, lines) if text]

    def finish(self) -> Event | None:
        """The line that the stream ended in, if any."""
        text = self._text(bytes(self._tail))
        self._tail.clear()
        return (self._tail_stamp, "", text) if text else None

    def _text(self, line: bytes) -> str:
        text = line.decode("utf-8", "replace")
        if self._first_line:
            self._first_line = False
            text = text.removeprefix(_BOM)
        return text.strip(" \t\r")
