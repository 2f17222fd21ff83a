"""What a result wrote down in English as a value of a sentence, as the reader's language writes it. PURE."""

import re
from collections.abc import Mapping
from typing import Any

from app.words import Words

_AMOUNT = re.compile(r"([~+-]?)(\d+(?:\.\d+)?)( requests/s| at once| points)?(.*)", re.S)


def told_values(values: Mapping[str, Any], words: Words) -> dict[str, Any]:
    """The `reason_values` of a result: amounts with the language's marks and units, names as they are."""
    if words.lang == "en":
        return dict(values)
    return {key: _told(value, words) if isinstance(value, str) else value for key, value in values.items()}


def _told(text: str, words: Words) -> str:
    if text == "the present setting":
        return words.text("the server as it is")
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return text
    sign, digits, unit, rest = found.groups()
    number = sign + words.marked(digits)
    units = {
        " requests/s": words.text("{rate} req/s", rate=number),
        " at once": words.text("{count} at once", count=number),
        " points": words.text("{n} points", n=number),
    }
    return units.get(unit or "", number) + rest
