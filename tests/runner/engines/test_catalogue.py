"""The catalogue knows every kind of server that a sweep file may name."""

from dataclasses import fields

from runner.config import BACKEND_KINDS
from runner.engines.catalogue import KINDS
from storage.records import EngineSample


def test_every_kind_of_backend_has_a_row() -> None:
    """No kind can be chosen that nothing is known about."""
    assert set(KINDS) == set(BACKEND_KINDS)


def test_metrics_fill_columns_that_exist() -> None:
    """A field name in the catalogue is a column of EngineSample."""
    columns = {f.name for f in fields(EngineSample)}
    assert {name for kind in KINDS.values() for name in kind.metrics} <= columns


def test_paths_are_paths() -> None:
    """Ready, metrics and slots paths are appended to the server's root."""
    for kind in KINDS.values():
        paths = [*kind.ready_paths, *([kind.metrics_path] if kind.metrics_path else [])]
        assert all(path.startswith("/") for path in paths)
        assert kind.ready_paths
