"""One streamed request: sent, stamped, and made a record. Every failure is a record too, never an exception.

`send_request` does what must happen now and keeps the raw answer; `read_answer` does what can wait. Whoever sends many
requests puts the answers into a `runner.load.backlog.Backlog`, which reads them when the event loop has time.
"""

import asyncio
import json
import os
from dataclasses import dataclass, field
from functools import lru_cache
from time import monotonic_ns
from typing import Any

import httpx

from runner.load.exchange import Exchange, ExchangeError
from runner.load.record import to_record
from runner.load.transport import Collect, encode_request, send_collected
from runner.protocols.dialects import DIALECTS, endpoint, says_done
from runner.protocols.errors import classify_http_error
from runner.protocols.facts import Ask, ServerParams, StreamFacts, ToolCall
from storage.records import RequestRecord

GOOD_STATUS = range(200, 300)
_encode = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes an encoder anew each time


@dataclass(frozen=True, slots=True)
class Target:
    """Where a sweep's requests go and what the server takes. The key is known by its variable's name only."""

    base_url: str
    api: str = "openai_chat"
    params: ServerParams = field(default_factory=ServerParams)
    api_key_env: str | None = None
    limit_s: float | None = 600.0  # for a whole request
    reuse: bool = True  # False: a new connection for each stream, its connect time apart


@dataclass(frozen=True, slots=True)
class Slot:
    """The request's place in a cell; copied into its record. `scheduled_ns` on the monotonic clock."""

    scheduled_ns: int
    origin_ns: int = 0  # the cell's zero
    cell: int = 0
    request: int = 0
    class_name: str = "probe"
    prompt_tokens_asked: int = 0


@dataclass(slots=True)
class Answer:
    """What came back, not looked into yet."""

    target: Target
    ask: Ask
    slot: Slot
    exchange: Exchange = field(default_factory=Exchange)
    error: tuple[str, str] | None = None  # (error_kind, detail) of the exchange itself
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    record: RequestRecord
    text: str
    reasoning_text: str
    tool_calls: tuple[ToolCall, ...] = ()


async def send_request(client: httpx.AsyncClient, target: Target, ask: Ask, slot: Slot) -> Answer:
    """Sends one request and collects its answer. Never raises; a cancelled task gets its answer, marked `cancelled`.

    `client` must have a `StampedTransport`. The cancellation stays visible in `asyncio.current_task().cancelling()`.
    """
    answer = Answer(target, ask, slot)
    collect = Collect(limit_s=target.limit_s, says_done=says_done, reuse=target.reuse, exchange=answer.exchange)
    try:
        await send_collected(client, *encode_ask(target, ask), collect)
    except ExchangeError as e:
        answer.error = (e.kind, str(e))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as e:
        answer.error = ("connect", str(e) or type(e).__name__)
    except asyncio.CancelledError:
        answer.cancelled = True
    if answer.exchange.end_ns is None:
        answer.exchange.end_ns = monotonic_ns()
    return answer


def encode_ask(target: Target, ask: Ask) -> tuple[httpx.URL, bytes]:
    """The request in the target's dialect: its URL, and its bytes. Raises ExchangeError, httpx.InvalidURL."""
    content = _encode(DIALECTS[target.api].build_body(ask, target.params)).encode()
    url, head = _head(target.base_url, target.api, auth_headers(target.api_key_env).get("Authorization"))
    return url, b"%sContent-Length: %d\r\n\r\n%s" % (head, len(content), content)


@lru_cache(16)
def _head(base_url: str, api: str, authorization: str | None) -> tuple[httpx.URL, bytes]:
    """What is the same in all requests to a server. Asks for no compression: it would merge tokens into one read."""
    headers = {
        "Accept": "text/event-stream, application/x-ndjson, application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        **({"Authorization": authorization} if authorization else {}),
    }
    request = httpx.Request("POST", httpx.URL(endpoint(base_url, api)), headers=headers)
    request.headers.pop("Content-Length", None)
    return request.url, encode_request(request, b"").removesuffix(b"\r\n")


def auth_headers(api_key_env: str | None) -> dict[str, str]:
    """The Authorization header from the environment variable of that name; none when it is not set."""
    key = os.environ.get(api_key_env, "").strip() if api_key_env else ""
    return {"Authorization": f"Bearer {key}"} if key else {}


def read_answer(answer: Answer) -> Result:
    """The record of an answer and its texts. Takes some µs per event; never raises."""
    exchange = answer.exchange
    secrets = secrets_of(answer.target)
    facts: StreamFacts | None = None
    error = ("cancelled", "cut at the end of the run") if answer.cancelled else answer.error
    retry_after_s: float | None = None
    try:
        reads = exchange.reads()
    except ExchangeError as e:
        reads, error = [], error or (e.kind, str(e))
    if exchange.status in GOOD_STATUS:
        content_type = (exchange.header(b"content-type") or b"").decode("latin-1") or None
        read_stream = DIALECTS[answer.target.api].read_stream
        facts = read_stream(reads, content_type=content_type, clean_end=exchange.complete)
    elif exchange.status is not None and not answer.cancelled:  # a refusal says more than how its body ended
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in exchange.headers}
        content = b"".join(data for _, data in reads)
        kind, detail, retry_after_s = classify_http_error(exchange.status, headers, content, secrets)
        error = (kind, detail)
    sent = _sent(answer, error, retry_after_s)
    record = to_record(sent, facts, origin_ns=answer.slot.origin_ns, secrets=secrets)
    return Result(record, facts.text, facts.reasoning_text, facts.tool_calls) if facts else Result(record, "", "")


def _sent(answer: Answer, error: tuple[str, str] | None, retry_after_s: float | None) -> dict[str, Any]:
    """What was asked and what the transport saw, on the cell's clock, by the names of a RequestRecord."""
    exchange, slot = answer.exchange, answer.slot
    return {
        "cell": slot.cell,
        "request": slot.request,
        "class_name": slot.class_name,
        "priority": answer.ask.priority or 0,
        "prompt_tokens_asked": slot.prompt_tokens_asked,
        # a mere upper bound is no length that the answer should have had
        "output_tokens_asked": answer.ask.max_tokens if answer.ask.hold_length else 0,
        "scheduled_ns": slot.scheduled_ns - slot.origin_ns,
        "sent_ns": _since(exchange.sent_ns, slot.origin_ns),
        "connect_ns": exchange.connect_ns,
        "tls_ns": exchange.tls_ns,
        "first_byte_ns": _since(exchange.first_byte_ns, slot.origin_ns),
        "end_ns": _since(exchange.end_ns, slot.origin_ns),
        "user_stamps": exchange.user_stamps,
        "retry_after_s": retry_after_s,
        "error_kind": error[0] if error else None,
        "error_detail": error[1] if error else None,
        "http_status": exchange.status,
        "reused_connection": exchange.reused,
        "resends": exchange.resends,
        "clock": exchange.clock,
    }


def _since(at_ns: int | None, origin_ns: int) -> int | None:
    return None if at_ns is None else at_ns - origin_ns


def secrets_of(target: Target) -> tuple[str, ...]:
    """The key that goes with each request, which a server may echo anywhere; empty when there is none."""
    return tuple(value.removeprefix("Bearer ") for value in auth_headers(target.api_key_env).values())


async def run_request(client: httpx.AsyncClient, target: Target, ask: Ask, slot: Slot) -> Result:
    """`send_request` and `read_answer` in one: for a single request, such as a probe."""
    return read_answer(await send_request(client, target, ask, slot))
