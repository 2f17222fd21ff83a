"""Headers of every answer: a browser loads nothing from elsewhere for our pages, and nobody frames them."""

import base64
import hashlib
import re
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import file_util

from app.security_origin import host_name

FIXED = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    """ASGI middleware; a header that the answer has already is left as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._scripts = inline_scripts(Path(file_util.get_static_dir()) / "index.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in FIXED.items():
                    headers.setdefault(name, value)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.setdefault(
                        "Content-Security-Policy", page_policy(Headers(scope=scope).get("host", ""), self._scripts)
                    )
            await send(message)

        await self._app(scope, receive, sending)


def inline_scripts(page: Path) -> tuple[str, ...]:
    """The scripts written into Streamlit's page itself, as the hashes by which a policy allows them."""
    found = re.findall(rb"<script>(.*?)</script>", page.read_bytes(), re.DOTALL)
    return tuple(f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in found)


def page_policy(host: str, scripts: tuple[str, ...]) -> str:
    """The Content-Security-Policy of our pages: all they need comes from here, and no text turns into a script.

    Older Safari reads 'self' without websockets, so they are named.
    """
    sockets = f" ws://{host} wss://{host}" if host_name(host) else ""
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src 'self'", *scripts)),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "media-src 'self' data: blob:",
            "worker-src 'self' blob:",
            f"connect-src 'self' blob: data:{sockets}",
            "frame-src 'self' blob: data:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        )
    )
