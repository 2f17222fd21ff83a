"""Streamlit's own scripts, styles and fonts: most of what a first visit loads, ten megabytes in a hundred files.

Streamlit hands them out unpacked, in slices of 64 KB that each wait for a thread. Here each is sent in one piece,
packed for those who come over a network, and pages name what they need late before anything has asked for it: what
brings our styles, or all of a page jumps when they come, and Plotly's script, which the browser then loads while the
server still reads the sweep.
"""

import gzip
from ipaddress import ip_address
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import file_util

TYPES = {".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2"}
PACKED = (".js", ".css")
PACK_LEVEL = 6
FOREVER = "public, immutable, max-age=31536000"  # their names change with their content
STYLING = ("Html.", "purify.es.")  # how Streamlit's scripts that put `st.html` into a page begin
DRAWING = ("PlotlyChart.",)
REPORTS = "reports/"  # shared pages need nothing of Streamlit
WITH_FIGURES = ("results", "live", "compare", "what-if")  # pages, by their addresses


class WholeFiles:
    """ASGI middleware; what it does not know is left to Streamlit. `base`: sub-path without slashes around it."""

    def __init__(self, app: ASGIApp, base: str = "") -> None:
        self._app = app
        self._prefix = f"/{base}/" if base else "/"
        root = Path(file_util.get_static_dir())
        found = sorted(p for p in (root / "static").rglob("*") if p.suffix in TYPES)
        self._files = {self._prefix + p.relative_to(root).as_posix(): p for p in found}
        self._packed: dict[Path, bytes] = {}  # as many as there are files: four megabytes when all pages were opened
        self._early = {drawn: early_scripts(root, STYLING + DRAWING * drawn) for drawn in (False, True)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        path = self._files.get(scope["path"])
        if path is not None and "range" not in Headers(scope=scope):
            await (await self._answer(path, scope))(scope, receive, send)
            return
        page = scope["path"].removeprefix(self._prefix)
        if page.startswith(REPORTS):
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, self._naming(self._early[page in WITH_FIGURES], send))

    async def _answer(self, path: Path, scope: Scope) -> Response:
        headers = {"Cache-Control": FOREVER}
        if path.suffix in PACKED:
            headers["Vary"] = "Accept-Encoding"
            if wants_packed(scope):
                if path not in self._packed:
                    self._packed[path] = await run_in_threadpool(_pack, path)
                headers["Content-Encoding"] = "gzip"
                return Response(self._packed[path], 200, headers, TYPES[path.suffix])
        return Response(await run_in_threadpool(path.read_bytes), 200, headers, TYPES[path.suffix])

    def _naming(self, scripts: str, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if scripts and message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.append("Link", scripts)
            await send(message)

        return sending


def early_scripts(root: Path, begins: tuple[str, ...]) -> str:
    """The `Link` header that names the scripts whose names begin so, relative to a page's address; empty where this
    Streamlit names them otherwise."""
    found = [p.name for begin in begins for p in sorted((root / "static" / "js").glob(f"{begin}*.js"))]
    return ", ".join(f"<./static/js/{name}>; rel=modulepreload" for name in found)


def wants_packed(scope: Scope) -> bool:
    """Packing pays on a network, not where browser and server share their processor."""
    asked = Headers(scope=scope).get("accept-encoding", "")
    host = (scope.get("client") or ("", 0))[0]
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = False
    return "gzip" in asked and not here


def _pack(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), PACK_LEVEL, mtime=0)
