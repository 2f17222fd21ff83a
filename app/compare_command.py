"""`goodput compare A B`: is B worse than A by more than noise? For eyes, and for a script's exit code."""

import argparse
import json
from pathlib import Path

from app.commands import folder_of
from runner.errors import ConfigError


def add_arguments(p: argparse.ArgumentParser) -> None:
    """The two sides; several sweeps of one side stand with a + between them."""
    p.add_argument(
        "a", metavar="A", help="before: an id, its beginning, or a folder; several measured in turns as A1+A2"
    )
    p.add_argument("b", metavar="B", help="after: as A")


def compare(args: argparse.Namespace) -> int:
    """Exit code 1 when B is worse beyond noise, else 0. Raises GoodputError."""
    from app.data import load_prepared
    from app.views.compare import comparison_text
    from runner.analysis.compare import compare as compared

    before, after = ([load_prepared(folder) for folder in _folders(side, args.data)] for side in (args.a, args.b))
    found = compared(before, after)
    print(json.dumps(found, allow_nan=False) if args.json else comparison_text(found))
    return 1 if found["regression"] else 0


def _folders(side: str, data_dir: Path) -> list[Path]:
    names = [side] if Path(side).exists() else side.split("+")
    if not all(names):
        raise ConfigError(f"{side!r} names no sweep; write goodput compare BEFORE AFTER with an id or a folder each")
    return [folder_of(name, data_dir) for name in names]
