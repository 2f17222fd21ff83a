"""Student's t against the published table."""

import math

import pytest

from runner.analysis.student import p_value, t95


@pytest.mark.parametrize(
    ("freedom", "point"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (19, 2.093), (30, 2.042),
     (60, 2.000), (100, 1.984)],
)  # fmt: skip
def test_the_table_of_every_textbook(freedom: int, point: float) -> None:
    """NIST/SEMATECH e-Handbook, table 1.3.6.7.2, column .975."""
    assert t95(freedom) == pytest.approx(point, abs=6e-4)
    assert p_value(t95(freedom), freedom) == pytest.approx(0.05, abs=1e-9)


def test_other_columns_of_the_table() -> None:
    """The same table at .95 (1.833 for 9), .995 (3.250 for 9) and .999 (4.297 for 9), as two-sided p values."""
    for t, p in ((1.833, 0.10), (3.250, 0.01), (4.297, 0.002)):
        assert p_value(t, 9) == pytest.approx(p, rel=2e-3)


def test_one_and_two_degrees_of_freedom_have_closed_forms() -> None:
    """Cauchy for 1: 1 - 2 atan(t)/pi; for 2: 1 - t / sqrt(2 + t^2). Both signs count alike."""
    for t in (0.1, 1.0, 2.5, 40.0):
        assert p_value(-t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, rel=1e-9)
        assert p_value(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-9)


def test_the_ends() -> None:
    """No difference gives 1, an endless one 0; many degrees of freedom are the normal distribution."""
    assert p_value(0.0, 5) == 1.0
    assert p_value(math.inf, 5) == 0.0
    assert t95(1_000_000) == pytest.approx(1.959966, abs=1e-5)
