"""The dashboard as a server: what answers under which address, and what is said when it can't listen."""

import base64
import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.data import write_report
from app.serve import serve
from runner.errors import ConfigError
from storage.data_folder import open_data_folder
from tests.app.views.made_up import made_up_tables
from tests.support.finished_sweeps import finished_sweep

TOLD = re.compile(rb"Goodput Lab is at (http://\S+)")


@contextmanager
def dashboard(data_dir: Path, **environment: str) -> Iterator[str]:
    """A running `goodput --no-browser` on a free port; its address without the last slash."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "--no-browser", "--port", "0", "--data", str(data_dir)],
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        cwd=Path(__file__).parents[2],
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = TOLD.search(line)
        assert found, line
        yield found[1].decode().rstrip("/").replace("localhost", "127.0.0.1")
    finally:
        process.terminate()
        assert process.wait(30) in (0, -15)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one finished sweep, `made-up`."""
    folder = open_data_folder(tmp_path_factory.mktemp("serve"))
    finished_sweep(folder, made_up_tables((2, 8), (256,), (1.0,)), "made-up")
    return folder


@pytest.fixture(scope="module")
def recorder() -> Iterator[socket.socket]:
    """Stands where a web proxy would: whoever asks for anything outside knocks here."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture(scope="module")
def address(data_dir: Path, recorder: socket.socket) -> Iterator[str]:
    proxy = f"http://127.0.0.1:{recorder.getsockname()[1]}"
    with dashboard(data_dir, HTTP_PROXY=proxy, HTTPS_PROXY=proxy, http_proxy=proxy, https_proxy=proxy) as told:
        yield told


def get(url: str, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=30) as client:
        return client.get(url, headers=headers)


def test_healthz_and_the_page_answer(address: str) -> None:
    """Containers ask /healthz; people get the page."""
    assert get(f"{address}/healthz").text == "ok\n"
    assert "<title>" in get(f"{address}/").text


def test_permalink_is_the_file_that_the_command_writes(address: str, data_dir: Path, tmp_path: Path) -> None:
    """/reports/<id>.html and write_report give the same page, which no other page may frame."""
    answer = get(f"{address}/reports/made-up.html")
    write_report(data_dir / "sweeps" / "made-up", tmp_path / "page.html", include_private=False)
    assert answer.text == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("wrong", ["gone", "..%2F..%2Fmade-up", ".hidden", "%00"])
def test_permalinks_of_no_sweep_are_not_found(address: str, wrong: str) -> None:
    """Nothing but the id of a sweep opens a folder."""
    answer = get(f"{address}/reports/{wrong}.html")
    assert answer.status_code in (400, 404)
    assert "Traceback" not in answer.text


def test_a_half_copied_sweep_is_told_in_one_sentence(address: str, data_dir: Path) -> None:
    """A folder without its database is a conflict in plain words, not a crash."""
    (data_dir / "sweeps" / "half").mkdir(exist_ok=True)
    answer = get(f"{address}/reports/half.html")
    assert (answer.status_code, answer.text.count("\n")) == (409, 1)


def test_nothing_outside_is_asked_not_even_for_a_foreign_origin(address: str, recorder: socket.socket) -> None:
    """A websocket from another origin is refused without looking up our public address."""
    host = address.removeprefix("http://")
    with socket.create_connection(tuple(host.split(":")), timeout=30) as s:  # type: ignore[arg-type]
        s.sendall(
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.test\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        assert s.recv(64).startswith(b"HTTP/1.1 403")
    assert select.select([recorder], [], [], 0)[0] == []


def test_sub_path_and_password(data_dir: Path) -> None:
    """Behind a proxy all pages live below one path; with a password nothing but /healthz is open."""
    with dashboard(data_dir, GOODPUT_BASE_PATH="/bench/", GOODPUT_PASSWORD="open sesame") as told:
        assert told.endswith("/bench")
        root = told.removesuffix("/bench")
        assert get(f"{root}/healthz").text == "ok\n"
        for path in ("/", "/reports/made-up.html", "/_stcore/host-config"):
            assert get(told + path).status_code == 401
            wrong = base64.b64encode(b"me:guess").decode()
            assert get(told + path, Authorization=f"Basic {wrong}").status_code == 401
        right = base64.b64encode(b"me:open sesame").decode()
        answer = get(f"{told}/reports/made-up.html", Authorization=f"Basic {right}")
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].partition(";")[0]
        assert get(f"{told}/", Cookie=cookie).status_code == 200
        assert get(f"{told}/", Cookie="goodput_key=x").status_code == 401


def test_a_taken_port_is_one_sentence_and_exit_code_2(address: str, tmp_path: Path) -> None:
    """No traceback, no silent move to another port."""
    port = address.rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "--no-browser", "--port", port, "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"port {port} is taken" in done.stderr


def test_addresses_that_do_not_exist_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign address, a port beyond the last, a GOODPUT_PORT that is no number: each its own sentence."""
    with pytest.raises(ConfigError, match="not an address of this machine"):
        serve(tmp_path, "192.0.2.1", 0, open_browser=False)
    with pytest.raises(ConfigError, match="port 70000 does not exist"):
        serve(tmp_path, None, 70000, open_browser=False)
    monkeypatch.setenv("GOODPUT_PORT", "eighty")
    with pytest.raises(ConfigError, match="GOODPUT_PORT = 'eighty' is not a port"):
        serve(tmp_path, None, None, open_browser=False)
