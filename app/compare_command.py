"""`goodput compare A B`: is B worse than A by more than noise? For eyes, and for a script's exit code."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from app.commands import folder_of
from runner.errors import ConfigError

if TYPE_CHECKING:
    from runner.analysis.prepare import Prepared


def add_arguments(p: argparse.ArgumentParser) -> None:
    """The two sides; several sweeps of one side stand with a + between them."""
    p.add_argument(
        "a", metavar="A", help="before: an id, its beginning, or a folder; several measured in turns as A1+A2"
    )
    p.add_argument("b", metavar="B", help="after: as A")


def compare(args: argparse.Namespace) -> int:
    """Exit code 1 when B is worse beyond noise, else 0. Raises GoodputError."""
    from app.views.compare import comparison_text
    from runner.analysis.compare import compare as compared

    found = compared(_side(args.a, args.data), _side(args.b, args.data))
    print(json.dumps(found, allow_nan=False) if args.json else comparison_text(found))
    return 1 if found["regression"] else 0


def _side(side: str, data_dir: Path) -> "list[Prepared]":
    names = [side] if Path(side).exists() else side.split("+")
    if not all(names):
        raise ConfigError(f"{side!r} names no sweep; write goodput compare BEFORE AFTER with an id or a folder each")
    measured = [_measured(name, data_dir) for name in names]
    ids = [str(p.tables.meta["sweep_id"]) for p in measured]
    if twice := next((i for i in ids if ids.count(i) > 1), None):
        raise ConfigError(
            f"{twice} is named twice on one side; how far runs differ is seen only from runs of their own"
        )
    return measured


def _measured(name: str, data_dir: Path) -> "Prepared":
    """A sweep, or an import that holds its single requests."""
    from app.data import load_prepared
    from app.imports import find_import, prepared_import
    from storage.imports import read_import

    folder = find_import(data_dir, name)
    if folder is None:
        return load_prepared(folder_of(name, data_dir))
    prepared = prepared_import(read_import(folder))
    if prepared is None:
        raise ConfigError(
            f"{name} holds no single requests, so nothing can be said about noise; compare it on the page"
        )
    return prepared
