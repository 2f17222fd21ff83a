"""Korean and Polish say everything that English says, and nothing that English no longer says."""

import io
import re
from gettext import GNUTranslations
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from app.extract_said import said_templates
from app.extract_words import SAID, TEMPLATE, render
from app.words import load_words

LOCALE = TEMPLATE.parent
LANGUAGES = ("ko", "pl")
PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def catalogue(path: Path, lang: str | None = None) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=lang)


def texts(message: object) -> tuple[str, ...]:
    return message if isinstance(message, tuple) else (str(message or ""),)


@pytest.fixture(params=LANGUAGES)
def lang(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_template_holds_the_sentences_of_the_code() -> None:
    """A sentence that was added or changed in the code is in the template: `make words` renews it."""
    assert TEMPLATE.read_text(encoding="utf-8") == render()
    assert SAID.read_text(encoding="utf-8").splitlines() == sorted(said_templates())


def test_every_sentence_is_translated_and_none_is_dead(lang: str) -> None:
    """As many as in the template, none empty, none marked as a guess, none that the code has no more."""
    source = {m.id for m in catalogue(TEMPLATE) if m.id}
    own = catalogue(LOCALE / lang / "LC_MESSAGES" / "goodput.po", lang)
    assert {m.id for m in own if m.id} == source
    assert not own.obsolete
    assert [m.id for m in own if m.id and (m.fuzzy or not all(texts(m.string)))] == []


def test_a_translation_fills_in_the_same_values(lang: str) -> None:
    """A value that the English sentence shows is shown in each of its forms, and no other name is asked for."""
    for message in catalogue(LOCALE / lang / "LC_MESSAGES" / "goodput.po", lang):
        if not message.id:
            continue
        wanted = {name for text in texts(message.id) for name in PLACEHOLDER.findall(text)}
        for form in texts(message.string):
            found = set(PLACEHOLDER.findall(form))
            assert found <= wanted, (message.id, form)
            assert wanted - found <= ({"{n}"} if len(texts(message.id)) == 2 else set()), (message.id, form)


def test_the_compiled_catalogue_is_that_of_the_sentences(lang: str) -> None:
    """What the pages read is what stands in the text file: `make words` compiles it."""
    folder = LOCALE / lang / "LC_MESSAGES"
    made = io.BytesIO()
    write_mo(made, catalogue(folder / "goodput.po", lang))
    made.seek(0)
    fresh, kept = GNUTranslations(made), load_words(lang).catalogue
    for message in catalogue(TEMPLATE):
        one, *many = texts(message.id)
        for n in (1, 3, 5) if many else ():
            assert kept.ngettext(one, many[0], n) == fresh.ngettext(one, many[0], n)
        assert many or kept.gettext(one) == fresh.gettext(one) or not one


def test_polish_has_three_forms_of_a_number_and_korean_one() -> None:
    """1, 2 to 4, and 5 or more (also 12 to 14) differ in Polish; CLDR's plural rules."""
    polish, korean = load_words("pl"), load_words("ko")
    pair = next(m.id for m in catalogue(TEMPLATE) if isinstance(m.id, tuple) and m.id[0].startswith("{n} cell"))
    forms = {n: polish.plural(*pair, n).replace(polish.count(n), "#") for n in (1, 2, 4, 5, 12, 22, 25)}
    assert forms[2] == forms[4] == forms[22]
    assert forms[5] == forms[12] == forms[25]
    assert len({forms[1], forms[2], forms[5]}) == 3
    assert len({korean.plural(*pair, n).replace(korean.count(n), "#") for n in (1, 2, 5)}) == 1
