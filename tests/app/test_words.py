"""Words and numbers."""

import gettext
import io
import struct

import pytest

from app.extract_words import TEMPLATE, render, sentences
from app.words import ENGLISH, NOTHING, Words, load_words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOTHING), (0.0, "0.0 ms"), (4.24, "4.2 ms"), (820.4, "820 ms"), (999.4, "999 ms"), (1000, "1.00 s"),
        (14_000, "14.0 s"),
    ],
)  # fmt: skip
def test_ms(value: float | None, text: str) -> None:
    """Durations are ms below a second and s above it."""
    assert ENGLISH.ms(value).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, NOTHING), (1.0, "100 %"), (0.9999, "99.9 %"), (0.991, "99.1 %"), (0.93, "93 %"), (0, "0 %")],
)
def test_share(value: float | None, text: str) -> None:
    """A share short of all never reads 100 %."""
    assert ENGLISH.share(value).replace("\u00a0", " ") == text


def test_rates() -> None:
    """Rates keep about three digits and their unit."""
    assert ENGLISH.per_s(0.914) == "0.91/s"
    assert ENGLISH.per_s(1234.5, "tok") == "1,234\u00a0tok/s"
    assert ENGLISH.per_s(None, "tok") == NOTHING


def test_language_decides_how_numbers_look() -> None:
    """Polish writes a decimal comma and spaces between thousands."""
    assert Words(lang="pl").number(1234.5, 1) == "1\u00a0234,5"


def test_values_are_never_read_as_placeholders() -> None:
    """Braces in a server's name stay as they are."""
    assert ENGLISH.text("model {name}", name="{evil} {0}") == "model {evil} {0}"


def test_plural() -> None:
    """One thing and many things are different sentences."""
    assert ENGLISH.plural("{n} cell", "{n} cells", 1) == "1 cell"
    assert ENGLISH.plural("{n} cell", "{n} cells", 2000) == "2,000 cells"


def _catalogue(pairs: dict[str, str]) -> gettext.GNUTranslations:
    """A compiled catalogue (.mo, GNU gettext manual 10.3) of these pairs."""
    everything = {"": "Content-Type: text/plain; charset=UTF-8\n", **pairs}
    keys = sorted(everything)
    offset = 28 + 16 * len(keys)
    tables, texts = [b"", b""], b""
    for which, column in enumerate((keys, [everything[k] for k in keys])):
        for entry in column:
            data = entry.encode()
            tables[which] += struct.pack("<II", len(data), offset + len(texts))
            texts += data + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(keys), 28, 28 + 8 * len(keys), 0, 0)
    return gettext.GNUTranslations(io.BytesIO(head + tables[0] + tables[1] + texts))


def test_a_catalogue_is_all_a_language_needs() -> None:
    """With a catalogue the sentence is translated and the values are filled in afterwards."""
    words = Words("ko", _catalogue({"goodput {goodput}, raw {raw}": "유효 {goodput}, 원시 {raw}"}))
    assert words.text("goodput {goodput}, raw {raw}", goodput=1, raw=2) == "유효 1, 원시 2"


def test_a_language_without_catalogue_falls_back_to_english() -> None:
    """A missing catalogue is no error."""
    assert load_words("xx").text("the pick") == "the pick"


def test_sentences_are_found_in_source() -> None:
    """Singular and plural calls are collected; computed texts are not."""
    source = 'words.text("a")\n_("b")\nwords.plural("{n} c", "{n} cs", n)\nwords.text(x)\n'
    assert sorted(sentences(source)) == [("a",), ("b",), ("{n} c", "{n} cs")]


def test_template_is_current() -> None:
    """goodput.pot holds every sentence of the pages (`python -m app.extract_words` writes it)."""
    wanted = {line for line in render().splitlines() if line.startswith("msgid")}
    kept = {line for line in TEMPLATE.read_text(encoding="utf-8").splitlines() if line.startswith("msgid")}
    assert wanted == kept, "run: python -m app.extract_words"
