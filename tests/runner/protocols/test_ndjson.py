"""The JSON lines parser."""

from runner.protocols.ndjson import NdjsonParser
from runner.protocols.sse import Event


def parse(*reads: bytes) -> list[Event]:
    """Lines of reads stamped 1, 2, 3 ..., with what is left at the end."""
    parser = NdjsonParser()
    lines = [line for stamp, data in enumerate(reads, start=1) for line in parser.feed(stamp, data)]
    last = parser.finish()
    return [*lines, last] if last else lines


def test_cut_and_joined_lines_carry_the_stamp_of_their_end() -> None:
    """A line may take several reads, and a read may hold several lines."""
    assert parse(b"{1", b"2}\n{3}\n{4}", b"\n") == [(2, "", "{12}"), (2, "", "{3}"), (3, "", "{4}")]


def test_a_last_line_without_its_end_carries_the_stamp_of_its_last_byte() -> None:
    """Servers leave out the last line end."""
    assert parse(b"{1}\n{", b"2}", b"") == [(1, "", "{1}"), (2, "", "{2}")]


def test_blank_lines_cr_and_a_byte_order_mark_are_no_text() -> None:
    """CRLF files and keep-alive blank lines are read like others."""
    assert parse(b"\xef\xbb\xbf{1}\r\n\r\n \n{2}\r\n") == [(1, "", "{1}"), (1, "", "{2}")]


def test_characters_cut_by_reads_are_whole_and_bad_bytes_are_replaced() -> None:
    """Nothing raises on bytes that are no UTF-8."""
    assert parse(b"\xe6\x97", b"\xa5\n\xff\n") == [(2, "", "日"), (2, "", "\ufffd")]
