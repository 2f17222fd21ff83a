"""A server that answers, as the rest of a sweep sees it, and who is asked when a person must act."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.config import Scalar, SweepConfig
from runner.engines.address import server_root
from runner.engines.catalogue import KINDS

LOG_FILE = "engine.log"


@dataclass(frozen=True)
class Running:
    """A server that answers, ready to be measured."""

    base_url: str
    metrics_url: str | None
    start_line: str | None  # ready to paste, secrets as ***; null for a server that we did not start
    pid: int | None
    started_new: bool
    notes: tuple[str, ...] = ()  # sentences for the user: what could not be proved about this start


@dataclass(frozen=True)
class User:
    """The person at the server, for settings that are changed by hand."""

    ask: Callable[[Mapping[str, Scalar], str], None]  # shows the setting and what to do; replaces what was asked before
    continued: Callable[[], bool]  # true once for each time the user says that it is done
    skipped: Callable[[], bool]  # the user would rather leave this cell out
    thank: Callable[[], None]  # nothing is asked any more


def api_key(config: SweepConfig) -> str | None:
    name = config.backend.api_key_env
    return os.environ.get(name) if name else None


def metrics_url_of(config: SweepConfig, base_url: str) -> str | None:
    """Where the server shows its metrics: as configured, else where its kind usually does; null if it shows none."""
    if config.backend.metrics_url:
        return config.backend.metrics_url
    path = KINDS[config.backend.kind].metrics_path
    return server_root(base_url) + path if path else None
