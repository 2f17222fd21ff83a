"""Asks browsers for GOODPUT_PASSWORD before anything else is served."""

import base64
import binascii
import hashlib
import hmac
import os
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "goodput_key"
OPEN_PATHS = ("/healthz",)


class AskPassword:
    """ASGI middleware: HTTP Basic (any user name), then a cookie, since not every browser sends Basic on websockets."""

    def __init__(self, app: ASGIApp, password: str) -> None:
        self._app = app
        self._password = password
        self._key = hmac.new(os.urandom(32), password.encode(), hashlib.sha256).hexdigest()

    @classmethod
    def wanted(cls) -> list[Middleware]:
        """Empty without GOODPUT_PASSWORD."""
        password = os.environ.get("GOODPUT_PASSWORD")
        return [Middleware(cls, password=password)] if password else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN_PATHS or self._has_cookie(scope):
            await self._app(scope, receive, send)
        elif self._knows_password(scope):
            await self._app(scope, receive, self._with_cookie(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            asking = {"WWW-Authenticate": 'Basic realm="Goodput Lab", charset="UTF-8"'}
            await PlainTextResponse("This dashboard asks for a password.\n", 401, asking)(scope, receive, send)

    def _has_cookie(self, scope: Scope) -> bool:
        try:
            found = SimpleCookie(Headers(scope=scope).get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self._key.encode())

    def _knows_password(self, scope: Scope) -> bool:
        kind, _, told = Headers(scope=scope).get("authorization", "").partition(" ")
        try:
            _, _, password = base64.b64decode(told, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return kind.lower() == "basic" and hmac.compare_digest(password.encode(), self._password.encode())

    def _with_cookie(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = f"{COOKIE}={self._key}; Path=/; HttpOnly; SameSite=Strict"
                message["headers"] = [*message["headers"], (b"set-cookie", cookie.encode())]
            await send(message)

        return sending
