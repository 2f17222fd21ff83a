"""Can the file that a command is to leave be written? Asked before anything is measured or read, not hours later."""

import errno
import os
from pathlib import Path

from runner.errors import ConfigError


def check_output(path: Path, what: str = "page", example: str = "sweep.html") -> None:
    """Raises ConfigError, with the mend in its sentence. `what`: how the file is called; `example`: a name for it.

    It is tried out: permissions, read-only disks and names that are too long are known for sure in no other way. A file
    that is there keeps what it holds, one that is not there is not left behind.
    """
    try:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder; give the {what} a file name, such as {path / example}")
        if not path.parent.is_dir():
            raise ConfigError(
                f"{path}: the folder {path.parent} does not exist; make it, or write the {what} elsewhere"
            )
        _try(path)
    except OSError as e:
        raise ConfigError(
            f"{path} cannot be written ({e.strerror or e}); check its permissions, or write the {what} elsewhere"
        ) from None


def check_output_folder(path: Path, what: str = "tables") -> None:
    """The same of a folder that is made where it is missing. Raises ConfigError."""
    try:
        if path.is_dir():
            _try(path / ".goodput")
        else:
            path.mkdir()
            path.rmdir()
    except OSError as e:
        raise ConfigError(
            f"{path} cannot be written ({e.strerror or e}); check its permissions, or write the {what} elsewhere"
        ) from None


def _try(path: Path) -> None:
    """Raises OSError."""
    if path.exists() and not path.is_file():  # opening a pipe would wait for its reader
        if not os.access(path, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return
    new = not os.path.lexists(path)
    with path.open("ab"):
        pass
    if new:
        path.unlink(missing_ok=True)
