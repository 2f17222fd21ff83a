"""The dialects by name, and the address of each under a base URL as users have it at hand."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from runner.protocols import (
    llamacpp_completion,
    ollama_chat,
    ollama_generate,
    openai_chat,
    openai_completions,
    tgi_generate_stream,
)
from runner.protocols.facts import Ask, ServerParams, StampedRead, StreamFacts
from runner.web_address import with_scheme


class ReadStream(Protocol):
    def __call__(self, reads: Sequence[StampedRead], *, content_type: str | None, clean_end: bool) -> StreamFacts: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    path: str
    build_body: Callable[[Ask, ServerParams], dict[str, object]]
    read_stream: ReadStream


DIALECTS = {
    "openai_chat": Dialect(openai_chat.PATH, openai_chat.build_body, openai_chat.read_stream),
    "openai_completions": Dialect(
        openai_completions.PATH, openai_completions.build_body, openai_completions.read_stream
    ),
    "ollama_chat": Dialect(ollama_chat.PATH, ollama_chat.build_body, ollama_chat.read_stream),
    "ollama_generate": Dialect(ollama_generate.PATH, ollama_generate.build_body, ollama_generate.read_stream),
    "llamacpp_completion": Dialect(
        llamacpp_completion.PATH, llamacpp_completion.build_body, llamacpp_completion.read_stream
    ),
    "tgi_generate_stream": Dialect(
        tgi_generate_stream.PATH, tgi_generate_stream.build_body, tgi_generate_stream.read_stream
    ),
}

# What users paste after the part that all dialects share.
_KNOWN_ENDS = re.compile(
    r"(/chat/completions|/completions|/completion|/models|/api/chat|/api/generate|/api/tags|/generate_stream|/generate|/api)$"
)
_VERSION = re.compile(r"/v\d+[a-z0-9]*$")
_DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\](?:[\r\n]|$)")


def endpoint(base_url: str, api: str) -> str:
    """The full URL of a dialect (a key of `DIALECTS`).

    `base_url` may lack its scheme, have or lack `/v1`, end with slashes, or be the full URL of any endpoint;
    a path in front of these (a reverse proxy's) and a query are kept.
    """
    parts = urlsplit(with_scheme(base_url))
    root = without_endpoint(parts.path)
    path = DIALECTS[api].path
    if path.startswith("/v1/") and _VERSION.search(root):
        path = path.removeprefix("/v1")
    elif not path.startswith("/v1/"):
        root = root.removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, root + path, parts.query, ""))


def without_endpoint(path: str) -> str:
    """The path of a URL without the endpoint that was pasted with it, and without a slash at its end."""
    return _KNOWN_ENDS.sub("", path.rstrip("/")).rstrip("/")


def says_done(tail: bytes) -> bool:
    """Whether these last bytes of a body hold the line `data: [DONE]`.

    Some servers keep the connection open long after it: a client that waits for the end of the body would take
    that for a slow answer. Inside generated text the line cannot occur, JSON escapes its line ends. Give it the
    last 32 bytes or more, joined across reads.
    """
    return _DONE.search(tail) is not None
