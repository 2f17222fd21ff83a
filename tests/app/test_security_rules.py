"""The rules before every page, each by itself: names, origins, proxies, tries, headers."""

import hashlib
from base64 import b64encode
from pathlib import Path

import pytest

from app.security_headers import inline_scripts, page_policy
from app.security_origin import host_name, host_refusal, same_origin
from app.security_proxy import Proxies, proxies_of
from app.security_tries import AT_ONCE, EVERY_S, MOST_ADDRESSES, Tries
from runner.errors import ConfigError


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8501", "[::1]:8501", "192.168.1.9", "localhost:8501", "nas", "NAS:8501", "nas.local", "nas.lan:80",
     "nas.home.arpa", "box.tail1234.ts.net", "nas.fritz.box."],
)  # fmt: skip
def test_names_that_only_a_home_network_has_are_answered(host: str) -> None:
    """Addresses, one word, and the endings of home networks: nobody outside can lead them to us."""
    assert host_refusal(host, ()) is None


@pytest.mark.parametrize("host", ["evil.test", "evil.test:8501", "127.0.0.1.evil.test", "local", "x.local.evil.test"])
def test_names_that_anybody_can_register_need_permission(host: str) -> None:
    """A page from elsewhere could lead its name to our address; the sentence says how to allow one's own."""
    if "." in host:
        name = host.partition(":")[0]
        why = host_refusal(host, ("mine.example",))
        assert why is not None
        assert f"GOODPUT_HOSTNAMES={name}" in why
        assert host_refusal(host, (name,)) is None
    assert host_refusal(host, ("*",)) is None


@pytest.mark.parametrize("host", ["", "a b", "nas:port", "nas:99999", "me@nas", "nas/x", "nas'; x", '"nas"', "nas,x"])
def test_what_is_no_host_header_names_nobody(host: str) -> None:
    """It opens nothing, and finds no way into the policy of a page."""
    assert host_name(host) is None
    assert host_refusal(host, ()) is not None
    assert "ws://" not in page_policy(host, ())


def test_a_page_belongs_to_us_by_name_and_port() -> None:
    """Another port of this machine is another program; a port that is usual for the scheme may be left out."""
    assert same_origin("http://nas:8501", "nas:8501")
    assert same_origin("https://goodput.example", "goodput.example")
    assert same_origin("https://nas", "nas:443")
    assert same_origin("http://[::1]:8501", "[::1]:8501")
    for origin in ("http://nas:3000", "http://localhost:8501", "null", "", "file://", "http://evil.test:8501"):
        assert not same_origin(origin, "nas:8501")
    assert not same_origin("http://nas", "nas:443")
    assert not same_origin("http://nas:99999", "nas")


def scope(peer: str, *headers: tuple[str, str]) -> dict[str, object]:
    """An ASGI scope as far as proxies matter."""
    return {"client": (peer, 4711), "headers": [(k.lower().encode(), v.encode()) for k, v in headers]}


def test_only_a_listed_proxy_can_let_somebody_in() -> None:
    """Its header counts once and not empty; the same header from anybody else does not."""
    proxies = proxies_of({"GOODPUT_TRUSTED_HEADER": "Remote-User", "GOODPUT_TRUSTED_PROXIES": "172.18.0.0/16, fd00::5"})
    assert proxies.has_let_in(scope("172.18.0.2", ("Remote-User", "me")))
    assert proxies.has_let_in(scope("::ffff:172.18.0.2", ("Remote-User", "me")))
    assert proxies.has_let_in(scope("fd00::5", ("remote-user", "me")))
    assert not proxies.has_let_in(scope("192.168.1.5", ("Remote-User", "me")))
    assert not proxies.has_let_in(scope("172.18.0.2"))
    assert not proxies.has_let_in(scope("172.18.0.2", ("Remote-User", " ")))
    assert not proxies.has_let_in(scope("172.18.0.2", ("Remote-User", "me"), ("Remote-User", "admin")))
    assert not Proxies().has_let_in(scope("127.0.0.1", ("Remote-User", "me")))


def test_the_visitor_is_the_nearest_address_before_listed_proxies() -> None:
    """What a visitor writes into X-Forwarded-For stands before it and is not believed."""
    proxies = proxies_of({"GOODPUT_TRUSTED_PROXIES": "172.18.0.2 172.18.0.3"})
    told = ("X-Forwarded-For", "1.1.1.1, 192.168.1.7, 172.18.0.3")
    assert proxies.visitor(scope("172.18.0.2", told)) == "192.168.1.7"
    assert proxies.visitor(scope("192.168.1.8", told)) == "192.168.1.8"
    assert proxies.visitor(scope("172.18.0.2")) == "172.18.0.2"
    assert proxies.visitor({"headers": []}) == "unknown"


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"GOODPUT_TRUSTED_HEADER": "Remote-User"}, "GOODPUT_TRUSTED_PROXIES"),
        ({"GOODPUT_TRUSTED_HEADER": "Remote User", "GOODPUT_TRUSTED_PROXIES": "10.0.0.1"}, "name of a header"),
        ({"GOODPUT_TRUSTED_PROXIES": "my-proxy"}, "no address or network"),
    ],
)
def test_a_trusted_header_without_a_proxy_or_with_slips_is_refused_at_start(environ: dict[str, str], word: str) -> None:
    """A dashboard that anybody could open with one header never starts."""
    with pytest.raises(ConfigError, match=word):
        proxies_of(environ)


def test_five_guesses_at_once_then_one_every_fifteen_seconds() -> None:
    """Only the address that guesses waits, and the right password makes its slate clean."""
    now = [1000.0]
    tries = Tries(lambda: now[0])
    for _ in range(AT_ONCE):
        assert tries.wait_s("192.168.1.5") == 0
        tries.failed("192.168.1.5")
    assert tries.wait_s("192.168.1.5") == EVERY_S
    assert tries.wait_s("192.168.1.6") == 0
    now[0] += EVERY_S
    assert tries.wait_s("192.168.1.5") == 0
    tries.failed("192.168.1.5")
    assert tries.wait_s("192.168.1.5") == EVERY_S
    tries.passed("192.168.1.5")
    assert tries.wait_s("192.168.1.5") == 0


def test_neighbouring_addresses_of_one_network_guess_together() -> None:
    """An IPv6 network of 64 bits is one guesser; an IPv4 address in IPv6 clothes is itself."""
    tries = Tries(lambda: 0.0)
    for i in range(AT_ONCE):
        tries.failed(f"2001:db8::{i:x}")
    assert tries.wait_s("2001:db8::ffff%eth0") > 0
    assert tries.wait_s("2001:db8:0:1::1") == 0
    for _ in range(AT_ONCE):
        tries.failed("::ffff:10.0.0.7")
    assert tries.wait_s("10.0.0.7") > 0


def test_many_guessers_take_little_memory() -> None:
    """Beyond some thousand addresses the oldest is forgotten."""
    tries = Tries(lambda: 0.0)
    for i in range(MOST_ADDRESSES + 10):
        tries.failed(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}")
    assert len(tries._free_at_s) == MOST_ADDRESSES


def test_a_policy_lets_only_the_page_s_own_script_run(tmp_path: Path) -> None:
    """Scripts written into the page are named by their hash: no other text becomes one, and nothing is evaluated."""
    page = tmp_path / "index.html"
    page.write_bytes(b"<script>\n  one()\n</script><script src=x></script><script>two</script>")
    hashes = inline_scripts(page)
    digests = [hashlib.sha256(s).digest() for s in (b"\n  one()\n", b"two")]
    assert list(hashes) == [f"'sha256-{b64encode(d).decode()}'" for d in digests]
    policy = dict(part.split(" ", 1) for part in page_policy("nas:8501", hashes).split("; "))
    assert policy["script-src"] == f"'self' {hashes[0]} {hashes[1]}"
    assert policy["connect-src"] == "'self' blob: data: ws://nas:8501 wss://nas:8501"
    assert (policy["default-src"], policy["object-src"]) == ("'self'", "'none'")
