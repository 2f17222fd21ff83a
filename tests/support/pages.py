"""Fixtures and helpers for tests that open pages without a browser."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from app import backends, cache, data, jobs, ui

MAIN = Path(jobs.__file__).with_name("main.py")
HOSTILE = (
    "<img src=x onerror=alert(1)> [x](http://evil.test) ![y](http://evil.test/i.png) :material/home: $a$ **b** `c`"
)
Open = Callable[..., AppTest]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, without sample sweeps, that all pages of the test look at; no server on this host."""
    no_servers: list[dict[str, object]] = []
    monkeypatch.setattr(backends, "servers_here", lambda: no_servers)
    cache.servers.clear()
    monkeypatch.setattr(cache, "prepare_soon", lambda folder: None)  # no thread outlives its test
    samples = tmp_path / "samples"
    samples.mkdir()
    shutil.copy(data.SAMPLES / "demo.toml", samples)
    monkeypatch.setattr(data, "SAMPLES", samples)
    monkeypatch.setenv("GOODPUT_DATA", str(tmp_path / "data"))
    for part in ("queue", "sweeps"):
        (tmp_path / "data" / part).mkdir(parents=True)
    return tmp_path / "data"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Data folders for which a worker was started; no process is."""
    found: list[Path] = []

    def pretend(folder: Path) -> SimpleNamespace:
        found.append(folder)
        return SimpleNamespace(poll=lambda: None)

    monkeypatch.setattr(jobs, "start_worker", pretend)
    return found


@pytest.fixture
def opened(data_dir: Path, started: list[Path]) -> Open:
    """Opens a page, perhaps with a sweep and more in its address, and fails on any exception in it."""

    def open_page(page: str = ui.START, sweep: str | None = None, **query: str) -> AppTest:
        at = AppTest.from_file(MAIN, default_timeout=60)
        at.query_params.update({**({"sweep": sweep} if sweep is not None else {}), **query})
        at.run()
        return fine(at.switch_page(page).run() if page != ui.START else at)

    return open_page


def fine(at: AppTest) -> AppTest:
    assert [e.message for e in at.exception] == []
    return at


def address(at: AppTest) -> str:
    """The sweep in the page's address."""
    told = at.query_params["sweep"]
    return str(told[0] if isinstance(told, list) else told)


def said(at: AppTest) -> str:
    """Everything the page says in Markdown, as it was sent."""
    kinds = ("markdown", "caption", "error", "warning", "info", "success", "page_link")
    return "\n".join(str(x.value) for kind in kinds for x in at.get(kind))


def shown(at: AppTest) -> str:
    """The same as a reader sees it: escapes and invisible joiners taken away."""
    return re.sub(r"\\(.)", r"\1", said(at)).replace("\u2060", "")
