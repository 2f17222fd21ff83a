"""The worker process: takes the lock of the data folder and measures what is queued. `goodput runner` is the same."""

import argparse
import sys
from pathlib import Path

from runner.errors import BusyError
from storage.data_folder import default_data_folder, open_data_folder
from storage.errors import GoodputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `goodput runner`."""
    parser.add_argument("--data", type=Path, default=default_data_folder(), metavar="DIR", help="data folder")
    parser.add_argument("--exit-when-idle", action="store_true", help="end after 30 s with nothing to measure")


def work(args: argparse.Namespace) -> int:
    """Exit code: 0, 1 for a data folder that cannot be used, 2 when another runner holds it."""
    from runner.priority import take_turns_as_usual

    take_turns_as_usual()  # the dashboard that started us does not
    from runner.work import run_queue  # brings pandas, which `goodput --help` does not need

    try:
        run_queue(open_data_folder(args.data), exit_when_idle=args.exit_when_idle)
    except GoodputError as e:
        print(f"goodput: {e}", file=sys.stderr)
        return 2 if isinstance(e, BusyError) else 1
    return 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(prog="python -m runner", description=__doc__)
    add_arguments(options)
    sys.exit(work(options.parse_args()))
