"""One playing of all stream cases serves all tests of this folder."""

import pytest

from tests.cases.play import Outcome, play_all


@pytest.fixture(scope="session")
def played() -> dict[str, Outcome]:
    """Every stream case by id, played once over loopback."""
    return play_all()
