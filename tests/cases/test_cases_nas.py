"""The cases about where people run it: behind a reverse proxy, on the processor of a NAS."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from runner.engines.address import free_port
from runner.start_check import LIBRARIES, cpu_refusal, dying_import
from storage.data_folder import open_data_folder
from tests.app.views.made_up import made_up_tables
from tests.cases.load_cases import load_cases
from tests.support.chromium import CHROMIUM, chromium
from tests.support.finished_sweeps import finished_sweep
from tests.support.patience import PATIENCE_S, until

CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in load_cases()}
ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "sample_data" / "nas" / "nginx.conf").read_text(encoding="utf-8")
NGINX, QEMU = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"), shutil.which("qemu-x86_64")
AROUND = """
daemon off; {user} worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 128; }}
http {{
  access_log off;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
{server}
}}
"""


def needed(tool: str | None, name: str) -> str:
    """CI has all tools; elsewhere a test without its tool is skipped."""
    if tool is None:
        assert not os.environ.get("CI"), f"CI must have {name}"
        pytest.skip(f"no {name} here")
    return tool


@contextmanager
def dashboard(data_dir: Path, log: Path, **environment: str) -> Iterator[int]:
    """A running dashboard; its port. What it says goes to `log`."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "--no-browser", "--port", "0", "--data", str(data_dir)],
            stderr=out,
            env={**os.environ, **environment},
            cwd=ROOT,
        )
    try:
        yield int(until(lambda: re.search(r"at http://\S+?:(\d+)/", log.read_text()))[1])
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@contextmanager
def nginx(folder: Path, server: str, upstream: int) -> Iterator[str]:
    """The recipe's server on a free port; its address."""
    folder.mkdir()
    port = free_port()
    server = server.replace("listen 80;", f"listen 127.0.0.1:{port};").replace(
        "127.0.0.1:8501", f"127.0.0.1:{upstream}"
    )
    user = "user root;" if os.getuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(AROUND.format(folder=folder, server=server, user=user), encoding="utf-8")
    process = subprocess.Popen([needed(NGINX, "nginx"), "-p", str(folder), "-c", str(config)], stderr=subprocess.PIPE)
    try:
        until(lambda: answers(f"http://127.0.0.1:{port}/"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code > 0
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    needed(CHROMIUM, "Chromium")
    with chromium() as running:
        yield running


def drawn(page: Page) -> None:
    page.wait_for_selector(".st-key-frontier .main-svg", timeout=PATIENCE_S * 1000)


@pytest.mark.parametrize("case_id", ["E07"])
@pytest.mark.browser
@pytest.mark.timeout(300)
def test_the_dashboard_works_behind_a_reverse_proxy(case_id: str, browser: Browser, tmp_path: Path) -> None:
    """Through the documented nginx file below a sub-path: pages, links, downloads; after an idle limit it reconnects;
    without the Upgrade headers the log says what is missing."""
    assert "baseUrlPath" in CASES[case_id]["expected"]["works_with"]
    below_bench = RECIPE.replace("/goodput/", "/bench/")
    assert below_bench.count("/bench/") >= 1
    impatient = re.sub(r"proxy_read_timeout \S+;", "proxy_read_timeout 3s;", below_bench)
    bare = re.sub(r"proxy_set_header (Upgrade|Connection) [^;]+;", "", below_bench)
    data_dir = open_data_folder(tmp_path / "data")
    finished_sweep(data_dir, made_up_tables((2, 8), (256,), (1.0,)), "made-up")
    log = tmp_path / "log"
    with dashboard(data_dir, log, GOODPUT_BASE_PATH="bench") as upstream:
        with nginx(tmp_path / "as_documented", below_bench, upstream) as home:
            page = browser.new_page()
            page.goto(f"{home}/bench/results?sweep=made-up")
            drawn(page)
            opened = page.get_by_role("link", name="Open the shared page")
            with page.context.expect_page() as shared:
                opened.click()
            shared.value.wait_for_selector("#headline")
            assert shared.value.url == f"{home}/bench/reports/made-up.html"
            page.context.close()
        with nginx(tmp_path / "impatient", impatient, upstream) as home:
            page = browser.new_page()
            sockets: list[str] = []
            page.on("websocket", lambda ws: sockets.append(ws.url))
            page.goto(f"{home}/bench/results?sweep=made-up")
            drawn(page)
            until(lambda: page.wait_for_timeout(200) or len(sockets) > 1)  # cut off for being quiet, and back again
            page.get_by_role("link", name="Method").click()
            page.get_by_role("heading", name="Method").wait_for(timeout=PATIENCE_S * 1000)
            page.context.close()
        assert "Upgrade and Connection" not in log.read_text()
        with nginx(tmp_path / "bare", bare, upstream) as home:
            page = browser.new_page()
            page.goto(f"{home}/bench/")
            until(lambda: page.wait_for_timeout(200) or "Upgrade and Connection" in log.read_text())
            page.context.close()


@pytest.mark.parametrize("case_id", ["E14"])
@pytest.mark.timeout(300)
def test_a_processor_without_avx_starts_or_is_told_why_not(case_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an emulated processor without AVX all libraries load; without SSE4.2 one message names package and flags."""
    if platform.machine() != "x86_64":
        pytest.skip("the emulated Python is the one of this machine")
    qemu = needed(QEMU, "qemu-x86_64")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p.endswith("site-packages")))
    wanted = re.findall(r"\b(numpy|pandas|pyarrow|duckdb)\b", CASES[case_id]["input"]["steps"][0])
    assert set(wanted) <= set(LIBRARIES)

    def emulated(processor: str) -> tuple[str, ...]:
        return (qemu, "-cpu", processor, os.path.realpath(sys.executable))

    assert dying_import(emulated("Nehalem")) is None
    told = cpu_refusal("x86_64", "flags : fpu sse sse2 pni\n", emulated("core2duo"), quick=True)
    assert told is not None
    assert "cannot run numpy" in told
    assert "sse4_2" in told
    assert "CPU type host" in told
