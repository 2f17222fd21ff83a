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
# what judges moments and lengths of time: one of them at a time, begun first, beside all the other tests
_REAL_TIME = (
    "cases/test_cases_load.py",
    "cases/test_cases_streams.py",
    "runner/load/test_alarm.py",
    "runner/load/test_client.py",
    "runner/load/test_clock.py",
    "runner/load/test_generator.py",
    "runner/load/test_loop_health.py",
    "runner/load/test_stamped_socket.py",
    "runner/load/test_transport.py",
    "runner/simulator/test_agreement.py",
    "runner/test_llama_sweep.py",
    "runner/test_observed_batch.py",
    "runner/test_paced_sweep.py",
)
# what takes long, begun before the short ones, so that no worker is left alone with it at the end; what waits and what
# calculates in turns
_LONG = (
    "runner/test_sweep.py",
    "app/test_dashboard_browser.py",
    "cases/test_cases_nas.py",
    "runner/test_control_modes.py",
    "papers/test_papers_table.py",
    "runner/test_loop.py",
    "app/test_walk_browser.py",
    "runner/test_load_processes.py",
    "runner/test_prefix_cache_llama.py",
    "app/test_firefox.py",
    "runner/load/test_connections.py",
    "runner/engines/test_hooked_server.py",
    "app/export/test_page_in_browser.py",
    "app/test_jobs.py",
    "cases/test_cases_app.py",
    "cases/test_cases_engine.py",
    "runner/simulator/test_engine_invariants.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --update-golden` rewrites the files in tests/golden; look at the difference before keeping it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what is made now")


def pytest_configure(config: pytest.Config) -> None:
    """A file that was moved must not leave its group unseen."""
    gone = [name for name in _REAL_TIME if not (_HERE / name).is_file()]
    if gone:
        raise pytest.UsageError(f"tests/conftest.py names files that are not there: {', '.join(gone)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real-time tests come first, then what takes long."""
    order = {name: place for place, name in enumerate((*_REAL_TIME, *_LONG))}
    items.sort(key=lambda item: order.get(item.path.relative_to(_HERE).as_posix(), len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """One worker takes all real-time tests, the others the rest, file after file."""
    return _ByGroup(config, log)


class _ByGroup(LoadScopeScheduling):
    # not by the mark xdist_group: pytest 9.2 does not show xdist's scheduler the names of the groups
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].removeprefix(f"{_HERE.name}/")
        return "real time" if file in _REAL_TIME else file
