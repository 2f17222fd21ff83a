"""Streamlit's own scripts, styles and fonts: most of what a first visit loads, ten megabytes in a hundred files.

Streamlit hands them out unpacked, in slices of 64 KB that each wait for a thread. Here each is sent in one piece,
packed for those who come over a network. Pages bring our styles with them, and name what they need late before anything
has asked for it, or all of a page jumps when these come. Not Plotly's script: a browser that has it already runs it,
for a second, before it shows the words and the still picture that came with the figure.
"""

import gzip
import hashlib
import re
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
ASKING = ("Selectbox.", "Metric.", "Slider.", "ButtonGroup.", "Button.", "Checkbox.", "DownloadButton.", "LinkButton.")
RESULTS = "results"  # the page with all of these, by its address
OURS = Path(__file__).with_name("pages.css")
NAMED = re.compile(r'(?:from|import)\s*"\./([^"]+\.js)"')  # what a script of theirs needs
REPORTS = "reports/"  # shared pages need nothing of Streamlit


class WholeFiles:
    """ASGI middleware; what it does not know is left to Streamlit. `base`: sub-path without slashes around it."""

    def __init__(self, app: ASGIApp, base: str = "") -> None:
        self._app = app
        self._prefix = f"/{base}/" if base else "/"
        root = Path(file_util.get_static_dir())
        found = sorted(p for p in (root / "static").rglob("*") if p.suffix in TYPES)
        self._files = {self._prefix + p.relative_to(root).as_posix(): p for p in found}
        name = f"static/css/pages.{hashlib.blake2b(OURS.read_bytes(), digest_size=6).hexdigest()}.css"
        self._files[self._prefix + name] = OURS
        self._styles = f'<link rel="stylesheet" href="./{name}">'.encode()
        self._packed: dict[Path, bytes] = {}  # as many as there are files: four megabytes when all pages were opened
        self._early = {asking: early_scripts(root, STYLING + ASKING * asking) for asking in (False, True)}

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
            plain = [(k, v) for k, v in scope["headers"] if k != b"accept-encoding"]  # a packed page can't be added to
            await self._app({**scope, "headers": plain}, receive, self._as_page(self._early[page == RESULTS], send))

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

    def _as_page(self, scripts: str, send: Send) -> Send:
        """An HTML page gets the header that names `scripts`, and our styles as the last thing in it: they stand behind
        Streamlit's own, and overrule them."""
        start: Message = {}
        content = bytearray()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    start.update(message)
                    for name in ("etag", "last-modified", "accept-ranges"):  # of a page without our styles
                        del headers[name]
                    if scripts:
                        headers.append("Link", scripts)
                    return
            elif start and message["type"] == "http.response.body":
                content.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                body = bytes(content).replace(b"</body>", self._styles + b"</body>", 1)
                if body:  # else only its head was asked for
                    MutableHeaders(scope=start)["Content-Length"] = str(len(body))
                await send(start)
                message = {**message, "body": body}
            await send(message)

        return sending


def early_scripts(root: Path, begins: tuple[str, ...]) -> str:
    """The `Link` header that names the scripts whose names begin so, relative to a page's address, with all that they
    need beside what each page names by itself; empty where this Streamlit names them otherwise."""
    folder = root / "static" / "js"
    wanted = [p.name for begin in begins for p in sorted(folder.glob(f"{begin}*.js"))]
    page = (root / "index.html").read_text(encoding="utf-8") if wanted else ""
    for name in wanted:  # grows meanwhile
        needed = NAMED.findall((folder / name).read_text(encoding="utf-8"))
        wanted += [n for n in dict.fromkeys(needed) if n not in wanted and n not in page]
    return ", ".join(f"<./static/js/{name}>; rel=modulepreload" for name in wanted)


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
