"""Streamlit's own scripts as we hand them out: whole, packed for networks, Plotly's named before it is asked for."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send
from streamlit import file_util

import app.static_files
from app.static_files import FOREVER, WholeFiles, early_scripts

STATIC = Path(file_util.get_static_dir()) / "static"
PLOTLY = next((STATIC / "js").glob("PlotlyChart.*.js"))
INDEX = (STATIC.parent / "index.html").read_text(encoding="utf-8")
STYLES = next((STATIC / "css").glob("index.*.css"))


async def streamlit(scope: Scope, receive: Receive, send: Send) -> None:
    """Stands where Streamlit would answer: packed, where that is asked for, and with what lets a browser keep it."""
    headers = {"etag": '"1"', "last-modified": "Sun, 29 Nov 2026 17:55:29 GMT"}
    page = HTMLResponse("<body>Streamlit</body>", headers=headers)
    await GZipMiddleware(page, minimum_size=1)(scope, receive, send)


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


def named(path: str) -> list[str]:
    """The scripts that a page under `/bench` names before it needs them, as addresses."""
    told = ask(path, base="bench").headers["link"]
    found = re.findall("<([^>]*)>", told)
    assert told.count("rel=modulepreload") == len(found)
    return [str(httpx.URL(f"http://nas{path}").join(name)) for name in found]


def test_pages_name_early_what_they_need_late() -> None:
    """What they name is there, seen from the page's address, with all that it needs in turn; the page with targets to
    move names what these are drawn with. Plotly's script is not among them: it would run before the words are shown."""
    first, results = named("/bench"), named("/bench/results?sweep=x")
    assert {u.split("/")[-1].split(".")[0] for u in first} == {"Html", "purify"}
    assert {"Html", "Slider", "Selectbox"} <= {u.split("/")[-1].split(".")[0] for u in results}
    assert not any("Plotly" in u for u in results)
    own = {u.split("/")[-1] for u in results}
    for address in results:
        script = ask(httpx.URL(address).path, base="bench")
        assert script.headers["cache-control"] == FOREVER
        missing = set(re.findall(r'from"\./([^"]+)"', script.text)) - own
        assert all(name in INDEX for name in missing)  # every page loads these by itself


@pytest.mark.parametrize("base", ["", "bench"])
def test_pages_bring_our_styles_behind_streamlits_own(base: str) -> None:
    """The last thing in the body, so that they overrule what is above them; packed or not, the page has its length, and
    nobody keeps a page that names the styles of an older version."""
    answer = ask(f"/{base}", base=base, **{"Accept-Encoding": "gzip"})
    (name,) = re.findall('<link rel="stylesheet" href="./([^"]*)"></body>', answer.text)
    assert answer.text == f'<body>Streamlit<link rel="stylesheet" href="./{name}"></body>'
    assert answer.headers["content-length"] == str(len(answer.content))
    assert not {"etag", "last-modified"} & set(answer.headers)
    styles = ask(f"/{base}/{name}".replace("//", "/"), base=base)
    assert styles.content == (Path(app.static_files.__file__).with_name("pages.css")).read_bytes()
    assert styles.headers["content-type"].startswith("text/css")


def test_a_page_whose_head_alone_is_asked_for_has_no_body() -> None:
    """It keeps its type, and gets no length of a body that is not sent."""
    answer = ask("/", method="HEAD")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers.get("content-length") != "0"


@pytest.mark.parametrize("path", ["/static/js/..%2f..%2findex.html", "/static/../index.html", "/static/x.js", "/new"])
def test_what_is_no_file_of_theirs_is_left_to_streamlit(path: str) -> None:
    """Nothing but a name out of the folder's list is read."""
    assert "Streamlit" in ask(path).text


def test_parts_and_other_methods_are_left_to_streamlit() -> None:
    """A part of a file, and what is no reading."""
    assert ask(f"/static/js/{PLOTLY.name}", Range="bytes=0-9").text.startswith("<body>Streamlit")
    assert ask(f"/static/js/{PLOTLY.name}", method="POST").text.startswith("<body>Streamlit")
    assert ask(f"/static/js/{PLOTLY.name}", method="HEAD").headers["content-length"] == str(PLOTLY.stat().st_size)


def test_a_shared_page_is_told_of_nothing() -> None:
    """It loads nothing from anywhere: a script named beside it would be asked for in vain, below its own address."""
    assert "link" not in ask("/reports/mine.html").headers
    assert "link" not in ask("/bench/reports/mine.html", base="bench").headers


def test_another_streamlit_names_nothing(tmp_path: Path) -> None:
    """Where there is no such script the header is left out."""
    assert early_scripts(tmp_path, ("Html.",)) == ""
