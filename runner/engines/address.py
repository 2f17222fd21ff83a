"""A server's URL and port: the root of its paths, who listens there, whether the port is free."""

import contextlib
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

import httpx
import psutil

from runner.load.targets import allowed_hosts, refusal
from runner.protocols.dialects import without_endpoint
from runner.web_address import with_scheme


def is_web_address(url: str) -> bool:
    """True for http:// and https:// with a host, and a port between 1 and 65535 if one is given. The scheme may be
    left out. Sockets take port 99999 as 34463 and 0 as none, so a slip would measure somebody else."""
    url = with_scheme(url)
    if any(c.isspace() for c in url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(httpx.URL(parts.geturl()).host) and parts.port != 0
    except (httpx.InvalidURL, ValueError):
        return False


def server_root(url: str) -> str:
    """The URL as users have it at hand without a trailing slash, an endpoint of any dialect, /v1 or what follows it."""
    parts = urlsplit(with_scheme(url))
    path = without_endpoint(parts.path)
    path = path.partition("/v1/")[0] if "/v1/" in path else path.removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(with_scheme(url))
    return parts.hostname or "127.0.0.1", parts.port or (443 if parts.scheme == "https" else 80)


def same_origin(a: str, b: str) -> bool:
    """True when a key meant for `a` may also go to `b`."""
    one, two = urlsplit(a), urlsplit(b)
    return (one.scheme, *host_and_port(a)) == (two.scheme, *host_and_port(b))


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as s:
        s.bind((host, 0))
        return int(s.getsockname()[1])


def port_is_taken(host: str, port: int) -> bool:
    """On this machine: does someone listen there (a closing connection's leftover does not count)? Elsewhere: does
    someone answer?"""
    try:
        found = {
            (family, str(addr[0])) for family, _, _, _, addr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        }
    except OSError:
        return False
    local = [(f, a) for f, a in found if _is_mine(a)]
    return (
        any(_refuses_bind(f, a, port) for f, a in local) if local else _answers(host, sorted(a for _, a in found), port)
    )


def is_local(host: str) -> bool:
    """Whether the host is this machine, so that its listener can be looked up."""
    try:
        return any(_is_mine(str(addr[0])) for *_, addr in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except OSError:
        return False


def _is_mine(address: str) -> bool:
    mine = {a.address.partition("%")[0] for addresses in psutil.net_if_addrs().values() for a in addresses}
    return address in mine or address.startswith("127.") or address in ("0.0.0.0", "::")


def _refuses_bind(family: int, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: past TIME_WAIT, not past a listener
        try:
            s.bind((address, port))
            s.listen(1)
        except OSError:
            return True
        return False


def _answers(host: str, addresses: Sequence[str], port: int) -> bool:
    """Whether one of the addresses takes a connection; those that may not be contacted are not."""
    for address in addresses:
        with contextlib.suppress(OSError):
            if refusal(host, address, allowed_hosts()) is None:
                socket.create_connection((address, port), timeout=1.0).close()
                return True
    return False


def listener_of(port: int) -> psutil.Process | None:
    """The process that listens on the port of this machine; null where the system does not tell."""
    try:
        found = psutil.net_connections(kind="tcp")
        pids = [c.pid for c in found if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == port and c.pid]
        return psutil.Process(pids[0]) if pids else None
    except (psutil.Error, OSError):
        return None


def listener_name(port: int) -> str:
    """Words for a message: "llama-server, process 4711" or "another program"."""
    process = listener_of(port)
    try:
        return f"{process.name()}, process {process.pid}" if process else "another program"
    except psutil.Error:
        return "another program"
