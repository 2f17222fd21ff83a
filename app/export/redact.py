"""Takes out of a result what a person would not post: hosts, addresses, URLs, paths, keys. PURE.

Hardware, versions, model names and settings stay. Keys go even when private facts are wanted.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

PRIVATE_KEYS = frozenset(
    {
        "host", "hostname", "node", "user", "username", "home", "cwd", "path", "folder", "url", "address", "ip", "mac",
        "command", "ready_command", "stop_command", "env", "api_key_env", "log_tail", "pid",
    }
)  # fmt: skip
_PRIVATE_ENDS = ("_url", "_path", "_host", "_hostname", "_address", "_dir", "_file", "_folder")
_NAMES_OF_THIS_HOST = ("host", "hostname", "node", "user", "username")
_SECRETS = (
    (
        re.compile(r"(?i)(--?api[-_]?key[= ]+|\bapi[-_]?key[\"']?\s*[=:]\s*[\"']?|bearer\s+|\btoken=)[^\s\"'&,;]+"),
        r"\1…",
    ),
    (re.compile(r"\b(?:sk|pk|hf|gsk|ghp|xai|rk)[-_][A-Za-z0-9_-]{6,}"), "…"),
    (re.compile(r"(?<=://)[^\s/@]+@"), ""),
)
_PRIVATE_TEXT = (
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+", re.I), "‹url›"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "‹address›"),
    (re.compile(r"(?<![\w:])\[?(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{1,4}\]?(?!\w)", re.I), "‹address›"),
    (
        re.compile(r"(?<![\w.])[\w-]+(?:\.[\w-]+)*\.(?:local|lan|home|internal|localdomain|box|arpa)\b(?::\d+)?"),
        "‹host›",
    ),
    (re.compile(r"\blocalhost(?::\d+)?\b"), "‹host›"),
    (re.compile(r"(?<![\w.…])(?:~|\.{1,2})?(?:/[^\s/\"'=,;:]+)*/(?=[^\s/\"'=,;:]+)(?=\S*)"), "…/"),
    (re.compile(r"\b[A-Za-z]:\\(?:[^\s\\\"']+\\)*"), "…\\\\"),
)


def redact(
    result: Mapping[str, Any], *, include_private: bool = False, names: Collection[str] | None = None
) -> dict[str, Any]:
    """A copy of the result that can be posted; with include_private only keys are taken out.

    `names`: host and user names that a part of a result must not tell; those of the result itself where null.
    """
    known = secret_names(result) if names is None else names
    cleaned: dict[str, Any] = _walk(result, include_private, [] if include_private else known)
    return cleaned


def secret_names(result: Mapping[str, Any]) -> frozenset[str]:
    """Host and user names the result itself tells, to be taken out wherever they stand."""
    return frozenset(_own_names(result))


def scrub(text: str, *, include_private: bool = False, names: Collection[str] = ()) -> str:
    """One text without keys and, unless wanted, without URLs, addresses, hosts and folders (file names stay)."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    if include_private:
        return text
    for pattern, instead in _PRIVATE_TEXT:
        text = pattern.sub(instead, text)
    for name in names:
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "‹host›", text)
    return text


def _is_private(key: str) -> bool:
    return key in PRIVATE_KEYS or key.endswith(_PRIVATE_ENDS)


def _own_names(value: object) -> set[str]:
    if isinstance(value, Mapping):
        mine = {v for k, v in value.items() if k in _NAMES_OF_THIS_HOST and isinstance(v, str) and len(v) > 2}
        return mine.union(*(_own_names(v) for v in value.values()))
    if isinstance(value, list | tuple):
        return set().union(*(_own_names(v) for v in value))
    return set()


def _walk(value: Any, include_private: bool, names: Collection[str]) -> Any:  # noqa: ANN401
    if isinstance(value, Mapping):
        return {
            # a version of four numbers looks like an address
            str(k): _walk(v, include_private or "version" in str(k), names)
            for k, v in value.items()
            if include_private or not _is_private(str(k))
        }
    if isinstance(value, list | tuple):
        return [_walk(v, include_private, names) for v in value]
    return scrub(value, include_private=include_private, names=names) if isinstance(value, str) else value
