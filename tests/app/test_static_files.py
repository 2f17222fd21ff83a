"""Streamlit's own scripts as we hand them out: whole, packed for networks, Plotly's named before it is asked for."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send
from streamlit import file_util

from app.static_files import FOREVER, WholeFiles, early_scripts

STATIC = Path(file_util.get_static_dir()) / "static"
PLOTLY = next((STATIC / "js").glob("PlotlyChart.*.js"))
STYLES = next((STATIC / "css").glob("index.*.css"))


async def streamlit(scope: Scope, receive: Receive, send: Send) -> None:
    """Stands where Streamlit would answer."""
    await HTMLResponse("Streamlit")(scope, receive, send)


def ask(path: str, *, method: str = "GET", peer: str = "127.0.0.1", base: str = "", **headers: str) -> httpx.Response:
    """What a browser at `peer` gets, unpacked as browsers do."""

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(WholeFiles(streamlit, base), client=(peer, 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://nas:8501") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(go())


@pytest.mark.parametrize("base", ["", "bench"])
def test_scripts_are_streamlits_own_and_kept_for_ever(base: str) -> None:
    """The largest script is the file itself, under a sub-path too."""
    answer = ask(f"/{base}/static/js/{PLOTLY.name}".replace("//", "/"), base=base)
    assert answer.content == PLOTLY.read_bytes()
    assert answer.headers["cache-control"] == FOREVER
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "content-encoding" not in answer.headers


def test_packing_is_for_networks() -> None:
    """Over a network, for whoever can unpack; between a browser and a server on one machine it only costs time."""
    path, whole = f"/static/css/{STYLES.name}", STYLES.read_bytes()
    for peer, asked, packed in (
        ("192.168.1.7", "gzip, br", True),
        ("192.168.1.7", "identity", False),
        ("127.0.0.1", "gzip", False),
        ("::1", "gzip", False),
    ):
        answer = ask(path, peer=peer, **{"Accept-Encoding": asked})
        assert answer.content == whole
        assert ("content-encoding" in answer.headers) == packed, (peer, asked)
        assert answer.headers["vary"] == "Accept-Encoding"


def test_pages_name_early_what_they_need_late() -> None:
    """What they name is there, seen from the page's address; the first page loads without Plotly."""
    told = ask("/bench/results?sweep=x", base="bench").headers["link"]
    assert f"<./static/js/{PLOTLY.name}>; rel=modulepreload" in told
    names = re.findall("<([^>]*)>", told)
    assert [name.split("/")[-1].split(".")[0] for name in names] == ["Html", "purify", "PlotlyChart"]
    for name in names:
        path = httpx.URL("http://nas/bench/results?sweep=x").join(name).path
        assert ask(path, base="bench").headers["cache-control"] == FOREVER
    assert "Html" in ask("/bench", base="bench").headers["link"]
    assert "PlotlyChart" not in ask("/bench", base="bench").headers["link"]


@pytest.mark.parametrize("path", ["/static/js/..%2f..%2findex.html", "/static/../index.html", "/static/x.js", "/new"])
def test_what_is_no_file_of_theirs_is_left_to_streamlit(path: str) -> None:
    """Nothing but a name out of the folder's list is read."""
    assert ask(path).text == "Streamlit"


def test_parts_and_other_methods_are_left_to_streamlit() -> None:
    """A part of a file, and what is no reading."""
    assert ask(f"/static/js/{PLOTLY.name}", Range="bytes=0-9").text == "Streamlit"
    assert ask(f"/static/js/{PLOTLY.name}", method="POST").text == "Streamlit"
    assert ask(f"/static/js/{PLOTLY.name}", method="HEAD").headers["content-length"] == str(PLOTLY.stat().st_size)


def test_a_shared_page_is_told_of_nothing() -> None:
    """It loads nothing from anywhere: a script named beside it would be asked for in vain, below its own address."""
    assert "link" not in ask("/reports/mine.html").headers
    assert "link" not in ask("/bench/reports/mine.html", base="bench").headers


def test_another_streamlit_names_nothing(tmp_path: Path) -> None:
    """Where there is no such script the header is left out."""
    assert early_scripts(tmp_path, ("Html.",)) == ""
