"""The server-sent events parser against the WHATWG format."""

import pytest

from runner.protocols.sse import Event, SseParser


def parse(*reads: bytes) -> list[Event]:
    """Events of reads stamped 1, 2, 3 ..., with what is left at the end."""
    parser = SseParser()
    events = [event for stamp, data in enumerate(reads, start=1) for event in parser.feed(stamp, data)]
    last = parser.finish()
    return [*events, last] if last else events


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_ends_a_line(end: bytes) -> None:
    """LF, CRLF and CR are one and the same."""
    assert parse(b"data: a" + end + end + b"data: b" + end + end) == [(1, "", "a"), (1, "", "b")]


def test_cr_ends_the_event_at_once_and_its_lf_in_the_next_read_is_no_line() -> None:
    """An event is dated to the read with the CR, and the LF makes no empty event."""
    assert parse(b"data: a\r\n\r", b"\ndata: b\r\n\r", b"\n") == [(1, "", "a"), (2, "", "b")]


def test_an_event_carries_the_stamp_of_the_read_that_ends_its_blank_line() -> None:
    """Data alone is not an event yet."""
    assert parse(b"data: a\n", b"\n", b"data: b", b"\n\n") == [(2, "", "a"), (4, "", "b")]


def test_an_event_without_its_blank_line_is_given_at_the_end_with_the_stamp_of_its_last_byte() -> None:
    """Real servers leave out the last line end."""
    assert parse(b"data: a\n\n", b"data: [DO", b"NE]") == [(1, "", "a"), (3, "", "[DONE]")]
    assert parse(b"data: a\n", b": comment\n") == [(1, "", "a")]


def test_data_lines_of_one_event_are_joined_by_lf() -> None:
    """The order of fields does not matter."""
    assert parse(b"data: a\nevent: x\ndata:b\ndata\n\n") == [(1, "x", "a\nb\n")]


def test_only_one_space_after_the_colon_is_left_out() -> None:
    """`data:x`, `data: x` are the same, `data:  x` is not."""
    assert [data for _, _, data in parse(b"data:x\n\ndata: x\n\ndata:  x\n\n")] == ["x", "x", " x"]


def test_comments_ids_retry_and_unknown_fields_make_no_event() -> None:
    """Keep-alives and bookkeeping are not data; a name counts for its own event alone."""
    assert parse(b": ping\n\n:\n\nid: 7\nretry: 10\nfoo: bar\ndatax: 1\n\nevent: x\n\ndata: a\n\n") == [(1, "", "a")]


def test_a_byte_order_mark_is_skipped_even_when_cut() -> None:
    """Only at the start of the stream."""
    assert parse(b"\xef", b"\xbb\xbfdata: a\n\n") == [(2, "", "a")]
    assert parse(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [(1, "", "a")]


def test_characters_cut_by_reads_are_whole_and_bad_bytes_are_replaced() -> None:
    """Nothing raises on bytes that are no UTF-8."""
    assert parse(b"data: \xe6\x97", b"\xa5\n\n") == [(2, "", "日")]
    assert parse(b"data: \xff\xe6\n\n") == [(1, "", "\ufffd\ufffd")]


def test_unicode_line_separators_do_not_end_a_line() -> None:
    """U+2028 and U+0085 are text to this format."""
    assert parse("data: a\u2028b\u0085c\n\n".encode()) == [(1, "", "a\u2028b\u0085c")]


def test_an_empty_stream_and_empty_reads_have_no_events() -> None:
    """Nothing in, nothing out."""
    assert parse() == parse(b"", b"") == []


def test_an_error_field_is_an_event_of_that_name() -> None:
    """llama.cpp told errors so until late in 2025; data before it is an event of its own."""
    assert parse(b'error: {"code":400}\n\ndata: [DONE]\n\n') == [(1, "error", '{"code":400}'), (1, "", "[DONE]")]
    assert parse(b'data: {"a":1}\n', b"error: no\n\n") == [(1, "", '{"a":1}'), (2, "error", "no")]
    assert parse(b"err", b"or: x\r\n\r\n") == [(2, "error", "x")]
