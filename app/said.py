"""Sentences that runner and storage say in English, in the reader's language: known again by their templates. PURE.

They are said where no reader is known (a log, state.json, a cell's reason) and kept as they were said. The templates
are taken from the source (app.extract_said): every value in a sentence is a hole that has a name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from app.words import Words

MOST_CHARS = 2000  # a longer text is some server's: it stays as it is
MOST_PARTS = 200  # of one sentence are looked up; one with more is none of ours
PART = "said"  # a hole of this name holds another sentence: without that the template is none of this text
WORD = "_word"  # a hole with this ending holds a single word
HOLE = re.compile(r"(?<!\{)\{[a-z]\w*(:[^{}]*)?\}")
_AROUND = " ;:"  # what joins a part to the sentence it stands in
_THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
_DECIMALS = re.compile(r"-?\d+\.\d+")
_WITH_UNIT = ("_s", "_ms", "_gb", "_gib")  # names of holes whose numbers are amounts, never versions


@dataclass(frozen=True)
class Template:
    """`literals` stand around and between the holes: always one more than `names`."""

    text: str
    literals: tuple[str, ...]
    names: tuple[str, ...]

    def readings(self, sentence: str) -> list[dict[str, str]]:
        """What may stand in the holes, with the literals found from the left and from the right; empty for another
        sentence. Nothing is tried twice: the time grows with the length alone, whatever a server wrote into it."""
        first, last = self.literals[0], self.literals[-1]
        if not self.names:
            return [{}] if sentence == first else []
        if len(sentence) < len(first) + len(last) or not (sentence.startswith(first) and sentence.endswith(last)):
            return []
        inside = sentence[len(first) : len(sentence) - len(last)]
        both = self._pieces(inside, from_left=True), self._pieces(inside, from_left=False)
        found = [dict(zip(self.names, pieces, strict=True)) for pieces in both if pieces is not None]
        return [v for v in found if not any(" " in value for name, value in v.items() if name.endswith(WORD))]

    def _pieces(self, inside: str, *, from_left: bool) -> list[str] | None:
        pieces = []
        between = self.literals[1:-1]
        for literal in between if from_left else reversed(between):
            if not literal:  # two holes in a row: the outer one gets it all
                pieces.append("")
                continue
            before, found, after = inside.partition(literal) if from_left else inside.rpartition(literal)
            if not found:
                return None
            inside = after if from_left else before
            pieces.append(before if from_left else after)
        return [*pieces, inside] if from_left else [inside, *reversed(pieces)]


def template_of(text: str) -> Template:
    """`{path}: no such file` -> its literals and the names of its holes. Without a hole braces mean themselves."""
    if not HOLE.search(text):
        return Template(text, (text,), ())
    literals, names = [""], []
    for literal, name, _, _ in Formatter().parse(text):
        literals[-1] += literal
        if name is not None:
            names.append(name)
            literals.append("")
    return Template(text, tuple(literals), tuple(names))


@lru_cache(maxsize=4)
def templates_of(texts: tuple[str, ...]) -> tuple[Template, ...]:
    """Read once, whatever number of sentences is told."""
    return tuple(map(template_of, texts))


def retold(sentence: str, words: "Words") -> str:
    """The sentence in the reader's language; as it is where no template fits it."""
    if not words.said_templates or len(sentence) > MOST_CHARS:
        return sentence
    told = _Teller(words).told(sentence)
    return told.text if told else sentence


class _Told(NamedTuple):
    known: int  # English letters that the templates account for: of several ways to read a text the most is meant
    text: str


class _Teller:
    """Tells one sentence, and the sentences in its holes."""

    def __init__(self, words: "Words") -> None:
        self._words = words
        self._templates = templates_of(words.said_templates)
        self._seen: dict[str, _Told | None] = {}

    def told(self, text: str) -> _Told | None:
        """In the other language; None for what is no sentence of ours."""
        if text not in self._seen:
            if len(self._seen) >= MOST_PARTS:
                return None
            self._seen[text] = None  # while its parts, which are shorter, are looked at
            ways = [(template, values) for template in self._templates for values in template.readings(text)]
            found = [told for way in ways if (told := self._filled(*way)) is not None]
            self._seen[text] = max(found, key=lambda told: told.known, default=None)
        return self._seen[text]

    def _filled(self, template: Template, values: Mapping[str, str]) -> _Told | None:
        known, filled = sum(map(len, template.literals)), {}
        for name, value in values.items():
            part = self.told(value.strip(_AROUND))
            if name == PART and part is None:
                return None
            known += part.known if part else 0
            filled[name] = _Value(self._value(name, value, part))
        sentence = self._words.catalogue.gettext(template.text)
        return _Told(known, sentence.format_map(filled) if template.names else sentence)

    def _value(self, name: str, value: str, part: _Told | None) -> str:
        """What stands in a hole: a sentence of its own, a number, or what a server, a file or a person wrote."""
        bare = value.strip(_AROUND)
        if part is not None:
            return value.replace(bare, part.text, 1)
        if name == "kind" and bare:  # of an error, which has a name in every language
            told = self._words.catalogue.gettext(bare.replace("_", " "))
            return value if told == bare.replace("_", " ") else told
        if _THOUSANDS.fullmatch(bare) or (name.endswith(_WITH_UNIT) and _DECIMALS.fullmatch(bare)):
            return value.replace(bare, self._words.marked(bare))
        return value


class _Value(str):
    """Text that stands where the template formats a number: it was formatted when it was said."""

    def __format__(self, spec: str) -> str:
        return str(self)
