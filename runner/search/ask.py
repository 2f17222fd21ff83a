"""The flags of the command line that ask a sweep file for a search."""

import argparse

from runner.config import SweepConfig, parse_sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--find-rate or --budget."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--find-rate", action="store_true", help="for each setting, the largest load at which all targets are kept"
    )
    how.add_argument(
        "--budget", metavar="TIME", help="the best setting that can be found within this time, such as 20m, 90m or 8h"
    )


def searching(config: SweepConfig, args: argparse.Namespace) -> SweepConfig:
    """The config with what the flags ask for, in place of what its file says about it. Raises ConfigError."""
    if not args.find_rate and args.budget is None:
        return config
    raw = config.model_dump(mode="json", exclude_unset=True)
    wanted = {"find_rate": args.find_rate, "budget": args.budget}
    return parse_sweep({**raw, "run": {**raw.get("run", {}), **wanted}}, str(args.sweep))
