"""Which addresses may be measured."""

import asyncio
import socket
from typing import Any

import httpx
import pytest

from runner.engines.address import port_is_taken
from runner.engines.catalogue import KINDS
from runner.engines.proof import read_page
from runner.engines.readiness import wait_until_ready
from runner.errors import SettingFailed
from runner.load.targets import allowed_hosts, refusal
from runner.load.transport import StampedTransport
from tests.support.scripted_http import serving


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.9", "100.64.0.7", "fd12::1"]
)
def test_this_machine_and_private_networks_are_allowed(address: str) -> None:
    """Loopback, RFC 1918, unique local and carrier-grade (VPN) addresses need no permission."""
    assert refusal("box", address) is None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "fd00:ec2::254",
     "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "::169.254.169.254", "2001:0:a00:1::5601:5601", "2002:a9fe:a9fe::1",
     "224.0.0.1", "ff02::1", "100.100.100.200"],
)  # fmt: skip
def test_link_local_and_metadata_addresses_are_never_allowed(address: str) -> None:
    """No permission opens link-local, multicast and metadata addresses, in whatever notation."""
    reason = refusal("box", address, ("box", "0.0.0.0/0", "::/0", address))
    assert reason is not None
    assert "never contacted" in reason


def test_public_addresses_need_permission_by_name_address_or_network() -> None:
    """A public address is refused with the mend in the sentence, and allowed by each way of naming it."""
    reason = refusal("llm.example", "203.0.113.5")
    assert reason is not None
    assert "GOODPUT_ALLOW_HOSTS" in reason
    for entry in ("llm.example", "203.0.113.5", "203.0.113.0/24"):
        assert refusal("LLM.example", "203.0.113.5", (entry,)) is None
    assert refusal("other.example", "198.51.100.1", ("llm.example", "203.0.113.0/24")) is not None


def test_allowed_hosts_are_read_from_the_environment() -> None:
    """GOODPUT_ALLOW_HOSTS is a list separated by commas or spaces."""
    assert allowed_hosts({"GOODPUT_ALLOW_HOSTS": "A.example, 203.0.113.0/24 b"}) == ("a.example", "203.0.113.0/24", "b")
    assert allowed_hosts({}) == ()


EVIL = "evil.example"
METADATA = "169.254.169.254"


async def connect_error(url: str, allow: tuple[str, ...] = ()) -> str:
    """What the client says instead of connecting."""
    async with httpx.AsyncClient(transport=StampedTransport(allow=allow), trust_env=False) as client:
        try:
            await client.get(url)
        except httpx.TransportError as e:
            return str(e)
    raise AssertionError("it was contacted")


@pytest.mark.parametrize(
    "spelling",
    ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0xa9.254.0251.254", "[::ffff:a9fe:a9fe]",
     "[::ffff:169.254.169.254]", "169.254.169.254."],
)  # fmt: skip
def test_other_spellings_of_an_address_are_the_address(spelling: str) -> None:
    """Decimal, hexadecimal, octal and shortened forms are judged by where the system would connect to."""
    try:
        told = asyncio.run(connect_error(f"http://{spelling}:9/v1"))
    except httpx.InvalidURL:
        return  # never a name for anybody
    assert "never contacted" in told or "cannot connect" in told
    assert "refused" not in told


class Rebinding:
    """A name server whose answer for EVIL changes with every question; all other names are left alone."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = 0
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if host != EVIL:
            return self._real(host, port, *args, **kwargs)
        address = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]


def test_an_answer_of_the_name_server_is_checked_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was harmless a moment ago and leads to a metadata service now is not contacted, whoever asks."""
    connected: list[Any] = []

    async def sock_connect(self: object, sock: socket.socket, address: Any) -> None:  # noqa: ANN401
        connected.append(address[0])
        raise ConnectionRefusedError

    async def look() -> str:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(type(loop), "sock_connect", sock_connect)
        return await connect_error(f"http://{EVIL}:9/", allow=(EVIL,))

    monkeypatch.setattr(socket, "getaddrinfo", Rebinding(METADATA))
    assert "never contacted" in asyncio.run(look())
    assert connected == []


def test_a_server_that_is_waited_for_is_looked_at_again_with_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer passes the check, the second leads to a metadata service: no connection is made to it."""
    names = Rebinding("127.0.0.1", METADATA)
    monkeypatch.setattr(socket, "getaddrinfo", names)
    with pytest.raises(SettingFailed) as told:
        asyncio.run(wait_until_ready(f"http://{EVIL}:9", KINDS["openai"], None, 0.2, alive=_alive))
    assert names.asked >= 2
    assert "never contacted" in str(told.value)


async def _alive() -> None:
    return None


def test_pages_and_ports_of_addresses_that_are_never_contacted_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metrics page elsewhere, and the look whether somebody listens, follow the same rule as requests."""
    made: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda where, **_: made.append(where))
    monkeypatch.setattr(socket, "getaddrinfo", Rebinding(METADATA))
    assert not port_is_taken(EVIL, 80)
    assert not port_is_taken(METADATA, 80)
    assert made == []
    assert asyncio.run(read_page(f"http://{METADATA}/latest", None)) is None
    assert asyncio.run(read_page(f"http://{EVIL}/metrics", None)) is None


def test_a_page_of_a_server_here_is_read() -> None:
    """The same way to the page leads on where it may."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")

    async def run() -> str | None:
        async with serving(play) as url:
            return await read_page(url, None)

    assert asyncio.run(run()) == "up"
