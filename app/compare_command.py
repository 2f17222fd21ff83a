"""`goodput compare A B`: is B worse than A by more than noise? For eyes, and for a script's exit code."""

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.commands import folder_of
from runner.errors import ConfigError
from storage.errors import GoodputError

if TYPE_CHECKING:
    from runner.analysis.prepare import Prepared

EXIT_CODES = (
    "Exit code: 0 B is not worse than A beyond noise; 1 B is worse; 2 nothing was compared: a sweep that is not there, "
    "is still being measured, is damaged or holds no single requests, or two with no setting and load in common; "
    "130 interrupted."
)
# what tables of a strange version or a damaged import raise, all of which would else look like "worse"
_STRANGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def add_arguments(p: argparse.ArgumentParser) -> None:
    """The two sides; several sweeps of one side stand with a + between them."""
    p.epilog = EXIT_CODES
    p.add_argument(
        "a", metavar="A", help="before: an id, its beginning, or a folder; several measured in turns as A1+A2"
    )
    p.add_argument("b", metavar="B", help="after: as A")


def compare(args: argparse.Namespace) -> int:
    """Exit code 1 when B is worse beyond noise and for nothing else; 0 when it is not. Raises ConfigError, whose exit
    code is 2, where nothing can be compared."""
    from app.views.compare import comparison_text

    found = _compared(args)
    _print(json.dumps(found, allow_nan=False) if args.json else comparison_text(found))
    if not found["points"]:
        raise ConfigError(f"{args.a} and {args.b}: {found['reason']}")
    return 1 if found["regression"] else 0


def _compared(args: argparse.Namespace) -> dict[str, Any]:
    from runner.analysis.compare import compare as compared

    try:
        return compared(_side(args.a, args.data), _side(args.b, args.data))
    except ConfigError:
        raise
    except GoodputError as e:
        raise ConfigError(str(e)) from None
    except _STRANGE as e:
        raise ConfigError(
            f"{args.a} and {args.b} can't be compared: what one of them holds is damaged or of another version of "
            f"Goodput Lab ({type(e).__name__}); `goodput show` tells which"
        ) from None


def _print(text: str) -> None:
    """A full disk or a reader that has gone must not look like "worse" either."""
    try:
        print(text, flush=True)
    except OSError as e:
        with contextlib.suppress(OSError):
            sys.stdout.close()
        raise ConfigError(f"the comparison can't be written ({e.strerror or e})") from None


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
