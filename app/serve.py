"""Serves the dashboard: the pages, `/healthz`, and `/reports/<id>.html`, a page to share under a lasting address.

Nothing here or in the browser asks any other machine for anything: usage statistics, the look-up of the public
address and links out of error messages are switched off.
"""

import contextlib
import os
import socket
import sys
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from streamlit import net_util

from app.data import find_folder, report_html
from app.late_looks import ignore_late_looks
from app.load_pages import load_pages
from app.memory import keep_heaps_few
from app.password_page import page_words
from app.security import guards
from app.static_files import WholeFiles
from runner.errors import ConfigError
from runner.priority import yield_to_others
from storage.errors import GoodputError

MAIN = Path(__file__).with_name("main.py")
DEFAULT_PORT = 8501
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REPORT_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
STREAMLIT = {
    "server.headless": True,  # the browser is opened here, once the port is known
    "server.fileWatcherType": "none",
    "server.runOnSave": False,
    "runner.magicEnabled": False,
    "server.enableStaticServing": False,
    "server.enableAgentApi": False,
    "server.showEmailPrompt": False,
    "server.maxUploadSize": 1,
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "viewer",
    "client.showErrorLinks": False,
    "client.showErrorDetails": "type",
    "client.disableDataExport": True,  # its CSV would run formulas in names; the pages have their own
    "logger.hideWelcomeMessage": True,
    "theme.font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    "theme.codeFont": "ui-monospace, 'SF Mono', Consolas, 'DejaVu Sans Mono', monospace",
    "theme.headingFontSizes": ["2rem", "1.7rem", "1.3rem", "1.1rem", "1rem", "0.9rem"],
    "theme.metricValueFontSize": "1.6rem",
    "theme.light.primaryColor": "#0072B2",
    "theme.dark.primaryColor": "#2F86C6",
}


def serve(data_dir: Path, host: str | None, port: int | None, *, open_browser: bool) -> int:
    """Blocks until Ctrl-C or TERM; returns 0. Raises ConfigError for an address that can't be listened on."""
    address = host or os.environ.get("GOODPUT_HOST") or "127.0.0.1"
    number = port if port is not None else _port_of_environment()
    base = os.environ.get("GOODPUT_BASE_PATH", "").strip("/")
    _check_port(address, number)
    yield_to_others()  # before there are threads
    keep_heaps_few()
    os.environ["GOODPUT_DATA"] = str(data_dir)  # where the page scripts look
    os.environ["FORWARDED_ALLOW_IPS"] = "none"  # who asks is judged by app.security_proxy alone
    net_util.get_external_ip = lambda: None  # it would ask a web service for every foreign origin
    shown = "localhost" if address in (*LOOPBACK, "0.0.0.0", "::") else address
    load_pages()
    ignore_late_looks()
    dashboard = make_app(data_dir, base, _announce(shown, base, open_browser))
    dashboard.run(
        config={
            **STREAMLIT,
            "server.address": address,
            "server.port": number,
            "server.baseUrlPath": base,
            "browser.serverAddress": shown,
        }
    )
    return 0


def make_app(data_dir: Path, base: str = "", lifespan: Any = None) -> st.App:  # noqa: ANN401  (Streamlit's own type)
    """The ASGI app; `base` is the sub-path behind a proxy, without slashes around it."""

    def report(request: Request) -> Response:
        try:
            html = report_html(find_folder(data_dir, request.path_params["sweep_id"]), words=page_words(request.scope))
        except ConfigError as e:
            return PlainTextResponse(f"{e}\n", 404, REPORT_HEADERS)
        except GoodputError as e:
            return PlainTextResponse(f"{e}\n", 409, REPORT_HEADERS)
        return HTMLResponse(html, headers=REPORT_HEADERS)

    prefix = f"/{base}" if base else ""
    routes = [
        Route("/healthz", _healthy),
        Route(f"{prefix}/reports/{{sweep_id}}.html", report),
    ]
    return st.App(MAIN, lifespan=lifespan, routes=routes, middleware=[*guards(base), Middleware(WholeFiles, base=base)])


def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def _announce(shown: str, base: str, open_browser: bool) -> Any:  # noqa: ANN401
    """A lifespan that tells the address once the port is bound."""

    @contextlib.asynccontextmanager
    async def lifespan(app: st.App) -> AsyncIterator[None]:
        url = f"http://{f'[{shown}]' if ':' in shown else shown}:{st.get_option('server.port')}/{base}"
        print(f"Goodput Lab is at {url} (Ctrl-C ends it)", file=sys.stderr, flush=True)
        locked = os.environ.get("GOODPUT_PASSWORD") or os.environ.get("GOODPUT_TRUSTED_HEADER")
        if st.get_option("server.address") not in LOOPBACK and not locked:
            print("Everybody in this network can open it; GOODPUT_PASSWORD asks for a password", file=sys.stderr)
        if open_browser:
            webbrowser.open(url)
        yield

    return lifespan


def _port_of_environment() -> int:
    text = os.environ.get("GOODPUT_PORT") or str(DEFAULT_PORT)
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise ConfigError(f"GOODPUT_PORT = {text!r} is not a port; give a number from 1 to 65535")
    return int(text)


def _check_port(address: str, port: int) -> None:
    """Raises ConfigError in plain words when nothing can listen there."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"port {port} does not exist; give --port a number from 1 to 65535")
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((address, port))
    except PermissionError:
        raise ConfigError(f"port {port} may not be used by this user; choose one above 1023 with --port") from None
    except OSError as e:
        if isinstance(e, socket.gaierror) or e.strerror == "Cannot assign requested address":
            raise ConfigError(f"{address} is not an address of this machine; choose another with --host") from None
        raise ConfigError(
            f"port {port} is taken by another program, perhaps Goodput Lab itself (look at http://localhost:{port}); "
            "end that one, or choose another port with --port"
        ) from None
