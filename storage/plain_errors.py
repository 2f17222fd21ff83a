"""What the disk or the database said -> one plain sentence: which path, what is wrong, how to mend it."""

import re
from pathlib import Path

from storage.errors import StorageError

_ELSEWHERE = "choose another folder with --data or GOODPUT_DATA"
_WRITE_PROBLEMS = (
    # (what the system says, what it means, how to mend it)
    (
        "No space left|File too large|quota exceeded",
        "the disk is full",
        "free some space, then go on with `goodput resume` (what was measured so far is kept)",
    ),
    ("Read-only file system", "the disk is mounted read-only", f"mount it for writing, or {_ELSEWHERE}"),
    (
        "Permission denied|Operation not permitted",
        "no permission to write here",
        f"give the user that runs Goodput Lab write access, or {_ELSEWHERE}",
    ),
    ("Not a directory|File exists|Is a directory", "a file stands where a folder must be", f"move it, or {_ELSEWHERE}"),
    ("No such file", "the folder is gone", f"bring it back, or {_ELSEWHERE}"),
)


def write_error(path: Path, error: Exception) -> StorageError:
    """Why `path` could not be written."""
    text = str(error)
    if is_locked(text):
        return lock_error(path, text)
    for pattern, meaning, mend in _WRITE_PROBLEMS:
        if re.search(pattern, text, re.IGNORECASE):
            return StorageError(f"{path}: cannot be written, {meaning}; {mend}")
    return StorageError(f"{path}: cannot be written ({first_line(text)}); check the disk, or {_ELSEWHERE}")


def read_error(path: Path, error: Exception) -> StorageError:
    """Why the sweep database at `path` could not be read."""
    text = str(error)
    if is_locked(text):
        return lock_error(path, text)
    if re.search(r"newer version|version number", text):
        return StorageError(f"{path}: was written by a newer Goodput Lab; update this one to open it")
    if "Permission denied" in text:
        return StorageError(f"{path}: no permission to read it; give the user that runs Goodput Lab read access")
    return StorageError(
        f"{path}: damaged or only half copied ({first_line(text)}); copy the whole sweep folder again from where it is"
    )


def open_error(path: Path, error: Exception) -> StorageError:
    """Why the database at `path` could not be opened for writing: the place is wrong, or the file is."""
    place = any(re.search(pattern, str(error), re.IGNORECASE) for pattern, _, _ in _WRITE_PROBLEMS)
    return write_error(path, error) if place else read_error(path, error)


def is_locked(text: str) -> bool:
    """True if the database refused because somebody else has the file open."""
    return "Could not set lock" in text or "different configuration than existing connections" in text


def lock_error(path: Path, text: str) -> StorageError:
    """Who holds the file, if the database tells."""
    found = re.search(r"PID (\d+)", text)
    holder = f"process {found[1]}" if found and found[1] != "0" else "another process"
    if "existing connections" in text:
        holder = "this process"
    return StorageError(f"{path}: {holder} has it open; wait until that sweep ends, or stop it")


def first_line(text: str) -> str:
    """The first line, short enough for one sentence."""
    line = text.strip().splitlines()[0] if text.strip() else "no reason given"
    return line if len(line) <= 200 else line[:199] + "…"


def is_there(path: Path) -> bool:
    """Whether that file exists. Raises StorageError where this user may not even look."""
    try:
        return path.is_file()
    except OSError as e:
        raise read_error(path, e) from None
