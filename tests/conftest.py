"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

# no time limit for an example: on a busy machine it would judge the machine
settings.register_profile("goodput", deadline=None)
settings.load_profile("goodput")

_HERE = Path(__file__).parent
# what loads a server in real time: one of them at a time, begun first, beside all the other tests
_REAL_TIME = (
    "cases",
    "runner/bench",
    "runner/load",
    "runner/simulator/test_agreement.py",
    "runner/simulator/test_engine_invariants.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --update-golden` rewrites the files in tests/golden; look at the difference before keeping it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what is made now")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-n 2 --dist loadgroup` one worker takes all real-time tests, the other the rest, file after file."""
    items.sort(key=lambda item: not _in_real_time(item.path))
    for item in items:
        group = "real time" if _in_real_time(item.path) else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


def _in_real_time(path: Path) -> bool:
    inside = path.relative_to(_HERE)
    return inside.parent == Path("runner") or any(inside.is_relative_to(p) for p in _REAL_TIME)
