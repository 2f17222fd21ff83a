"""Waits until a server is ready: its health page says so, not merely an open port or a model list."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable

import httpx

from runner.engines import failure
from runner.engines.address import host_and_port, port_is_taken
from runner.engines.catalogue import EngineKind
from runner.engines.engine_log import EngineLog
from runner.errors import SettingFailed
from runner.load.targets import allowed_hosts, refusal
from runner.load.transport import StampedTransport
from runner.protocols.scrub import scrub

_UNKNOWN_PATH = (404, 405, 501)
_KEY_WANTED = (401, 403)
_FOREIGN_PATIENCE_S = 5.0  # a server that is not ours and refuses connections for so long is not there


async def wait_until_ready(
    root: str,
    kind: EngineKind,
    key: str | None,
    timeout_s: float,
    alive: Callable[[], Awaitable[SettingFailed | None]] | None = None,
    log: EngineLog | None = None,
) -> None:
    """Returns when the server is ready. Raises SettingFailed: it died (`alive` says so; the wait ends at once), it
    refuses us, or the time is up. Without `alive` the server is someone else's: it must answer soon, and its
    port stay open while it loads."""
    shown = scrub(root)
    began = last_answer = time.monotonic()
    pause_s, answered, said = 0.05, False, "no answer"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    await _must_be_allowed(root)
    # its transport looks at the address of every connection: a name may lead elsewhere a moment later
    async with httpx.AsyncClient(transport=StampedTransport(), trust_env=False, headers=headers, timeout=10.0) as http:
        while True:
            status, said = await _ask(http, root, kind)
            if status is not None:
                answered, last_answer = True, time.monotonic()
            if status == 200:
                return
            if alive and (dead := await alive()):
                raise dead
            if status in _KEY_WANTED:
                raise SettingFailed(
                    "unreachable", f"{shown} wants a key ({status}); name its variable in backend.api_key_env"
                )
            now = time.monotonic()
            if not alive and now - last_answer > _FOREIGN_PATIENCE_S and not (answered and await _listens(root)):
                raise SettingFailed("unreachable", _gone(shown, said, answered))
            if now - began > timeout_s:
                why = f"the server was not ready after {timeout_s:g} s ({said})"
                detail = f"{why}; {_after_waiting(status, shown)}"
                raise SettingFailed("not_ready", detail, log_tail=failure.log_tail(log.text()) if log else None)
            await asyncio.sleep(pause_s)
            pause_s = min(0.5, pause_s * 1.3)


async def _listens(root: str) -> bool:
    """A server that is busy loading may be too slow to answer, but its port is open."""
    return await asyncio.to_thread(port_is_taken, *host_and_port(root))


def _gone(shown: str, said: str, answered: bool) -> str:
    if answered:
        return f"{shown} stopped answering while it was loading ({said}); its own log says why"
    return f"{shown} does not answer ({said}); start the server or mend backend.url"


def _after_waiting(status: int | None, shown: str) -> str:
    """More time helps a server that loads; one that nobody sees may have ended, or listens elsewhere."""
    if status is not None:
        return "raise control.ready_timeout_s"
    return (
        f"see whether it ended by itself and whether it listens at {shown}; if it only takes longer to load, "
        "raise control.ready_timeout_s"
    )


async def _must_be_allowed(root: str) -> None:
    """Only this machine and private networks are contacted, unless the owner allows more."""
    host, port = host_and_port(root)
    with contextlib.suppress(OSError):  # a name that is not known is no answer
        for *_, address in await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM):
            if why := refusal(host, str(address[0]), allowed_hosts()):
                raise SettingFailed("unreachable", why)


async def _ask(http: httpx.AsyncClient, root: str, kind: EngineKind) -> tuple[int | None, str]:
    """Status of the first ready path that the server knows, and words for it; null while nobody answers."""
    status, said = None, "no answer"
    for path in kind.ready_paths:
        try:
            status = (await http.get(root + path)).status_code
            said = f"{path} says {status}"
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            return None, str(e) or type(e).__name__
        if status not in _UNKNOWN_PATH:
            break
    return status, said
