"""What stands before every page, websocket, upload, file and report: who may ask, from where, and under which name."""

import os
import socket
import sys
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.password import OPEN_PATHS, AskPassword
from app.security_headers import SecurityHeaders
from app.security_origin import host_refusal, same_origin
from app.security_proxy import proxies_of
from app.security_tries import Tries

READING = ("GET", "HEAD", "OPTIONS")
LOST_WEBSOCKET = (
    "A proxy in front of Goodput Lab drops the websocket upgrade, so pages stay empty: let it pass on the headers "
    "Upgrade and Connection (sample_data/nas has recipes for nginx, Caddy and Traefik)."
)


class OneOrigin:
    """ASGI middleware: refuses pages from elsewhere that would talk to us, and names that are not ours.

    `names`: further names under which a dashboard that asks nobody may be opened; None when it does ask.
    """

    def __init__(self, app: ASGIApp, names: tuple[str, ...] | None, stream: str) -> None:
        self._app = app
        self._names = names
        self._stream = stream
        self._told = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if why is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
        else:
            status = 426 if why == LOST_WEBSOCKET else 403
            await PlainTextResponse(why + "\n", status)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if scope["path"] in OPEN_PATHS:
            return None
        if self._names is not None and (why := host_refusal(host, self._names)):
            return why
        origin = headers.get("origin")
        writing = scope["type"] == "websocket" or scope["method"] not in READING
        if writing and origin is not None and not same_origin(origin, host):
            return "A page from elsewhere may not use this dashboard; a proxy has to pass on the Host header as it is."
        if scope["type"] == "http" and scope["path"] == self._stream and scope["method"] == "GET":
            if not self._told:
                print(LOST_WEBSOCKET, file=sys.stderr, flush=True)
            self._told = True
            return LOST_WEBSOCKET
        return None


def guards(base: str = "", environ: Mapping[str, str] = os.environ) -> list[Middleware]:
    """The middleware, outermost first, as the environment asks for it. Raises ConfigError."""
    password = environ.get("GOODPUT_PASSWORD") or None
    proxies = proxies_of(environ)
    asks = password is not None or proxies.user_header is not None
    names = (*environ.get("GOODPUT_HOSTNAMES", "").replace(",", " ").lower().split(), socket.gethostname().lower())
    prefix = f"/{base}" if base else ""
    found = [
        Middleware(SecurityHeaders),
        Middleware(OneOrigin, names=None if asks else names, stream=f"{prefix}/_stcore/stream"),
    ]
    if asks:
        found.append(Middleware(AskPassword, password=password, proxies=proxies, base=base, tries=Tries()))
    return found
