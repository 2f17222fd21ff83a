"""Why the dashboard could not start, as a page: whoever installed it from a list of apps sees no terminal.

Nothing but the standard library is used here and by what is imported, since a library may be what cannot be loaded.
"""

import os
import signal
import sys
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from app.words import LANGUAGES, load_words

PAGE = """<!doctype html><html lang="{lang}"><head><meta charset="utf-8"><title>Goodput Lab</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>:root{{color-scheme:light dark}}
body{{font:1.1rem/1.6 system-ui,sans-serif;max-width:42rem;margin:4rem auto;padding:0 1.5rem;overflow-wrap:anywhere}}
</style></head><body><h1>{title}</h1><p>{why}</p><p>{mend}</p></body>
</html>
"""


def show_in_container(why: str) -> None:
    """In a container: says it once, then answers every request with it until the container is stopped, instead of
    ending and being started again for ever. Elsewhere, and where the port is taken, returns at once."""
    from runner.environment import in_container

    port = os.environ.get("GOODPUT_PORT") or "8501"
    if not in_container() or not port.isdecimal():
        return
    try:
        server = make_server(why, os.environ.get("GOODPUT_HOST") or "127.0.0.1", int(port))
    except OSError:
        return
    print(f"goodput: {why}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with server:
        server.serve_forever()


def page_of(why: str, accept_language: str) -> bytes:
    """The page in the first language that the browser asks for; in English where we have no catalogue."""
    wanted = accept_language[:2].lower()
    w = load_words(wanted if wanted in LANGUAGES else "en")
    title, mend = w.text("Goodput Lab cannot start"), w.text("Mend it and start the container again.")
    return PAGE.format(lang=w.lang, title=title, why=escape(w.said(why)), mend=mend).encode()


def make_server(why: str, host: str, port: int) -> ThreadingHTTPServer:
    """A server that says so with status 503 under every address, so that no health check takes it for well."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = page_of(why, self.headers.get("Accept-Language") or "")
            self.send_response(503)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged, as in the dashboard."""

    return ThreadingHTTPServer((host, port), Answer)
