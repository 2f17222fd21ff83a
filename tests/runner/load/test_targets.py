"""Which addresses may be measured."""

import pytest

from runner.load.targets import allowed_hosts, refusal


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.9", "100.64.0.7", "fd12::1"]
)
def test_this_machine_and_private_networks_are_allowed(address: str) -> None:
    """Loopback, RFC 1918, unique local and carrier-grade (VPN) addresses need no permission."""
    assert refusal("box", address) is None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "fd00:ec2::254",
     "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "224.0.0.1", "ff02::1", "100.100.100.200"],
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
