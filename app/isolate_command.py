"""`goodput isolate`: what keeps chats inside their targets beside background work, and what that costs the work."""

import argparse
from pathlib import Path

from app.output_file import check_output
from runner.errors import ConfigError
from runner.isolation_plan import CAPS, Wishes

SIZES = ("duration", "chat_rate", "jobs", "ttft_ms", "gap_ms")  # of the usual load; a sweep file has its own
OF_A_URL = ("model", "api_key_env")


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "backend",
        metavar="BACKEND",
        help="a saved backend, a URL, or a sweep file with a class with slo and one without",
    )
    p.add_argument("--caps", default=",".join(map(str, CAPS)), metavar="N,…", help="caps to try (default: %(default)s)")
    p.add_argument("--duration", type=float, metavar="S", help="measured seconds of each arm (default: by the pace)")
    p.add_argument("--chat-rate", type=float, metavar="R", help="chats a second (default: by the pace)")
    p.add_argument("--jobs", type=int, metavar="N", help="documents to index (default: by the pace)")
    p.add_argument("--ttft-ms", type=float, metavar="MS", help="first-token target (default: 1000)")
    p.add_argument("--gap-ms", type=float, metavar="MS", help="token-gap target (default: 150)")
    p.add_argument("--model", metavar="M", help="of a URL; default: the first the server lists")
    p.add_argument("--api-key-env", metavar="V", help="of a URL: the variable that holds the key")
    p.add_argument("--report", type=Path, metavar="FILE.html", help="write the shared page")
    p.add_argument("--yes", action="store_true", help="do not ask before a very large sweep")


def run(args: argparse.Namespace) -> int:
    """Measures every arm as a cell of one sweep; its result has the verdict."""
    from app.commands import measure
    from app.isolate import isolation_config

    if args.report:
        check_output(args.report)  # the server is asked for its pace below
    wishes = wishes_of(args)
    _check_unread(args)
    own = {k: getattr(args, k) for k in OF_A_URL if getattr(args, k)}
    config = isolation_config(args.data, args.backend, wishes, own)
    path = Path(args.backend)
    return measure(args, config, path if path.is_file() else Path("isolation experiment"))


def wishes_of(args: argparse.Namespace) -> Wishes:
    """Raises ConfigError for a flag that is no sensible number."""
    caps = [part.strip() for part in args.caps.split(",") if part.strip()]
    if not caps or not all(c.isascii() and c.isdigit() and int(c) > 0 for c in caps):
        raise ConfigError(f"--caps {args.caps}: give whole numbers above 0 with commas between, such as 2,4,8")
    for flag in SIZES:
        value = getattr(args, flag)
        if value is not None and not 0 < value < 1e9:
            raise ConfigError(f"--{flag.replace('_', '-')} {value:g} must be above 0")
    given = {"duration_s": args.duration, "chat_rate": args.chat_rate, "jobs": args.jobs}
    targets = {k: getattr(args, k) for k in ("ttft_ms", "gap_ms") if getattr(args, k) is not None}
    return Wishes(tuple(map(int, caps)), **given, **targets)


def _check_unread(args: argparse.Namespace) -> None:
    """Raises ConfigError for a flag that a sweep file would silently overrule."""
    from app.isolate import is_sweep_file

    if not is_sweep_file(args.backend):
        return
    for flag in (*SIZES, *OF_A_URL):
        if getattr(args, flag) is not None:
            raise ConfigError(
                f"--{flag.replace('_', '-')} is not read beside a sweep file; change it in {args.backend}"
            )
