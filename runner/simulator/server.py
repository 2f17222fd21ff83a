"""The built-in engine as a real HTTP server with vLLM's endpoints."""

import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import Callable

from runner.errors import ConfigError
from runner.simulator.answer import STREAM_HEAD, Wording, http_reply
from runner.simulator.ask import ApiError, error_body, parse_ask
from runner.simulator.engine_metrics import metrics_text
from runner.simulator.http_connection import Connection
from runner.simulator.realtime import LiveAnswer, RealtimeEngine
from runner.simulator.settings import ServerSettings, budget_note, context_tokens
from runner.simulator.state import Sequence

BUSY = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."


class Service:
    """Answers requests of all connections with one engine."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.max_model_len = context_tokens(settings)
        self.live = RealtimeEngine(settings.scheduler, settings.knobs, settings.profile.cost, settings.total_blocks)
        self.connections: set[Connection] = set()
        self._started_s = int(time.time())
        self._orders = 0
        self._gets: dict[str, Callable[[], bytes]] = {
            "/v1/models": self._models,
            "/health": lambda: http_reply(200, b""),
            "/version": lambda: http_reply(200, b'{"version":"goodput-engine"}'),
            "/metrics": self._metrics,
        }
        self._posts = {"/v1/chat/completions": True, "/v1/completions": False}

    def handle(self, connection: Connection, method: str, path: str, body: bytes) -> LiveAnswer | None:
        """Replies at once and returns None, or returns the answer that is now being made."""
        known = self._gets if method == "GET" else self._posts if method == "POST" else {}
        if path not in known:
            wrong_method = path in self._gets or path in self._posts
            text = b'{"detail":"Method Not Allowed"}' if wrong_method else b'{"detail":"Not Found"}'
            connection.transport.write(http_reply(405 if wrong_method else 404, text))
            return None
        if method == "GET":
            connection.transport.write(self._gets[path]())
            return None
        try:
            return self._begin(connection, self._posts[path], body)
        except ApiError as e:
            connection.transport.write(http_reply(e.status, error_body(e.status, str(e), e.kind, e.param)))
            return None

    def _begin(self, connection: Connection, chat: bool, body: bytes) -> LiveAnswer:
        arrived_s = asyncio.get_running_loop().time()
        settings = self.settings
        ask = parse_ask(body, chat, settings.model, self.max_model_len, settings.knobs.prefix_caching)
        if settings.max_queue is not None and self.live.engine.queue_is_full(settings.max_queue):
            self.live.metrics.rejected += 1
            raise ApiError(503, BUSY, "Service Unavailable")
        self._orders += 1
        wording = Wording(chat, settings.model, self._orders, int(time.time()))
        sequence = Sequence(self._orders, ask.prompt_tokens, ask.output_tokens, ask.priority, ask.prefix)
        answer = LiveAnswer(ask, wording, sequence, connection.transport, arrived_s, connection.answer_done)
        if ask.stream:
            connection.transport.write(STREAM_HEAD)
        self.live.submit(answer)
        return answer

    def _models(self) -> bytes:
        card = {
            "id": self.settings.model,
            "object": "model",
            "created": self._started_s,
            "owned_by": "goodput-lab",
            "root": self.settings.model,
            "parent": None,
            "max_model_len": self.max_model_len,
        }
        return http_reply(200, json.dumps({"object": "list", "data": [card]}).encode())

    def _metrics(self) -> bytes:
        engine = self.live.engine
        gauges = (engine.running, engine.waiting, engine.kv_usage)
        text = metrics_text(self.live.metrics, self.settings.model, *gauges, engine.preemptions)
        return http_reply(200, text, "text/plain; version=0.0.4; charset=utf-8")


def serve(settings: ServerSettings) -> int:
    """Serves until SIGTERM or SIGINT; then ends at once and returns 0 or 130. Raises ConfigError."""
    context_tokens(settings)
    return asyncio.run(_serve(settings))


async def start(settings: ServerSettings) -> tuple[asyncio.Server, Service, int]:
    """Begins to listen on the running loop. Returns (server, service, port). Raises ConfigError."""
    service = Service(settings)
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(
            lambda: Connection(service), settings.host, settings.port, backlog=1024, reuse_address=True
        )
    except (OSError, UnicodeError) as e:  # the second: a name that no host can have
        why = getattr(e, "strerror", None) or e
        raise ConfigError(
            f"cannot listen on {settings.host}:{settings.port} ({why}); choose another --port or --host"
        ) from None
    return server, service, server.sockets[0].getsockname()[1]


async def _serve(settings: ServerSettings) -> int:
    server, service, port = await start(settings)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        loop.add_signal_handler(number, _end, ended, code)
    # a collection that walks everything imported would delay tokens by milliseconds
    gc.collect()
    gc.freeze()
    print(_ready_line(settings, port, service.max_model_len), file=sys.stderr, flush=True)
    code = await ended
    server.close()
    for connection in list(service.connections):
        connection.transport.abort()
    return code


def _end(ended: asyncio.Future[int], code: int) -> None:
    if not ended.done():
        ended.set_result(code)


def _ready_line(settings: ServerSettings, port: int, max_model_len: int) -> str:
    knobs, profile = settings.knobs, settings.profile
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    note = budget_note(settings)
    return (
        f"goodput engine ready on http://{host}:{port} (model {settings.model}, {settings.scheduler}, "
        f"max_num_seqs {knobs.max_num_seqs}, max_num_batched_tokens {knobs.max_num_batched_tokens}, "
        f"KV {profile.kv_tokens} tokens, context {max_model_len}; {profile.source}"
        f"{'; ' if note else ''}{note})"
    )
