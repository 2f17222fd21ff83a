"""What all tests share."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --update-golden` rewrites the files in tests/golden; look at the difference before keeping it."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what is made now")
