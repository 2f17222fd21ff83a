"""No case is forgotten: every id of cases.json has a test that bears it, and none is skipped."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cases.load_cases import load_cases


def case_tests() -> Iterator[tuple[str, Any]]:
    """(case id, test function) of every test in this folder that is parametrized by `case_id`."""
    for path in sorted(Path(__file__).parent.glob("test_cases_*.py")):
        module = importlib.import_module(f"tests.cases.{path.stem}")
        for _, function in inspect.getmembers(module, inspect.isfunction):
            for mark in getattr(function, "pytestmark", ()):
                if mark.name == "parametrize" and mark.args[0] == "case_id":
                    yield from ((case_id, function) for case_id in mark.args[1])


def test_every_case_has_its_test_and_no_other_is_named() -> None:
    """56 ids in the file, the same 56 on the tests."""
    ids = [case["id"] for case in load_cases()]
    assert len(ids) == len(set(ids)) == 56
    assert {case_id for case_id, _ in case_tests()} == set(ids)


def test_no_case_is_skipped() -> None:
    """Only a tool that is missing outside CI leaves one out, which its test says when it runs."""
    skips = ("skip", "skipif", "xfail")
    assert {case_id for case_id, function in case_tests() for m in function.pytestmark if m.name in skips} == set()
