"""Who may come in, asked of the middleware itself: cookie, form, Basic, guesses, proxies, websockets."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.password import COOKIE
from app.security import guards
from app.security_tries import AT_ONCE

PASSWORD = "öpen sesame"
PATHS = (
    "/",
    "/new",
    "/reports/x.html",
    "/media/x.bin",
    "/_stcore/upload_file/a/b",
    "/_stcore/host-config",
    "/static/x",
)
PAGE = {"Accept": "text/html,*/*"}


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    """What is guarded: tells that it was reached, and accepts every websocket."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
    else:
        body = await Request(scope, receive).body()
        await PlainTextResponse(f"inside {scope['path']} {len(body)}")(scope, receive, send)


def guarded(base: str = "", **environ: str) -> ASGIApp:
    """`inside` behind everything that the environment asks for."""
    app: ASGIApp = inside
    for middleware in reversed(guards(base, environ)):
        app = middleware.cls(app, *middleware.args, **middleware.kwargs)
    return app


Ask = Callable[..., httpx.Response]


def asking(app: ASGIApp) -> Ask:
    """A function that sends one request: method, path, and `peer` as the address it comes from."""

    def ask(method: str, path: str, *, peer: str = "192.168.1.5", **more: object) -> httpx.Response:
        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app, client=(peer, 4711))
            async with httpx.AsyncClient(transport=transport, base_url="http://nas:8501") as client:
                return await client.request(method, path, **more)  # type: ignore[arg-type]

        return asyncio.run(go())

    return ask


def websocket(app: ASGIApp, *headers: tuple[str, str], peer: str = "192.168.1.5") -> str:
    """The type of the first message that answers a websocket."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "websocket", "path": "/_stcore/stream", "query_string": b"", "client": (peer, 4711), "scheme": "ws",
        "headers": [(b"host", b"nas:8501"), *((k.lower().encode(), v.encode()) for k, v in headers)],
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return str(sent[0]["type"])


def basic(password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'me:{password}'.encode()).decode()}"}


@pytest.fixture
def app() -> ASGIApp:
    return guarded(GOODPUT_PASSWORD=PASSWORD)


@pytest.fixture
def ask(app: ASGIApp) -> Ask:
    return asking(app)


def logged_in(ask: Ask, path: str = "/") -> str:
    """The cookie that the form gives for the right password."""
    answer = ask("POST", path, data={"password": PASSWORD}, headers=PAGE)
    assert answer.status_code == 303
    return answer.headers["set-cookie"]


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_open_without_the_password(ask: Ask, app: ASGIApp, path: str) -> None:
    """Pages, reports, media, uploads and the websocket refuse alike; scripts are told how to send it."""
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        answer = ask(method, path)
        assert answer.status_code == 401
        assert "inside" not in answer.text
        assert answer.headers["www-authenticate"].startswith("Basic ")
    assert websocket(app) == "websocket.close"
    assert ask("GET", "/healthz").text.startswith("inside")


@pytest.mark.parametrize("path", ["/", "/results?sweep=a%26b&cell=3"])
def test_the_form_leads_to_the_page_that_was_wanted(ask: Ask, app: ASGIApp, path: str) -> None:
    """A browser sees one field; the right word gives a cookie, with which everything is open, the websocket too."""
    shown = ask("GET", path, headers=PAGE)
    assert (shown.status_code, "www-authenticate" in shown.headers) == (401, False)
    assert re.search(r'<input id="password" name="password" type="password"', shown.text)
    assert "<script" not in shown.text
    assert shown.headers["content-security-policy"].startswith("default-src 'none'")
    answer = ask("POST", path, data={"password": PASSWORD}, headers={**PAGE, "Origin": "http://nas:8501"})
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    cookie = answer.headers["set-cookie"]
    assert cookie.partition("; ")[2] == "Path=/; HttpOnly; SameSite=Lax"
    key = {"Cookie": cookie.partition(";")[0]}
    for one in PATHS:
        assert ask("GET", one, headers=key).text.startswith(f"inside {one}")
    assert ask("PUT", PATHS[4], headers=key, content=b"abc").text == f"inside {PATHS[4]} 3"
    assert websocket(app, ("Cookie", key["Cookie"])) == "websocket.accept"


def test_wrong_and_forged_words_stay_out(ask: Ask, app: ASGIApp) -> None:
    """A wrong word, a made-up cookie, a cookie of another start, Basic that is none."""
    assert ask("POST", "/", data={"password": "guess"}, headers=PAGE).status_code == 401
    other = logged_in(asking(guarded(GOODPUT_PASSWORD=PASSWORD))).partition(";")[0]
    for wrong in (
        {"Cookie": f"{COOKIE}=x"}, {"Cookie": f"{COOKIE}="}, {"Cookie": other}, {"Cookie": "a=;;;\x01"},
        {"Authorization": "Basic ???"}, {"Authorization": "Basic /w=="}, {"Authorization": "Bearer sesame"},
        basic("guess"), basic(PASSWORD[:-1]), basic(""),
    ):  # fmt: skip
        assert ask("GET", "/", headers=wrong, peer="10.0.0.1").status_code == 401
    assert websocket(app, ("Cookie", other)) == "websocket.close"


def test_scripts_may_send_it_with_every_request(ask: Ask) -> None:
    """Basic with any name, right away."""
    for _ in range(2 * AT_ONCE):
        answer = ask("GET", "/reports/x.html", headers=basic(PASSWORD))
        assert answer.text.startswith("inside")
        assert answer.headers["set-cookie"].startswith(f"{COOKIE}=")


def test_who_guesses_waits_and_nobody_else(ask: Ask) -> None:
    """After five wrong words even the right one has to wait at that address; others and those inside do not notice."""
    cookie = {"Cookie": logged_in(ask).partition(";")[0]}
    for i in range(AT_ONCE):
        how: dict[str, Any] = {"headers": basic(f"guess {i}")} if i % 2 else {"data": {"password": f"guess {i}"}}
        assert ask("POST" if "data" in how else "GET", "/", **how).status_code == (401 if i < AT_ONCE - 1 else 429)
    for told in ({"headers": basic(PASSWORD)}, {"headers": PAGE, "data": {"password": PASSWORD}}):
        answer = ask("POST" if "data" in told else "GET", "/", **told)  # type: ignore[arg-type]
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 15
        assert "inside" not in answer.text
    assert ask("GET", "/", headers=cookie).text.startswith("inside")
    assert ask("GET", "/", headers=PAGE).status_code == 401
    assert ask("GET", "/", headers=basic(PASSWORD), peer="192.168.1.6").text.startswith("inside")


def test_no_form_of_another_page_and_no_large_one_is_read(ask: Ask) -> None:
    """A page from elsewhere cannot log somebody in, and nobody can fill the memory with a password."""
    foreign = {"Origin": "http://evil.test", **PAGE}
    assert ask("POST", "/", data={"password": PASSWORD}, headers=foreign).status_code == 403
    assert ask("POST", "/", data={"password": "x" * 5000}, headers=PAGE).status_code == 413


@pytest.mark.parametrize("path", ["//evil.test/a", "/\\evil.test", "///evil.test"])
def test_the_way_back_never_leads_elsewhere(ask: Ask, path: str) -> None:
    """A link with two slashes would be another host after the redirect."""
    answer = ask("POST", httpx.URL("http://nas:8501").copy_with(raw_path=path.encode()), data={"password": PASSWORD})
    assert re.match(r"/[^/\\]", answer.headers["location"])


def test_the_cookie_knows_sub_path_and_encryption() -> None:
    """Below a path other programs of the host do not get it, and behind https it never goes out in the clear."""
    ask = asking(guarded("bench", GOODPUT_PASSWORD=PASSWORD))
    told = logged_in(ask, "/bench/")
    assert "Path=/bench;" in told
    answer = ask("POST", "/bench/", data={"password": PASSWORD}, headers={"X-Forwarded-Proto": "https"})
    assert answer.headers["set-cookie"].endswith("; Secure")


def test_the_form_speaks_the_browser_s_language_and_escapes(ask: Ask) -> None:
    """An unknown language is English; a header that is no language does no harm."""
    for language in ("xx", "../../etc", "<b>", "e"):
        shown = ask("GET", "/", headers={**PAGE, "Accept-Language": language})
        assert ("This dashboard is locked." in shown.text, "<b>" in shown.text) == (True, False)


def test_a_trusted_proxy_lets_in_whom_it_names() -> None:
    """With the header alone nobody needs a password through the proxy, and nobody comes in beside it."""
    app = guarded(GOODPUT_TRUSTED_HEADER="Remote-User", GOODPUT_TRUSTED_PROXIES="172.18.0.2")
    ask = asking(app)
    named = {"Remote-User": "me"}
    assert ask("GET", "/", headers=named, peer="172.18.0.2").text.startswith("inside")
    assert websocket(app, ("Remote-User", "me"), peer="172.18.0.2") == "websocket.accept"
    for peer, headers in (("172.18.0.2", {}), ("192.168.1.5", named), ("192.168.1.5", basic(""))):
        assert ask("GET", "/", headers=headers, peer=peer).status_code == 403
        assert websocket(app, *headers.items(), peer=peer) == "websocket.close"
    both = asking(guarded(GOODPUT_PASSWORD=PASSWORD, GOODPUT_TRUSTED_HEADER="X-U", GOODPUT_TRUSTED_PROXIES="10.0.0.1"))
    assert both("GET", "/", headers={"X-U": "me"}, peer="10.0.0.1").text.startswith("inside")
    assert both("GET", "/", headers=basic(PASSWORD)).text.startswith("inside")
    assert both("GET", "/", headers={"X-U": "me"}).status_code == 401


def test_guesses_through_a_trusted_proxy_count_for_the_guesser() -> None:
    """Behind a proxy one guesser does not keep the whole household out."""
    ask = asking(guarded(GOODPUT_PASSWORD=PASSWORD, GOODPUT_TRUSTED_PROXIES="10.0.0.1"))
    for _ in range(AT_ONCE + 1):
        ask("GET", "/", headers={**basic("guess"), "X-Forwarded-For": "192.168.1.66"}, peer="10.0.0.1")
    for visitor, status in (("192.168.1.66", 429), ("9.9.9.9, 192.168.1.66", 429), ("192.168.1.7", 200)):
        answer = ask("GET", "/", headers={**basic(PASSWORD), "X-Forwarded-For": visitor}, peer="10.0.0.1")
        assert answer.status_code == status


def test_an_open_dashboard_answers_to_names_of_the_home_network_only() -> None:
    """Without a password a page whose name was led to our address gets nothing; with one it has no cookie anyway."""
    rebound = {"Host": "evil.test:8501"}
    ask = asking(guarded())
    assert ask("GET", "/").text.startswith("inside")
    refused = ask("GET", "/", headers=rebound)
    assert (refused.status_code, "GOODPUT_HOSTNAMES=evil.test" in refused.text) == (403, True)
    assert ask("GET", "/healthz", headers=rebound).status_code == 200
    allowed = asking(guarded(GOODPUT_HOSTNAMES="Other.example, evil.test"))
    assert allowed("GET", "/", headers=rebound).text.startswith("inside")
    assert asking(guarded(GOODPUT_PASSWORD=PASSWORD))("GET", "/", headers=rebound).status_code == 401


@pytest.mark.parametrize("origin", ["http://evil.test", "http://nas:3000", "http://localhost:8501", "null"])
def test_pages_from_elsewhere_may_not_talk_to_it(origin: str) -> None:
    """Not by websocket, not by upload, not even from another port of the same machine."""
    app = guarded()
    assert websocket(app, ("Origin", origin)) == "websocket.close"
    assert websocket(app, ("Origin", "http://nas:8501")) == "websocket.accept"
    assert websocket(app) == "websocket.accept"
    assert asking(app)("PUT", PATHS[4], headers={"Origin": origin}).status_code == 403
    assert asking(app)("PUT", PATHS[4], headers={"Origin": "http://nas:8501"}).status_code == 200


def test_a_proxy_that_drops_the_upgrade_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The websocket's address asked for as a page: the answer says what is missing, the log says it one time."""
    ask = asking(guarded("bench"))
    for _ in range(3):
        answer = ask("GET", "/bench/_stcore/stream")
        assert (answer.status_code, "Upgrade and Connection" in answer.text) == (426, True)
    assert capsys.readouterr().err.count("Upgrade and Connection") == 1


def test_every_answer_carries_the_headers_that_keep_it_here(ask: Ask) -> None:
    """Refusals too; what an answer says itself stays."""
    for answer in (ask("GET", "/"), ask("GET", "/healthz"), ask("GET", "/", headers=basic(PASSWORD))):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "SAMEORIGIN"
        assert answer.headers["referrer-policy"] == "same-origin"
