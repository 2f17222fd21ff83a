"""Takes secrets out of texts that come from a server or a URL before anything keeps them."""

import re
from collections.abc import Iterable

_HIDDEN = "***"
_PATTERNS = (
    # scheme://user:password@host
    (re.compile(r"(\w://)[^/\s@\"']+@"), rf"\1{_HIDDEN}@"),
    # Authorization: Bearer abc
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{4,}"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?(?:basic\s+)?)(?!bearer)[^\s\"',;&}]+"), rf"\1{_HIDDEN}"),
    # --api-key abc, api_key=abc, "x-api-key": "abc", API key provided: abc
    (re.compile(r"(?i)(--?api[_-]?key[ =]+)[^\s\"',;&}]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)(api[ _-]?key(?:[ \w]{0,20})[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&}]+"), rf"\1{_HIDDEN}"),
    (
        re.compile(r"(?i)((?:password|secret|(?:access|auth|api)[_-]?token)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&}]+"),
        rf"\1{_HIDDEN}",
    ),
    (re.compile(r"(?i)([?&](?:key|token)=)[^\s\"'&]+"), rf"\1{_HIDDEN}"),
    # keys by their usual looks
    (re.compile(r"(?<![A-Za-z0-9])(sk|pk|gsk|hf|xai|nvapi)([-_])[\w-]{6,}"), rf"\1\2{_HIDDEN}"),
)


def hide(text: str, secrets: Iterable[str]) -> str:
    """`text` with each of `secrets` as ***, and nothing else changed: for a model's own words and names."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, _HIDDEN)
    return text


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without keys, bearer tokens, passwords and the user part of URLs; `secrets` are hidden wherever they
    stand (the keys that were really sent: a server may echo one in any form of words)."""
    text = hide(text, secrets)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
