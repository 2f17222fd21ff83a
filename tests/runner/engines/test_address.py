"""URLs as users have them lead to the same server; a port is free exactly when a server could listen on it."""

import socket

import pytest

from runner.engines.address import host_and_port, is_web_address, port_is_taken, same_origin, server_root


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://box:8080", "http://box:8080"),
        ("http://box:8080/", "http://box:8080"),
        ("http://box:8080/v1", "http://box:8080"),
        ("http://box:8080/v1/", "http://box:8080"),
        ("http://box:8080/v1/chat/completions", "http://box:8080"),
        ("https://box/llm/v1", "https://box/llm"),
        ("http://box:11434/api/chat", "http://box:11434"),
        ("http://box:11434/api/", "http://box:11434"),
        ("http://box/llm/completion", "http://box/llm"),
        ("http://box:3000/generate_stream", "http://box:3000"),
        ("HTTP://box:8080/v1", "http://box:8080"),
        (" box:8080/v1 ", "http://box:8080"),
        ("box:8080", "http://box:8080"),
        ("http://[::1]:8080/v1?x=1#y", "http://[::1]:8080"),
    ],
)
def test_root_is_found_from_any_form_of_the_url(url: str, root: str) -> None:
    """With or without /v1, a trailing slash, a sub-path, a scheme, an endpoint of any dialect."""
    assert server_root(url) == root


@pytest.mark.parametrize(
    "url", ["http://box:8080/v1/", "https://box", "box:11434", "localhost", "http://[::1]:8080", " http://box "]
)
def test_addresses_as_users_have_them_are_taken(url: str) -> None:
    """A scheme may be missing; a name, an IPv4 or an IPv6 address, any path."""
    assert is_web_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "http://", "ftp://box", "http://box:99999", "http://box:0", "http://box:-1", "http://box:x", "http://[::1",
        "my box", "http://my box", "http://\n", "\0",
    ],
)  # fmt: skip
def test_what_is_no_address_is_told_apart(url: str) -> None:
    """Port 99999 is 34463 to a socket: somebody else's server would be measured."""
    assert not is_web_address(url)


def test_default_ports_belong_to_the_origin() -> None:
    """http is port 80, https 443; another port or scheme is another origin, another path is not."""
    assert host_and_port("https://box/v1") == ("box", 443)
    assert same_origin("http://box/metrics", "http://box:80/v1")
    assert not same_origin("http://box:8080/metrics", "http://box:8081/v1")
    assert not same_origin("http://box/metrics", "https://box/v1")


def test_a_listener_takes_a_port_and_a_closed_connection_does_not() -> None:
    """TIME_WAIT left behind by a dead server must not delay the next one by a minute."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = listener.accept()
        assert port_is_taken("127.0.0.1", port)
        served.close()  # the server's side closes first, so its port stays in TIME_WAIT
        client.close()
    assert not port_is_taken("127.0.0.1", port)
    assert not port_is_taken("localhost", port)
