"""LLM servers on this host: a few GET requests to the usual ports, none of which makes a server generate."""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import httpx
import psutil

from runner.engines.catalogue import KINDS
from runner.engines.identify import HEALTH, MODELS, PATHS, Answer, Identity, identify, is_litellm
from runner.environment import in_container
from runner.load.client import auth_headers
from runner.load.targets import DOCKER_HOST, refusal
from runner.load.transport import StampedTransport
from runner.protocols.scrub import scrub

LOOPBACK = "127.0.0.1"
USUAL_PORTS = tuple(sorted({kind.default_port for kind in KINDS.values()}))
ANSWER_S = 1.5
RESOLVE_S = 0.7
LOOK_S = 2.0  # for all of one server's answers; with the name before it, under three seconds
PATIENT_LOOK_S = 10.0  # at one server that somebody named: it may be busy, or behind a slow link
MOST_BYTES = 2_000_000  # of an answer; a metrics page has some 100,000


@dataclass(frozen=True)
class Found:
    """A server that was found. `url`: the base URL for a sweep; `api`: the dialect that it is measured in."""

    url: str
    api: str
    identity: Identity

    def as_json(self) -> dict[str, object]:
        """kind, title, url, version, models, api, metrics, metrics_hint, needs_key, notes."""
        own = asdict(self.identity)
        order = ("kind", "title", "url", "version", "models", "api", "metrics", "metrics_hint", "needs_key", "notes")
        facts = {**own, "url": self.url, "api": self.api, "models": list(own["models"]), "notes": list(own["notes"])}
        return {key: facts[key] for key in order}


async def discover(ports: Sequence[int] = USUAL_PORTS, hosts: Sequence[str] | None = None) -> list[Found]:
    """Servers that answer as one of the known kinds, in under three seconds. Nothing beyond `hosts` is contacted;
    default: this host, also by the name that it has inside a container."""
    async with _client(ANSWER_S) as client:

        async def look_at(host: str) -> list[Found]:
            looks = await asyncio.gather(*(_inspect(client, f"http://{host}:{port}", None, LOOK_S) for port in ports))
            return [found for found in looks if found is not None]

        async def from_a_container() -> list[Found]:
            # elsewhere the name says nothing, and asking for it would tell a name server of us
            inside = in_container() and await is_another_machine(DOCKER_HOST)
            return await look_at(DOCKER_HOST) if inside else []

        looks = [from_a_container(), look_at(LOOPBACK)] if hosts is None else [look_at(host) for host in hosts]
        return [found for part in await asyncio.gather(*looks) for found in part]


async def inspect(url: str, api_key_env: str | None = None) -> Found | None:
    """What the server at this root URL says of itself; null when nobody answers as a known kind would."""
    async with _client(PATIENT_LOOK_S / 2) as client:
        return await _inspect(client, url, api_key_env, PATIENT_LOOK_S)


async def _inspect(client: httpx.AsyncClient, url: str, api_key_env: str | None, limit_s: float) -> Found | None:
    answers: dict[str, Answer] = {}

    async def ask(path: str) -> None:
        if (answer := await _get(client, url + path, api_key_env)) is not None:
            answers[path] = answer

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await ask(MODELS)
            if answers:
                await asyncio.gather(*(ask(path) for path in PATHS if path != MODELS))
                if not is_litellm(answers):
                    await ask(HEALTH)
    identity = identify(answers)
    return Found(scrub(url), KINDS[identity.kind].apis[0], identity) if identity else None


def _client(answer_s: float) -> httpx.AsyncClient:
    """`answer_s` of silence end a question, half of it a connection attempt."""
    transport = StampedTransport(connect_timeout_s=answer_s / 2, max_body_bytes=MOST_BYTES)
    return httpx.AsyncClient(
        transport=transport, trust_env=False, timeout=httpx.Timeout(answer_s, connect=answer_s / 2)
    )


async def _get(http: httpx.AsyncClient, url: str, api_key_env: str | None) -> Answer | None:
    """Null when nobody answers, or not in HTTP, or endlessly."""
    try:
        response = await http.get(url, headers=auth_headers(api_key_env))
    except (httpx.HTTPError, httpx.InvalidURL, OSError):
        return None
    return Answer(response.status_code, response.text, response.headers.get("server", ""))


async def is_another_machine(host: str) -> bool:
    """True for a name that leads to private addresses of which none is this machine's own: the host of a container."""
    addresses = await _resolve(host, RESOLVE_S)
    mine = {a.address.partition("%")[0] for found in psutil.net_if_addrs().values() for a in found}
    foreign = all(a not in mine and not ipaddress.ip_address(a).is_loopback for a in addresses)
    return bool(addresses) and foreign and all(refusal(host, a) is None for a in addresses)


async def _resolve(host: str, limit_s: float) -> set[str]:
    """Its addresses without scope; none after the limit. In a thread of its own: the loop's would be waited for at its
    end, as long as a name server stays silent."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[set[str]] = loop.create_future()

    def tell(found: set[str]) -> None:
        if not answer.done():
            answer.set_result(found)

    def ask() -> None:
        found: set[str] = set()
        with contextlib.suppress(OSError):
            rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            found = {str(row[4][0]).partition("%")[0] for row in rows}
        with contextlib.suppress(RuntimeError):  # the loop has gone on and ended
            loop.call_soon_threadsafe(tell, found)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return await asyncio.wait_for(answer, limit_s)
    except TimeoutError:
        return set()
