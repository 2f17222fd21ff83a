"""Where the `goodput` command begins: before any library is loaded it is seen whether this processor can run them, and
Ctrl-C while its parts are still being loaded ends it as quietly as later."""

import platform
import sys

LONG_LIVED = ("runner", "run")  # beside the dashboard: worth a few seconds on an old processor before they begin


def main() -> int:
    """The exit code of `app.cli.main`; 1 on a processor that cannot run it; 130 when interrupted."""
    try:
        from runner.start_check import cpu_refusal, read_cpuinfo

        command = sys.argv[1] if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None  # None: the dashboard
        quick = command is not None and command not in LONG_LIVED
        if why := cpu_refusal(platform.machine(), read_cpuinfo(), quick=quick):
            return _refused(why, dashboard=command is None)
        from app.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


def _refused(why: str, *, dashboard: bool) -> int:
    from app.start_failure import show_in_container

    if dashboard:
        show_in_container(why)
    print(f"goodput: {why}", file=sys.stderr)
    return 1
