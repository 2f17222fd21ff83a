"""Asks the person at the server to change a setting: on stderr, in state.json for the pages, and hears the answer.

The answer is the file `continue` in the sweep's folder (the page's button, `goodput continue ID`), or Enter in the
terminal that runs the sweep.
"""

import contextlib
import os
import select
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

from runner.config import Scalar
from runner.engines.running import User
from runner.live import LiveFeed
from storage.side_files import asked, withdraw


def user_of(folder: Path, live: LiveFeed) -> User:
    """The user of one sweep. While something is asked the status is paused and `waiting_for` says what to do."""

    def ask(setting: Mapping[str, Scalar], text: str) -> None:
        withdraw(folder, "continue")  # said before this was asked
        _forget_typed()
        live.status, live.waiting_for = "paused", {"setting": dict(setting), "text": text}
        live.write_state()
        enter = " or press Enter here" if _reads_terminal() else ""
        print(
            f"\n{text} Then press Continue on the Live page, run `goodput continue {folder.name}`{enter}.",
            file=sys.stderr,
            flush=True,
        )

    def continued() -> bool:
        said = asked(folder, "continue") or _entered()
        if said:
            withdraw(folder, "continue")
            thank()  # now it is looked whether the server answers, which may take its loading time
        return said

    def thank() -> None:
        if live.waiting_for is not None:
            live.status, live.waiting_for = "running", None
            live.write_state()

    return User(ask, continued, lambda: asked(folder, "skip"), thank)


def _reads_terminal() -> bool:
    """True when our input is a terminal that listens to us; a background job that reads from it would be halted."""
    try:
        fd = sys.stdin.fileno()
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # closed, replaced, or no terminal of ours
        return False


def _entered() -> bool:
    """Whether a line was typed; it is taken. Never waits."""
    if not _reads_terminal() or not select.select([sys.stdin], [], [], 0)[0]:
        return False
    return os.read(sys.stdin.fileno(), 4096) != b""


def _forget_typed() -> None:
    if _reads_terminal():
        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
