"""`goodput isolate`: what keeps chats inside their targets beside background work, and what that costs the work."""

import argparse
from pathlib import Path

from runner.errors import ConfigError
from runner.isolation_plan import CAPS, Wishes


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
    p.add_argument("--ttft-ms", type=float, default=1000.0, metavar="MS", help="first-token target (default: 1000)")
    p.add_argument("--gap-ms", type=float, default=150.0, metavar="MS", help="token-gap target (default: 150)")
    p.add_argument("--model", metavar="M", help="of a URL; default: the first the server lists")
    p.add_argument("--api-key-env", metavar="V", help="of a URL: the variable that holds the key")
    p.add_argument("--report", type=Path, metavar="FILE.html", help="write the shared page")
    p.add_argument("--yes", action="store_true", help="do not ask before a very large sweep")


def run(args: argparse.Namespace) -> int:
    """Measures every arm as a cell of one sweep; its result has the verdict."""
    from app.commands import measure
    from app.isolate import isolation_config

    told = {"model": args.model, "api_key_env": args.api_key_env}
    own = {k: v for k, v in told.items() if v}
    config = isolation_config(args.data, args.backend, wishes_of(args), own)
    path = Path(args.backend)
    return measure(args, config, path if path.is_file() else Path("isolation experiment"))


def wishes_of(args: argparse.Namespace) -> Wishes:
    """Raises ConfigError for a flag that is no sensible number."""
    caps = [part.strip() for part in args.caps.split(",") if part.strip()]
    if not caps or not all(c.isascii() and c.isdigit() and int(c) > 0 for c in caps):
        raise ConfigError(f"--caps {args.caps}: give whole numbers above 0 with commas between, such as 2,4,8")
    for flag in ("duration", "chat_rate", "jobs", "ttft_ms", "gap_ms"):
        value = getattr(args, flag)
        if value is not None and not 0 < value < 1e9:
            raise ConfigError(f"--{flag.replace('_', '-')} {value:g} must be above 0")
    return Wishes(tuple(map(int, caps)), args.duration, args.chat_rate, args.jobs, args.ttft_ms, args.gap_ms)
