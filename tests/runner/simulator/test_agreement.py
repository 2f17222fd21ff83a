"""Virtual time against the built-in engine over real HTTP: the same requests, waited for once."""

import pytest

from tests.support.agreement import Pair, compare_side_by_side, sweep_raw

SCHEDULERS = ["vllm_v1", "vllm_v0", "sarathi"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """4 s of light load for each scheduler: a request that waits for nobody is late only by what the machine is."""
    raws = [sweep_raw([name], rate=4.0, duration_s=4.0) for name in SCHEDULERS]
    return compare_side_by_side(raws, tmp_path_factory.mktemp("agreement"))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_medians_are_within_5_percent_or_3_ms(pairs: list[Pair], scheduler: str) -> None:
    """First token and gaps; on a busy machine the measured ones may be later by what its own timers were late."""
    medians = [p for p in pairs if p.setting == scheduler and p.what.endswith("p50")]
    assert len(medians) == 2
    assert [p for p in medians if not p.within(0.05, 3.0, p.late_ms)] == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_tails_are_of_the_same_size(pairs: list[Pair], scheduler: str) -> None:
    """At p95 a busy machine makes requests miss an iteration, so this bound only finds gross errors.

    The figures of a quiet machine come from tests/benchmarks/agreement.py.
    """
    tails = [p for p in pairs if p.setting == scheduler and p.what.endswith("p95")]
    assert len(tails) == 2
    assert [p for p in tails if not p.within(0.3, 60.0, p.late_ms)] == []
