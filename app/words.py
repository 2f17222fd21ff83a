"""Every sentence a person reads goes through here: gettext for words, plain functions for numbers and units.

English is the source text. Another language needs a catalogue only: app/locale/<lang>/LC_MESSAGES/goodput.mo.
Numbers are formatted apart from sentences, so that a sentence is translated once and not once a number.
"""

import gettext
from dataclasses import dataclass, field
from pathlib import Path

from app.said import retold

DOMAIN = "goodput"
SAID = "said.txt"  # a template a line: what runner and storage say
LANGUAGES = {"en": "English", "ko": "한국어", "pl": "Polski"}  # those with a complete catalogue, by their own names
NOTHING = "–"  # shown for a number that does not exist; never 0
_SEPARATORS = {"pl": (",", "\u00a0"), "de": (",", "."), "fr": (",", "\u202f")}  # decimal mark, thousands mark


@dataclass(frozen=True)
class Words:
    """One language: its sentences and the way it writes numbers. Handed to every view."""

    lang: str = "en"
    catalogue: gettext.NullTranslations = field(default_factory=gettext.NullTranslations)
    # what runner and storage say, as English templates; none where English is read
    said_templates: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def text(self, message: str, **values: object) -> str:
        """The sentence in this language. Values are filled in afterwards, so their braces mean nothing."""
        translated = self.catalogue.gettext(message)
        return translated.format(**values) if values else translated

    def plural(self, one: str, many: str, n: int, **values: object) -> str:
        """The sentence for n things; `{n}` in it becomes the formatted number."""
        return self.catalogue.ngettext(one, many, n).format(n=self.count(n), **values)

    def said(self, sentence: object) -> str:
        """What runner or storage said in English (an error, a reason), in this language; anything else as it is."""
        return retold(str(sentence), self)

    def number(self, value: float | None, decimals: int = 0) -> str:
        """A number with this language's decimal and thousands marks; an en dash for None."""
        return NOTHING if value is None else self.marked(f"{value:,.{decimals}f}")

    def short(self, value: float) -> str:
        """A number with no more digits than it has, six at most: 8, 0.5, 13.4."""
        return self.marked(f"{value:g}")

    def marked(self, english: str) -> str:
        """A number that is written the English way, with this language's marks."""
        decimal_mark, thousands = self.marks
        return english.translate({ord(","): thousands, ord("."): decimal_mark})

    @property
    def marks(self) -> tuple[str, str]:
        """Decimal mark and thousands mark."""
        return _SEPARATORS.get(self.lang, (".", ","))

    def count(self, value: float | None) -> str:
        """A whole number of things."""
        return self.number(value)

    def significant(self, value: float | None) -> str:
        """Three digits or so: 0.042, 0.91, 9.14, 61.2, 1,234."""
        if value is None:
            return NOTHING
        size = abs(value)
        return self.number(value, 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 0.1 else 3)

    def ms(self, value: float | None) -> str:
        """A duration given in ms: 4.2 ms, 820 ms, 1.25 s, 14.0 s."""
        if value is None:
            return NOTHING
        if abs(value) < 999.5:
            return f"{self.number(value, 1 if abs(value) < 10 else 0)}\u00a0ms"
        return f"{self.number(value / 1000, 2 if abs(value) < 9995 else 1)}\u00a0s"

    def per_s(self, value: float | None, unit: str = "") -> str:
        """A rate: 0.91/s or, with a unit, 61.2 tok/s."""
        if value is None:
            return NOTHING
        return f"{self.significant(value)}\u00a0{unit}/s" if unit else f"{self.significant(value)}/s"

    def share(self, value: float | None) -> str:
        """A share given as 0–1, in percent; a share short of all never reads 100 %."""
        if value is None:
            return NOTHING
        near_all = 0.99 < value < 1
        shown = min(value, 0.999) if near_all else value
        return f"{self.number(shown * 100, 1 if near_all else 0)}\u00a0%"


ENGLISH = Words()


def load_words(lang: str, folder: Path | None = None) -> Words:
    """The words of a language; English sentences where its catalogue has none, or is not there."""
    where = folder or Path(__file__).parent / "locale"
    catalogue = gettext.translation(DOMAIN, where, languages=[lang], fallback=True)
    translated = isinstance(catalogue, gettext.GNUTranslations) and (where / SAID).is_file()
    said = (where / SAID).read_text(encoding="utf-8").splitlines() if translated else ()
    return Words(lang, catalogue, tuple(said))


_ = ENGLISH.text
ngettext = ENGLISH.plural
