"""The bytes of answers."""

import json

import pytest

from runner.simulator.answer import WORDS, Wording, http_chunk, text, usage_of


def test_all_words_have_one_length():
    """The ready-made events count on it."""
    assert {len(word) for word in WORDS} == {5}
    assert len(set(WORDS)) == len(WORDS)


def test_as_many_words_as_tokens():
    """An answer of n tokens has n words, so that a reader can count them."""
    assert len(text(3, 41).split()) == 41


@pytest.mark.parametrize("chat", [True, False])
def test_ready_made_event_is_the_same_as_one_built_whole(chat: bool):
    """The fast path and the plain one give the same bytes, framed with the right length."""
    wording = Wording(chat, 'odd "name"', 7, 1)
    for index in (1, 2, 50):
        assert wording.event(index) == wording.token(index, None, None)
    size, rest = wording.event(1).split(b"\r\n", 1)
    assert int(size, 16) == len(rest) - 2


def test_pieces_join_to_the_whole_text():
    """What is streamed, joined, is what would have been sent at once."""
    wording = Wording(False, "m", 5, 1)
    events = [wording.token(0, None, None), *(wording.event(i) for i in range(1, 9))]
    said = [json.loads(e.split(b"data: ")[1].split(b"\n")[0])["choices"][0]["text"] for e in events]
    assert "".join(said) == text(5, 9)
    whole = json.loads(wording.whole(9, "length", usage_of(1, 9)))
    assert whole["choices"][0]["text"] == text(5, 9)


def test_end_of_a_stream():
    """Usage if asked for, then [DONE], then the last chunk."""
    wording = Wording(True, "m", 5, 1)
    assert wording.end(None) == http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    event = json.loads(wording.end(usage_of(3, 6)).split(b"data: ")[1].split(b"\n")[0])
    assert event["choices"] == []
    assert event["usage"]["total_tokens"] == 9
