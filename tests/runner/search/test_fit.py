"""Where the share crosses its target: known curves, plateaus, separation, several classes."""

import math

import numpy as np
import pytest

from runner.search.fit import crossing


def curve(load: float, at: float, steep: float, lapse: float = 0.0, alpha: float = 0.9) -> float:
    """The model itself: alpha at `at`."""
    top = 1.0 - lapse
    return top / (1.0 + math.exp(-(math.log(alpha / (top - alpha)) - steep * math.log(load / at))))


@pytest.mark.parametrize(("at", "steep", "lapse"), [(1.7, 12.0, 0.0), (0.02, 5.0, 0.0), (40.0, 20.0, 0.05)])
def test_a_known_curve_is_found_again(at: float, steep: float, lapse: float) -> None:
    """Many requests exactly on the curve: its crossing within 5 %, inside the interval, at any scale of loads."""
    loads = [at * r for r in (0.5, 0.8, 1.0, 1.25, 2.0)]
    found = crossing({"chat": [(x, curve(x, at, steep, lapse), 2000.0) for x in loads]}, 0.9)
    assert found.load == pytest.approx(at, rel=0.05)
    assert found.low <= at <= found.high
    assert found.spread < 1.25
    true_fall = 0.9 - curve(1.5 * at, at, steep, lapse)
    assert found.fall == pytest.approx(true_fall, abs=0.12)


def test_all_pass_below_and_all_miss_above_still_gives_an_interval_between_them() -> None:
    """Where a maximum of the likelihood would be infinitely steep."""
    found = crossing({"chat": [(1.0, 1.0, 100.0), (2.0, 0.0, 100.0)]}, 0.9)
    assert 1.0 < found.load < 2.0
    assert 0.9 < found.low < found.high < 2.1


def test_a_share_that_hardly_moves_leaves_the_load_open() -> None:
    """From 93 % to 87 % over sixteen times the load: a wide interval and a small fall."""
    points = [(0.25, 0.93, 200.0), (0.5, 0.92, 200.0), (1.0, 0.905, 200.0), (2.0, 0.89, 200.0), (4.0, 0.87, 200.0)]
    found = crossing({"chat": points}, 0.9)
    assert found.spread > 3
    assert found.fall < 0.06


def test_the_class_that_gives_way_first_rules() -> None:
    """Chat alone would bear 3, RAG only 1: the answer is RAG's, and a little less sure."""
    loads = (0.5, 0.8, 1.0, 1.3, 2.0, 3.0, 4.0)
    rag = [(x, curve(x, 1.0, 12.0), 300.0) for x in loads]
    chat = [(x, curve(x, 3.0, 12.0), 300.0) for x in loads]
    both = crossing({"chat": chat, "rag": rag}, 0.9)
    assert both.load == pytest.approx(crossing({"rag": rag}, 0.9).load, rel=0.01)
    assert both.load == pytest.approx(1.0, rel=0.05)


def test_few_requests_say_less_than_many() -> None:
    """Weights are effective requests: a tenth of them widens the interval about three times."""
    loads = (0.5, 0.8, 1.0, 1.25, 2.0)
    many, few = (crossing({"chat": [(x, curve(x, 1.0, 8.0), n) for x in loads]}, 0.9) for n in (300.0, 30.0))
    ratio = math.log(few.spread) / math.log(many.spread)
    assert 2.0 < ratio < 5.0


def test_the_interval_covers() -> None:
    """Of 200 drawn curves and searches about 95 % hold the true crossing; 92 to 98 % is the aim of every interval."""
    rng = np.random.default_rng(7)
    hit = 0
    for _ in range(200):
        at, steep, lapse = rng.uniform(0.8, 2.5), math.exp(rng.uniform(0.7, 3.4)), rng.uniform(0, 0.06)
        loads = (0.5, 1.0, 2.0, 4.0, 1.4, 1.1 * at, 0.9 * at, 1.05 * at)
        points = [(x, rng.binomial(100, curve(x, at, steep, lapse)) / 100, 100.0) for x in loads]
        found = crossing({"chat": points}, 0.9)
        hit += found.low <= at <= found.high
    assert 0.92 <= hit / 200 <= 0.985


def test_a_fit_without_a_probe_is_refused() -> None:
    """Nothing is made up."""
    with pytest.raises(ValueError, match="at least one probe"):
        crossing({}, 0.9)
