"""Who may come in: asks for GOODPUT_PASSWORD, or lets a trusted proxy decide, before anything else is served."""

import base64
import binascii
import hashlib
import hmac
import math
import os
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.password_page import login_page, page_words
from app.security_origin import same_origin
from app.security_proxy import Proxies
from app.security_tries import Tries

COOKIE = "goodput_key"
OPEN_PATHS = ("/healthz",)
MOST_FORM_BYTES = 4096
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
}


class AskPassword:
    """ASGI middleware for pages, websocket, uploads, media and reports alike.

    Browsers get a page that asks, then a cookie of this process; scripts may send HTTP Basic with any user name.
    Without a `password` only those come in whom a trusted proxy names. `base`: sub-path without slashes around it.
    """

    def __init__(self, app: ASGIApp, password: str | None, proxies: Proxies, base: str, tries: Tries) -> None:
        self._app = app
        self._password = password
        self._proxies = proxies
        self._path = f"/{base}" if base else "/"
        self._key = hmac.new(os.urandom(32), (password or "").encode(), hashlib.sha256).hexdigest()
        self._tries = tries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN_PATHS or self._may_pass(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif self._password is None:
            await PlainTextResponse("Your proxy has to let you in here; come through it.\n", 403)(scope, receive, send)
        elif _is_form(scope):
            await (await self._after_form(scope, receive))(scope, receive, send)
        elif (told := _basic_password(scope)) is None:
            await self._asking(scope)(scope, receive, send)
        elif wait_s := self._check(scope, told):
            await self._refusing(scope, wait_s)(scope, receive, send)
        else:
            await self._app(scope, receive, self._with_cookie(scope, send))

    def _may_pass(self, scope: Scope) -> bool:
        return self._proxies.has_let_in(scope) or (self._password is not None and self._has_cookie(scope))

    def _has_cookie(self, scope: Scope) -> bool:
        try:
            found = SimpleCookie(Headers(scope=scope).get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and _equal(found.value, self._key)

    def _check(self, scope: Scope, told: str) -> float | None:
        """None for the right password; else seconds to wait before the next try (at least 0.001)."""
        visitor = self._proxies.visitor(scope)
        if wait_s := self._tries.wait_s(visitor):
            return wait_s  # without a look at the password, or guessing would go on
        if _equal(told, self._password or ""):
            self._tries.passed(visitor)
            return None
        self._tries.failed(visitor)
        return max(self._tries.wait_s(visitor), 0.001)

    async def _after_form(self, scope: Scope, receive: Receive) -> Response:
        body = await _small_body(receive)
        if body is None:
            return PlainTextResponse("That is no password.\n", 413)
        headers = Headers(scope=scope)
        if (origin := headers.get("origin")) and not same_origin(origin, headers.get("host", "")):
            return PlainTextResponse("This form was sent by a page from elsewhere.\n", 403)
        told = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True).get("password", [""])[0]
        if wait_s := self._check(scope, told):
            return self._refusing(scope, wait_s)
        query = scope["query_string"].decode("latin-1")
        here = "/" + scope["path"].lstrip("/\\")  # two slashes would lead to another host
        answer = RedirectResponse(f"{here}?{query}" if query else here, 303)
        answer.headers["set-cookie"] = self._cookie(scope)
        answer.headers["cache-control"] = "no-store"
        return answer

    def _asking(self, scope: Scope) -> Response:
        if _wants_page(scope):
            return Response(login_page(page_words(scope)), 401, PAGE_HEADERS, "text/html")
        asking = {"WWW-Authenticate": 'Basic realm="Goodput Lab", charset="UTF-8"'}
        return PlainTextResponse("This dashboard asks for a password.\n", 401, asking)

    def _refusing(self, scope: Scope, wait_s: float) -> Response:
        seconds = math.ceil(wait_s)
        status = 429 if wait_s >= 0.5 else 401
        headers = {"Retry-After": str(seconds)} if status == 429 else {}
        w = page_words(scope)
        said = (
            w.text("Too many wrong passwords from your address. Wait {n} s.", n=w.count(seconds))
            if status == 429
            else w.text("That is not the password.")
        )
        if _wants_page(scope):
            return Response(login_page(w, said), status, {**PAGE_HEADERS, **headers}, "text/html")
        return PlainTextResponse(said + "\n", status, headers)

    def _cookie(self, scope: Scope) -> str:
        told = Headers(scope=scope).get("x-forwarded-proto", "")  # a lie only hides the cookie from the liar
        secure = "; Secure" if "https" in (scope.get("scheme"), told) else ""
        return f"{COOKIE}={self._key}; Path={self._path}; HttpOnly; SameSite=Lax{secure}"

    def _with_cookie(self, scope: Scope, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("set-cookie", self._cookie(scope))
            await send(message)

        return sending


def _equal(told: str, right: str) -> bool:
    """In a time that tells neither content nor length."""
    return hmac.compare_digest(hashlib.sha256(told.encode()).digest(), hashlib.sha256(right.encode()).digest())


def _basic_password(scope: Scope) -> str | None:
    kind, _, told = Headers(scope=scope).get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(told, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return None


def _is_form(scope: Scope) -> bool:
    kind = Headers(scope=scope).get("content-type", "")
    return scope["method"] == "POST" and kind.partition(";")[0].strip() == "application/x-www-form-urlencoded"


def _wants_page(scope: Scope) -> bool:
    return "text/html" in Headers(scope=scope).get("accept", "")


async def _small_body(receive: Receive) -> bytes | None:
    """The body of the request; None when it is larger than a password can be, or the sender has gone."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > MOST_FORM_BYTES:
            return None
        if not message.get("more_body", False):
            return body
