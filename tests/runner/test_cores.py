"""Cores that may be used, with and without a container's quota."""

from pathlib import Path

import pytest

from runner import cores
from runner.cores import affinity_cores, cgroup_cpu_limit, cpu_limit_cores, usable_cores


@pytest.mark.parametrize(
    ("cpu_max", "limit"),
    [
        ("max 100000\n", None), ("150000 100000\n", 1.5), ("", None), ("5 0", None), ("-1 100000", None), (" ", None),
        ("0 100000", None), ("50000 100000", 0.5), ("200000", None), ("x y", None),
    ],
)  # fmt: skip
def test_a_quota_is_given_in_cores(cpu_max: str, limit: float | None) -> None:
    """Quota over period; no quota (`max`, -1), no file and nonsense are no limit."""
    assert cgroup_cpu_limit(cpu_max) == limit


def test_the_quota_is_read_from_either_version_of_cgroups(tmp_path: Path) -> None:
    """Version 2 writes both numbers in one file, version 1 each in its own; without files there is no limit."""
    assert cpu_limit_cores(tmp_path) is None
    first = tmp_path / "cpu,cpuacct"
    first.mkdir()
    (first / "cpu.cfs_quota_us").write_text("-1\n")
    (first / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_limit_cores(tmp_path) is None
    (first / "cpu.cfs_quota_us").write_text("250000\n")
    assert cpu_limit_cores(tmp_path) == 2.5
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert cpu_limit_cores(tmp_path) == 1.0


@pytest.mark.parametrize(("affinity", "limit", "usable"), [(8, None, 8), (8, 2.9, 2), (8, 0.5, 1), (2, 16.0, 2)])
def test_cores_are_bounded_by_the_quota(
    monkeypatch: pytest.MonkeyPatch, affinity: int, limit: float | None, usable: int
) -> None:
    """`docker run --cpus 2.9` on eight cores leaves two whole ones; less than one still is one."""
    monkeypatch.setattr(cores, "affinity_cores", lambda: affinity)
    monkeypatch.setattr(cores, "cpu_limit_cores", lambda: limit)
    assert usable_cores() == usable


def test_this_machine_has_cores() -> None:
    """At least one, and never more than the process may run on."""
    assert 1 <= usable_cores() <= affinity_cores()
