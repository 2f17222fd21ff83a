"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest, the real-time tests, comes first."""
    items.sort(key=lambda item: not _in_real_time(item.path.relative_to(_HERE)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """One worker takes all real-time tests, the others the rest, file after file."""
    return _ByGroup(config, log)


class _ByGroup(LoadScopeScheduling):
    # not by the mark xdist_group: pytest 9.2 does not show xdist's scheduler the names of the groups
    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.partition("::")[0]).relative_to(_HERE.name)
        return "real time" if _in_real_time(file) else str(file)


def _in_real_time(file: Path) -> bool:
    return file.parent == Path("runner") or any(file.is_relative_to(p) for p in _REAL_TIME)
