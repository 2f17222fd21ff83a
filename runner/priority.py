"""Pages yield to the one who measures: on a small machine both share the cores with the server itself."""

import contextlib
import os


def yield_to_others() -> None:
    """From here on this thread, and all that it starts, interrupt nobody who runs (Linux: SCHED_BATCH). They get their
    share of the time all the same. Unlike a lower priority it can be taken back without being root."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def take_turns_as_usual() -> None:
    """Takes back what was handed down by a process that yields."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(0) == os.SCHED_BATCH:
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
