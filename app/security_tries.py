"""How often one address may guess a password: five times, then once every 15 s. Nobody else has to wait for it."""

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

AT_ONCE = 5
EVERY_S = 15.0
MOST_ADDRESSES = 4096


class Tries:
    """Wrong guesses by address. An IPv6 network of 64 bits counts as one: whoever has one has them all."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._free_at_s: OrderedDict[str, float] = OrderedDict()  # when all tries are there again

    def wait_s(self, address: str) -> float:
        """Seconds until this address may guess again; 0: now."""
        owed_s = self._free_at_s.get(_who(address), 0.0) - self._now_s()
        return max(0.0, owed_s - (AT_ONCE - 1) * EVERY_S)

    def failed(self, address: str) -> None:
        """A wrong guess from there. The oldest addresses are forgotten where there are too many."""
        who = _who(address)
        self._free_at_s[who] = max(self._free_at_s.get(who, 0.0), self._now_s()) + EVERY_S
        self._free_at_s.move_to_end(who)
        while len(self._free_at_s) > MOST_ADDRESSES:
            self._free_at_s.popitem(last=False)

    def passed(self, address: str) -> None:
        """The right password came from there."""
        self._free_at_s.pop(_who(address), None)


def _who(address: str) -> str:
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped or ip_network((ip, 64), strict=False))
    return str(ip)
