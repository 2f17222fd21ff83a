"""Reading without the JSON parser gives what the parser gives, whatever stands in the events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice, product, takewhile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runner.protocols import reading
from runner.protocols.dialects import DIALECTS
from runner.protocols.facts import StreamFacts
from runner.protocols.shortcut import Shortcut
from tests.cases.load_cases import StreamCase, load_stream_cases

CASES = [case for case in load_stream_cases() if case.status == 200]

# @ is where the text goes; each dialect's plain event, and events that only look like one
SHAPES = {
    "openai_chat": (
        '{"id":"a","choices":[{"index":0,"delta":{"content":"@"},"finish_reason":null}],"usage":null}',
        '{"id":"@","choices":[{"delta":{"content":"a"}}]}',
        '{"choices":[{"delta":{"content":"@","content":"b"}}]}',
        '{"choices":[{"delta":{"content":"b","content":"@"}}]}',
        '{"choices":[{"delta":{"content":"@"}},{"delta":{"content":"@"}}]}',
        '{"choices":[{"delta":{"content":"@"}},{"delta":{"content":""}}]}',
        '{"choices":[{"delta":{"content":"@","reasoning":"@"}}]}',
        '{"choices":[{"delta":{"content":"@","reasoning":"r"}}]}',
        '{"choices":[{"delta":{"content":"@"},"finish_reason":"@"}]}',
        '{"choices":[{"delta":{"content":"@"}}],"usage":{"completion_tokens":3}}',
        '{"choices":[],"usage":{"completion_tokens":5}}',
        '{"choices":[{"delta":{"content":"@"}}],"usage":{}}',
        '{"choices":[{"delta":{"content":"@"}}],"timings":{}}',
        '{"choices":[{"delta":{"content":"@"}}],"timings":{"predicted_n":4}}',
        '{"choices":[],"timings":{"predicted_n":5}}',
        '{"choices":[{"delta":{"content":"\\u0061"}}],"id":"@"}',
        '{"choices":[{"delta":{"@":"content"}}]}',
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}]}}]}',
        '{"object":"@","message":"m","choices":[{"delta":{"content":"error"}}]}',
    ),
    "openai_completions": ('{"choices":[{"text":"@","finish_reason":null}]}', '{"choices":[{"text":"@"}],"error":"@"}'),
    "ollama_chat": ('{"message":{"role":"assistant","content":"@"},"done":false}', '{"message":{"thinking":"@"}}'),
    "ollama_generate": ('{"response":"@","done":false}', '{"response":"@","done":true,"done_reason":"stop"}'),
    "llamacpp_completion": ('{"content":"@","stop":false}', '{"content":"@","tokens_predicted":2}'),
    "tgi_generate_stream": (
        '{"token":{"text":"@","special":false},"generated_text":null}',
        '{"token":{"text":"a"},"generated_text":"@"}',
    ),
}
# as a server would write them, and as none should
RAW = [" word", "a", "b", "", "error", '"', "\\", "\\n", "\\u0041", "\\ud83d", 'x","finish_reason":"stop', "\x7f", "\t"]
RAW += ["\u00a0", "\u2028", "\u00e4\u6f22", ",", ":", "@", "}", "\u2603probe"]
TEXTS = st.sampled_from(RAW) | st.text(max_size=4) | st.text(max_size=4).map(lambda text: json.dumps(text)[1:-1])


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A dialect and its events: runs of one shape, mixed with others."""
    api = draw(st.sampled_from(sorted(SHAPES)))
    shapes = draw(st.lists(st.sampled_from(SHAPES[api]), min_size=1, max_size=3))
    pairs = st.tuples(st.sampled_from(shapes), TEXTS)
    return api, [shape.replace("@", text) for shape, text in draw(st.lists(pairs, max_size=12))]


@contextmanager
def without_shortcut() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shortcut, "learn", lambda self, event, text: None)
        yield


def read(api: str, bodies: list[bytes]) -> StreamFacts:
    return DIALECTS[api].read_stream(list(enumerate(bodies)), content_type=None, clean_end=True)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is given to the JSON parser from here on."""
    parsed: list[str] = []
    load = reading._load

    def note(text: str) -> object:
        parsed.append(text)
        return load(text)

    monkeypatch.setattr(reading, "_load", note)
    return parsed


def read_both_ways(api: str, events: list[str], sizes: tuple[int, ...] = (1,)) -> None:
    """`sizes`: how many events come in one read, over and over."""
    for form in ("data: {}\n\n", "{}\n"):
        single = iter([form.replace("{}", event).encode("utf-8", "replace") for event in events])
        bodies = list(takewhile(bool, (b"".join(islice(single, size)) for size in cycle(sizes))))
        short = read(api, bodies)
        with without_shortcut():
            assert short == read(api, bodies)


@given(streams(), st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple))
@example(("openai_chat", [SHAPES["openai_chat"][-4].replace("@", text) for text in ("a", "b", "c")]), (1,))
@example(("openai_chat", [SHAPES["openai_chat"][-1].replace("@", text) for text in ("a", "error", "c")]), (1,))
def test_the_short_way_reads_what_the_long_way_reads(stream: tuple[str, list[str]], sizes: tuple[int, ...]) -> None:
    """Every fact is the same, for plain events, escapes, repeated keys, broken JSON and texts that mimic its syntax,
    also where several events come in one read."""
    read_both_ways(*stream, sizes)


@pytest.mark.parametrize("api", sorted(SHAPES))
def test_a_model_event_holds_its_place_among_others(api: str) -> None:
    """Of any two shapes: a run of the first, one of the second, and the first again with every kind of text."""
    for first, second in product(SHAPES[api], repeat=2):
        texts = ["a", "b", *RAW]
        read_both_ways(api, [first.replace("@", t) for t in texts] + [second.replace("@", "c")] * 2)
        read_both_ways(api, [first.replace("@", t) for t in "ab"] + [second.replace("@", "c"), first.replace("@", "d")])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_streams_of_bug_reports_read_the_same(case: StreamCase) -> None:
    """Streams in all the forms that servers are known to send."""
    bodies = [data for _, data in case.chunks]
    short = read(case.api, bodies)
    with without_shortcut():
        assert short == read(case.api, bodies)


@pytest.mark.parametrize("api", sorted(SHAPES))
def test_plain_events_of_every_dialect_take_the_short_way(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred events the first is parsed twice (once as a trial), and none after it."""
    parsed = counted(monkeypatch)
    shape = SHAPES[api][0]
    facts = read(api, [f"data: {shape.replace('@', f' w{number}')}\n\n".encode() for number in range(100)])
    assert facts.text == "".join(f" w{number}" for number in range(100))
    assert len(parsed) == 2


@pytest.mark.parametrize("sizes", [(2,), (1, 3, 1, 1), (1, 1, 1, 2)])
def test_several_events_in_a_read_take_the_short_way(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads in which a server's events have piled up cost no more parsing, and each event keeps its read's stamp."""
    parsed = counted(monkeypatch)
    events = [f"data: {SHAPES['openai_chat'][0].replace('@', f' w{number}')}\n\n".encode() for number in range(70)]
    rest, bodies = iter(events), []
    for size in islice(cycle(sizes), 70):
        bodies.append(b"".join(islice(rest, size)))
    bodies = [body for body in bodies if body]
    facts = read("openai_chat", [*bodies, b"data: [DONE]\n\n"])
    assert facts.text == "".join(f" w{number}" for number in range(70))
    assert facts.chunk_stamps_ns == [at for at, body in enumerate(bodies) for _ in range(body.count(b"data:"))]
    assert len(parsed) == 2


def test_a_clock_in_every_event_ends_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no event is like the one before, a hundred events cost four trials."""
    parsed = counted(monkeypatch)
    bodies = [f'{{"created_at":"{number}","response":" w","done":false}}\n'.encode() for number in range(100)]
    assert len(read("ollama_generate", bodies).chunk_stamps_ns) == 100
    assert len(parsed) == 104
