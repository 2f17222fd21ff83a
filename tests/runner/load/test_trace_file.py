"""Recorded traces: the formats people have, and a plain sentence for what can't be read."""

import pytest

from runner.errors import ConfigError
from runner.load.trace_file import TraceRow, parse_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""


def test_azure_trace_counts_from_its_first_row():
    """The Azure format: dates with seven decimals become seconds from the first request, to the microsecond."""
    rows = parse_trace(AZURE)
    assert [(r.prompt_tokens, r.output_tokens) for r in rows] == [(374, 44), (396, 109), (879, 55)]
    assert [r.arrival_s for r in rows] == pytest.approx([0.0, 4.314579, 4.541877], abs=2e-6)


def test_own_format_keeps_its_offsets():
    """arrival_s counts from the start of the load, so a first request at 1.5 s stays there."""
    rows = parse_trace("arrival_s,prompt_tokens,output_tokens\n1.5,10,20\n2,30,40\n")
    assert rows == [TraceRow(1.5, 10, 20), TraceRow(2.0, 30, 40)]


def test_unix_timestamps_and_other_column_names():
    """Numeric time stamps count from the first; columns may be named as in other public traces, in any order."""
    rows = parse_trace("Request tokens,Response tokens,Model,Timestamp\n472,18,x,1700000005\n1087,230,x,1700000000\n")
    assert rows == [TraceRow(0.0, 1087, 230), TraceRow(5.0, 472, 18)]


def test_lengths_are_optional_and_at_least_one():
    """A file of arrivals alone leaves the lengths to the class; a length of 0 becomes 1; blank lines don't count."""
    assert parse_trace("arrival_s\n0.5\n\n") == [TraceRow(0.5)]
    assert parse_trace("\ufeffarrival_s,output_tokens\n1,0\n2,\n") == [TraceRow(1.0, None, 1), TraceRow(2.0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column arrival_s or timestamp"),
        ("1.0,2,3\n", "no column arrival_s or timestamp"),
        ("arrival_s,prompt_tokens\n", "no request in it"),
        ("arrival_s,prompt_tokens\n1,5\nsoon,7\n", "line 3: 'soon,7'"),
        ("arrival_s,prompt_tokens\n1\n", "line 2: '1'"),
        ("arrival_s\nnan\n", "line 2"),
        ("arrival_s,prompt_tokens\n1,inf\n", "line 2"),
        ("arrival_s\n-1\n", "negative"),
    ],
)
def test_what_cannot_be_read_is_said_plainly(text: str, words: str):
    """A wrong file names itself, the line and what is wrong."""
    with pytest.raises(ConfigError) as caught:
        parse_trace(text, "my.csv")
    assert str(caught.value).startswith("my.csv")
    assert words in str(caught.value)


def test_lines_of_json_are_read_like_lines_of_csv():
    """The same names in any spelling; numbers or texts; a missing length stays with the class."""
    text = '{"timestamp": 1700000005, "prompt_tokens": 472, "output_tokens": "18"}\n\n'
    text += '{"Timestamp": "1700000000", "promptTokens": 1087, "model": {"a": [1]}}\n'
    assert parse_trace(text) == [TraceRow(0.0, 1087), TraceRow(5.0, 472, 18)]
    assert parse_trace('{"arrival_s": 1.5, "prompt_tokens": 0}') == [TraceRow(1.5, 1)]


@pytest.mark.parametrize(
    "line",
    [
        '{"arrival_s": true}', '{"arrival_s": NaN}', '{"arrival_s": [1]}', '{"prompt_tokens": 3}', "[1, 2]", "{",
        '{"arrival_s": 1, "prompt_tokens": 1e300}', '{"arrival_s": 1, "prompt_tokens": {}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_line_that_is_no_request_is_named(line: str):
    """Not a number, not finite, not an object, nested without end: the line is told, and nothing else happens."""
    with pytest.raises(ConfigError, match=r"my.jsonl, line 2: .{1,90} is not a time and two token counts"):
        parse_trace('{"arrival_s": 0}\n' + line, "my.jsonl")


def test_absurd_files_are_refused_before_they_fill_the_memory():
    """A field without end, a prompt of a billion tokens, times in milliseconds since 1970 called seconds."""
    with pytest.raises(ConfigError, match="line 2: is no CSV"):
        parse_trace("arrival_s\n" + "1" * 200_000)
    with pytest.raises(ConfigError, match="line 2"):
        parse_trace("arrival_s,prompt_tokens\n1,1000000000\n")
    with pytest.raises(ConfigError, match="give seconds"):
        parse_trace("arrival_s\n1700000000000\n")
