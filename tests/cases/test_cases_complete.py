"""No case is forgotten: every id of cases.json has a test that bears it, and no skipped one lacks its reason."""

import importlib
import inspect
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cases.load_cases import load_cases

LATER = ("The dashboard people love and share, running on a NAS",)


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


def test_only_cases_of_later_work_are_skipped_and_they_name_it() -> None:
    """Streams, load and metrics run without exception; a skip says in whose scope it lies."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for case_id, function in case_tests():
        reasons[case_id] += [m.kwargs["reason"] for m in function.pytestmark if m.name in ("skip", "skipif", "xfail")]
    skipped = {case_id: told for case_id, told in reasons.items() if told}
    assert not {case_id for case_id in skipped if case_id[0] in "ABC"}
    assert all(reason.startswith(LATER) for told in skipped.values() for reason in told)
