"""What stops a sweep. A failed request never does: that is data."""

from storage.errors import GoodputError


class ConfigError(GoodputError):
    """The sweep file, a flag or a setting is wrong; nothing was measured. Exit code 2."""


class BusyError(GoodputError):
    """Another runner holds the data folder. Exit code 2."""


class SettingFailed(GoodputError):
    """A setting did not start or died: a failed cell with its reason; the sweep goes on."""

    def __init__(
        self, error_kind: str, detail: str, *, exit_code: int | None = None, log_tail: str | None = None
    ) -> None:
        super().__init__(detail)
        self.error_kind = error_kind
        # port_in_use | not_ready | exited | out_of_memory | unreachable | bad_command | server_hung
        # of hooks: hook_failed | hook_timeout | not_restarted
        self.exit_code = exit_code
        self.log_tail = log_tail


class SettingSkipped(GoodputError):
    """The user leaves this cell out instead of changing the server by hand; the sweep goes on."""
