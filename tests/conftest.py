"""What all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

# no time limit for an example: on a busy machine it would judge the machine
settings.register_profile("goodput", deadline=None)
settings.load_profile("goodput")

_HERE = Path(__file__).parent
# what judges moments and lengths of time: one of them at a time, with the machine to itself
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
    parser.addoption(
        "--real-time", choices=["only", "without"], help="the tests that measure while they wait, or the others"
    )


def pytest_configure(config: pytest.Config) -> None:
    """A file that was moved must not leave its group unseen."""
    gone = [name for name in _REAL_TIME if not (_HERE / name).is_file()]
    if gone:
        raise pytest.UsageError(f"tests/conftest.py names files that are not there: {', '.join(gone)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Real-time tests come first, then what takes long. `make test` runs the former alone, the others side by side."""
    order = {name: place for place, name in enumerate((*_REAL_TIME, *_LONG))}
    place = {item: order.get(item.path.relative_to(_HERE).as_posix(), len(order)) for item in items}
    asked = config.getoption("--real-time")
    wanted = [i for i in items if not asked or (place[i] < len(_REAL_TIME)) == (asked == "only")]
    config.hook.pytest_deselected(items=[i for i in items if i not in set(wanted)])
    items[:] = sorted(wanted, key=place.__getitem__)
