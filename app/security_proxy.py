"""What a reverse proxy in front tells: whom it let in, and for whom it asks. Only listed proxies are believed."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import Scope

from runner.errors import ConfigError

NOBODY = "unknown"
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Proxies:
    """`networks`: addresses whose headers are believed. `user_header`: names the person whom the proxy let in, lower
    case; None: proxies let nobody in."""

    networks: tuple[Network, ...] = ()
    user_header: str | None = None

    def believed(self, address: str) -> bool:
        """True for the address of a listed proxy."""
        try:
            ip = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(ip, "ipv4_mapped", None)
        return any((mapped or ip) in network for network in self.networks)

    def has_let_in(self, scope: Scope) -> bool:
        """True when a listed proxy names a person in its header, once."""
        if self.user_header is None or not self.believed(peer(scope)):
            return False
        told = Headers(scope=scope).getlist(self.user_header)
        return len(told) == 1 and bool(told[0].strip())

    def visitor(self, scope: Scope) -> str:
        """The address that asks: of the connection, or the nearest one before listed proxies."""
        address = peer(scope)
        told = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
        for before in reversed(told):
            if not self.believed(address) or not before.strip():
                break
            address = before.strip()
        return address


def peer(scope: Scope) -> str:
    """The address at the other end of the connection."""
    client = scope.get("client")
    return str(client[0]) if client else NOBODY


def proxies_of(environ: Mapping[str, str] = os.environ) -> Proxies:
    """GOODPUT_TRUSTED_PROXIES (addresses or networks) and GOODPUT_TRUSTED_HEADER. Raises ConfigError."""
    networks = tuple(_network(entry) for entry in environ.get("GOODPUT_TRUSTED_PROXIES", "").replace(",", " ").split())
    header = environ.get("GOODPUT_TRUSTED_HEADER", "").strip().lower() or None
    if header and not re.fullmatch(r"[a-z0-9-]+", header):
        raise ConfigError(f"GOODPUT_TRUSTED_HEADER = {header!r} is not the name of a header; write, say, Remote-User")
    if header and not networks:
        raise ConfigError(
            "GOODPUT_TRUSTED_HEADER without GOODPUT_TRUSTED_PROXIES would let everybody in who sends that header; "
            "give the address of your proxy"
        )
    return Proxies(networks, header)


def _network(entry: str) -> Network:
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        raise ConfigError(
            f"GOODPUT_TRUSTED_PROXIES: {entry!r} is no address or network; write 172.18.0.2 or 172.18.0.0/16"
        ) from None
