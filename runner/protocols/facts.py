"""What a dialect makes of one answer, and what it is asked to send. Shared by every dialect. PURE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict, overload

# One read from the socket, body bytes only (chunked framing and gzip already removed): (stamp in ns, bytes).
StampedRead = tuple[int, bytes]


class Reads(Sequence[StampedRead]):
    """Reads of one answer by column, `stamps` and `data` of the same length: a pair for each takes longer to make than
    to read."""

    __slots__ = ("data", "stamps")

    def __init__(self, stamps: list[int], data: list[bytes]) -> None:
        self.stamps, self.data = stamps, data

    def __len__(self) -> int:
        return len(self.stamps)

    @overload
    def __getitem__(self, at: int) -> StampedRead: ...
    @overload
    def __getitem__(self, at: slice) -> "Reads": ...
    def __getitem__(self, at: int | slice) -> "StampedRead | Reads":
        if isinstance(at, slice):
            return Reads(self.stamps[at], self.data[at])
        return self.stamps[at], self.data[at]

    def __iter__(self) -> Iterator[StampedRead]:
        return zip(self.stamps, self.data, strict=True)


def by_column(reads: Sequence[StampedRead]) -> Reads:
    if isinstance(reads, Reads):
        return reads
    return Reads([stamp for stamp, _ in reads], [data for _, data in reads])


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to be sent, independent of the dialect."""

    prompt: str
    model: str | None
    max_tokens: int
    priority: int | None = None  # only sent where the server takes it
    hold_length: bool = True  # ask for exactly max_tokens (ignore_eos / min_tokens) where the server takes it
    seed: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ServerParams:
    """Which optional parameters this server takes; found out once per backend by a probe, then stored."""

    max_tokens_name: str = "max_tokens"  # or max_completion_tokens
    ignore_eos: bool = True
    min_tokens: bool = True
    stream_options: bool = True
    priority: bool = False
    cache_prompt: bool = False  # llama.cpp: send cache_prompt=false so that prompts are really computed


class ToolCall(TypedDict):
    """One function that the model wants called; `arguments` as JSON text, as whole as the answer was."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """Everything one streamed answer tells. Stamps are those of the reads the chunks came in."""

    text: str
    reasoning_text: str
    chunk_stamps_ns: Sequence[int]  # one per event with generated text of any channel, in order
    shared_stamps: int  # events whose stamp is the same read's as the event before
    first_answer_ns: int | None
    output_tokens: int | None
    output_tokens_source: str | None  # usage | timings | tokenize | estimated
    reasoning_tokens: int | None
    prompt_tokens: int | None
    cached_prompt_tokens: int | None
    load_ms: float | None
    finish_reason: str | None
    malformed_events: int
    saw_terminator: bool
    error_kind: str | None  # an error inside the stream, or a stream that broke off
    error_detail: str | None
    tool_calls: tuple[ToolCall, ...] = ()
