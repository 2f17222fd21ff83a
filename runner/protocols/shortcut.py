"""Nearly all events of a stream are one event with other text in it: these need no JSON parser. PURE.

Exact, not a guess. When an event differs from an earlier one only inside one string, and what stands there needs no
escape, then the JSON around it is the same and what stands there is that string. That the string is the generated
text, and that the event tells nothing else, is tried out once with the dialect's own function.
"""

from collections.abc import Callable, Sequence
from itertools import repeat

from runner.protocols.answer import Answer

_PROBE = "\N{SNOWMAN}probe"
_FREE_TRIES = 4  # servers that put a clock, a count or a random pad into every event: soon no further tries
_USES_PER_TRY = 8
ENDING = 4  # reads after the last token: how it ended, what it used, the end mark


class Shortcut:
    """For one stream. `parse(event, answer)` is the long way: an event's data into an answer, for any answer."""

    __slots__ = ("_parse", "_prefix", "_suffix", "_tries", "_uses", "head", "tail")

    def __init__(self, parse: Callable[[str, Answer], None]) -> None:
        self._parse = parse
        self._prefix = self._suffix = ""
        # the bytes around the text of such an event as it is sent; empty while nothing is learned
        self.head = self.tail = b""
        self._tries = self._uses = 0

    def text_of(self, event: str) -> str | None:
        """The generated text if that is all this event holds; None: it must be parsed."""
        if not (self._prefix and event.startswith(self._prefix) and event.endswith(self._suffix)):
            return None
        text = event[len(self._prefix) : -len(self._suffix)]  # empty also where both overlap
        return self._plain(text)

    def end_of_alike(self, reads: Sequence[bytes], start: int) -> int:
        """Where the reads end that begin with `head` and end with `tail`, the first at `start`; 0: not even that."""
        head, tail = self.head, self.tail
        if not head or not (reads[start].startswith(head) and reads[start].endswith(tail)):
            return 0
        for stop in range(len(reads), max(start, len(reads) - ENDING), -1):
            if reads[stop - 1].endswith(tail):  # then it is likely all of them
                alike = reads[start:stop]
                if all(map(bytes.startswith, alike, repeat(head))) and all(map(bytes.endswith, alike, repeat(tail))):
                    return stop
                break
        stop = start + 1
        while stop < len(reads) and reads[stop].startswith(head) and reads[stop].endswith(tail):
            stop += 1
        return stop

    def texts_in(self, stamps: Sequence[int], reads: Sequence[bytes]) -> tuple[Sequence[int], list[str]] | None:
        """`text_of` for reads that begin with `head` and end with `tail`: one server-sent event, seldom several.

        The stamp and the text of each event. None when any must be parsed: all are looked at in one go.
        """
        begin, end = len(self.head), -len(self.tail)
        bare = [read[begin:end] for read in reads]
        joined = b"\n".join(bare)
        if b'"' in joined:  # several events in some reads
            between = self.tail + self.head
            stamps = [stamp for stamp, data in zip(stamps, bare, strict=True) for _ in range(data.count(between) + 1)]
            joined = joined.replace(between, b"\n")
        texts = joined.decode("utf-8", "replace").split("\n")
        if len(texts) != len(stamps) or not all(texts) or self._plain("".join(texts)) is None:
            return None
        self._uses += len(texts) - 1
        return stamps, texts

    def _plain(self, text: str) -> str | None:
        # JSON takes no control characters, and these are not printable
        if not text or '"' in text or "\\" in text or not text.isprintable():
            return None
        self._uses += 1
        return text

    def learn(self, event: str, text: str) -> None:
        """Makes an event that was parsed, and that `text` came of, the model for those that follow, if it can be."""
        before, found, after = event.partition(f'"{text}"')
        if not found or self._tries >= _FREE_TRIES + self._uses // _USES_PER_TRY:
            return
        self._tries += 1
        prefix, suffix = f'{before}"', f'"{after}'
        if self._tells_only_text(prefix, suffix):
            self._prefix, self._suffix = prefix, suffix
            self.head, self.tail = f"data: {prefix}".encode(), f"{suffix}\n\n".encode()

    def _tells_only_text(self, prefix: str, suffix: str) -> bool:
        """Whether what stands between these two is the text that the dialect reads, and all that it reads."""
        probe = Answer()
        usage, timings = probe.usage, probe.timings
        self._parse(f"{prefix}{_PROBE}{suffix}", probe)
        silent = not (probe.reasoning or probe.tools or probe.malformed or probe.ended or probe.error)
        unchanged = probe.finish_reason is None and probe.usage is usage and probe.timings is timings
        return probe.text == [_PROBE] and silent and unchanged
