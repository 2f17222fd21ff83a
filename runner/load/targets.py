"""Which addresses may be measured: this machine and private networks, checked on the resolved address."""

import os
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from runner.environment import in_container

DOCKER_HOST = "host.docker.internal"  # this host, seen from inside a container
PRIVATE = tuple(
    ip_network(n)
    for n in (
        "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "0.0.0.0/32",
        "::1/128", "::/128", "fc00::/7",
    )
)  # fmt: skip
# link-local, multicast and the metadata services of cloud machines: never, whatever is allowed beside
NEVER = tuple(
    ip_network(n)
    for n in (
        "169.254.0.0/16", "fe80::/10", "224.0.0.0/4", "255.255.255.255/32", "ff00::/8",
        "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128",
    )
)  # fmt: skip
# an IPv4 address stands in the last 32 bits: NAT64, its local prefix, and the old "compatible" form
EMBEDDED = tuple(ip_network(n) for n in ("64:ff9b::/96", "64:ff9b:1::/96", "::/96"))
OWN = (IPv6Address("::"), IPv6Address("::1"))


def allowed_hosts(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Names, addresses and networks of GOODPUT_ALLOW_HOSTS (separated by commas or spaces), lower case."""
    return tuple(environ.get("GOODPUT_ALLOW_HOSTS", "").replace(",", " ").lower().split())


def refusal(host: str, address: str, allowed: tuple[str, ...] = ()) -> str | None:
    """None when `host`, resolved to `address`, may be connected to; else one sentence why not."""
    ip = _plain(ip_address(address.partition("%")[0]))
    if any(ip in net for net in NEVER):
        return f"{host} ({address}) is a link-local, multicast or metadata address and is never contacted"
    if any(ip in net for net in PRIVATE) or host.lower() in allowed or any(_names(entry, ip) for entry in allowed):
        return None
    return f"{host} ({address}) is not a private address; add {host} to GOODPUT_ALLOW_HOSTS to measure it"


@cache
def container_hint(host: str) -> str:
    """What to write instead of localhost inside a container, to stand behind a reason; empty elsewhere."""
    if host not in ("localhost", "127.0.0.1", "::1") or not in_container():
        return ""
    return f"; inside a container that is the container itself: a server on its host is {DOCKER_HOST}"


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address in IPv6 clothes is judged as what it is."""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip.sixtofour is not None:
            return ip.sixtofour
        if ip not in OWN and any(ip in net for net in EMBEDDED):
            return IPv4Address(int(ip) & 0xFFFFFFFF)
        if ip.teredo is not None:  # the machine behind the relay
            return ip.teredo[1]
    return ip


def _names(entry: str, ip: IPv4Address | IPv6Address) -> bool:
    try:
        return ip in ip_network(entry, strict=False)
    except ValueError:
        return False
