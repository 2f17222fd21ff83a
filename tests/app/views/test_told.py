"""Values of a result's sentences in the reader's language."""

import pytest

from app.views.told import told_values
from app.words import Words, load_words


@pytest.mark.parametrize(
    ("english", "polish"),
    [
        ("99.4 %", "99,4 %"),
        ("~5.7", "~5,7"),
        ("13.4 requests/s", "13,4 req/s"),
        ("0.5 requests/s, background_max_in_flight 4", "0,5 req/s, background_max_in_flight 4"),
        ("-10.6 points", "-10,6 pkt proc."),
        ("1 h 20 min", "1 h 20 min"),
        ("max_num_seqs 8, temperature 0.5", "max_num_seqs 8, temperature 0.5"),
        ("", ""),
    ],
)
def test_amounts_have_the_marks_and_units_of_the_language(english: str, polish: str) -> None:
    """Names of settings stay as the server spells them."""
    assert told_values({"x": english, "n": 3}, load_words("pl")) == {"x": polish, "n": 3}


def test_english_stays_as_it_was_written() -> None:
    """The sentence on the page is that of the JSON."""
    assert told_values({"x": "13.4 requests/s"}, Words()) == {"x": "13.4 requests/s"}
