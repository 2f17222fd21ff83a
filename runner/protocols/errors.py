"""One way to class what went wrong, whether a server says it by an HTTP status or inside a stream of status 200."""

import json
import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from runner.protocols.channels import json_text
from runner.protocols.scrub import scrub

Json = dict[str, Any]

_DETAIL_CHARS = 500
_BODY_BYTES = 65536

# Words that say more than the status; the first that matches wins.
_WORDS = (
    (
        "out_of_memory",
        r"out of memory|outofmemory|\boom\b|failed to allocate|(more (system )?|insufficient |not enough )memory"
        r"|errormemoryallocation",
    ),
    (
        "context_overflow",
        r"context[ _](length|size|window)|exceed_context|maximum context|max_model_len|max_seq_len|session_len"
        r"|(prompt|input)s?`? (\([^)]*\) )?(is|are) (too long|longer than)|prompt_too_long"
        r"|max_new_tokens`? must be <=|`inputs` must have less than",
    ),
    (
        "model_not_found",
        r"model_not_found|model\b.{0,200}\b(not found|does not exist|not exist)|no such model|pinned to '"
        r"|no models? (is |are )?loaded",
    ),
    ("unauthorized", r"(invalid|incorrect|missing) api key|authentication_error|invalid_api_key|\bunauthorized\b"),
    ("rate_limited", r"rate[ _-]?limit|too many requests"),
    (
        "overloaded",
        r"overloaded|server busy|currently busy|queue (is )?full|queue_full|no slot available|service unavailable"
        r"|unavailable_error|maximum pending requests",
    ),
    ("timeout", r"timed out|\btimeout\b"),
    ("bad_request", r"invalid_request_error|bad ?request|validation ?error"),
)
_COMPILED = tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in _WORDS)
# These say what the user must change; the others only repeat what a status says better.
_STRONGER_THAN_STATUS = ("out_of_memory", "context_overflow", "model_not_found")

_STATUS = {
    400: "bad_request",
    401: "unauthorized",
    403: "unauthorized",
    408: "timeout",
    413: "bad_request",
    422: "bad_request",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


def classify_http_error(
    status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str] = ()
) -> tuple[str, str, float | None]:
    """(error_kind, error_detail, retry_after_s) of an answer whose status is not 2xx. Never raises.

    The detail is the server's own message in plain text, at most 500 characters, without secrets.
    """
    raw = body[:_BODY_BYTES].decode("utf-8", "replace")
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        parsed = None
    code, words, message = _describe(parsed) if isinstance(parsed, dict) else (None, "", _without_tags(raw))
    if 300 <= status < 400:
        return "http_error", _redirect(status, headers, secrets), None
    kind = _kind(status if status >= 400 else code, f"{words} {message}")
    told = _plain(message, secrets)
    detail = f"HTTP {status}: {told}"[:_DETAIL_CHARS] if told else f"HTTP {status}"
    return kind, detail, _retry_after(headers)


def _redirect(status: int, headers: Mapping[str, str], secrets: Iterable[str]) -> str:
    """A key must go where the user said and nowhere else, so a redirect is an answer and no way."""
    onward = next((value for name, value in headers.items() if name.lower() == "location"), "")
    where = _plain(onward, secrets)[:300] or "to an address that it does not name"
    return f"HTTP {status}: the server sends elsewhere, {where}; that is not followed: give the address itself"


def error_in_stream(event_name: str, data: str, chunk: Json | None) -> tuple[str, str] | None:
    """(error_kind, error_detail) if this event is an error, else None. `chunk` is `data` as JSON, if it is an object.

    Known shapes: `{"error": {...}}`, `{"error": "text"}`, `{"object": "error", "message": ...}`, the same with
    `type`, `{"code": 500, "message": ...}`, and anything under `event: error`.
    """
    if chunk is None:
        if event_name != "error":
            return None
        return _kind(None, data), _plain(data) or "the server sent an error without a message"
    if not (chunk.get("error") or event_name == "error" or _names_an_error(chunk)):
        return None
    code, words, message = _describe(chunk)
    return _kind(code, f"{words} {message}"), _plain(message or words) or "the server sent an error without a message"


def _names_an_error(chunk: Json) -> bool:
    if "error" in (chunk.get("object"), chunk.get("type")):
        return True
    return "code" in chunk and isinstance(chunk.get("message"), str) and (_code(chunk["code"]) or 0) >= 400


def _kind(status: int | None, words: str) -> str:
    """The error kind from an HTTP status (or the code inside an error object) and the server's words."""
    said = words[:4000].lower()
    by_words = next((kind for kind, pattern in _COMPILED if pattern.search(said)), None)
    if by_words in _STRONGER_THAN_STATUS:
        return str(by_words)
    if status is None or status < 400:
        return by_words or "server_error"
    if status in _STATUS:
        return _STATUS[status]
    return "server_error" if status >= 500 else "http_error"


def _describe(body: Json) -> tuple[int | None, str, str]:
    """(code, type words, message) from the error objects that servers send."""
    inner = body.get("error")
    while isinstance(inner, dict) and isinstance(inner.get("error"), dict):
        inner = inner["error"]
    source: Json = inner if isinstance(inner, dict) else body
    message = inner if isinstance(inner, str) else source.get("message") or source.get("detail") or source.get("error")
    if not isinstance(message, str):
        message = json_text(message) if message else ""
    named = (source.get(key) for key in ("type", "code", "error_type"))
    words = " ".join(str(word) for word in named if isinstance(word, str | int))
    return _code(source.get("code")), words, message


def _code(value: object) -> int | None:
    text = str(value) if isinstance(value, str | int) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) == 3 else None


def _without_tags(text: str) -> str:
    return re.sub(r"<[^>]*>", " ", text)


def _plain(text: str, secrets: Iterable[str] = ()) -> str:
    """One line of printable text, without secrets, at most 500 characters."""
    shown = "".join(char if char.isprintable() else " " for char in text[:4000])
    return scrub(" ".join(shown.split()), secrets)[:_DETAIL_CHARS]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; a date counts from the answer's own Date header, so no clock is needed."""
    found = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", found.get(name, "")):
            return float(found[name]) * unit
    try:
        until = parsedate_to_datetime(found["retry-after"]) - parsedate_to_datetime(found["date"])
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return max(0.0, until.total_seconds())
