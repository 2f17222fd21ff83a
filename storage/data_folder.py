"""The data folder: found, made, and checked once at start; and the lock by which one runner owns it."""

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from storage.errors import StorageError
from storage.json_files import read_json
from storage.plain_errors import write_error

LOCK = "runner.lock"
MIN_FREE_BYTES = 50_000_000
# file locks on these do not reliably keep a second writer out
_NETWORK = re.compile(r"nfs\d?|cifs|smb\d?|smbfs|afs|ceph|davfs\d?|fuse\.(sshfs|rclone|s3fs|glusterfs|ceph.*|davfs2?)")


def default_data_folder() -> Path:
    """GOODPUT_DATA, or ./data."""
    return Path(os.environ.get("GOODPUT_DATA") or "data")


def open_data_folder(path: Path) -> Path:
    """Makes the folder with its parts and checks that it can be worked in; returns its absolute path.

    Raises StorageError: not writable, less than 50 MB free, or on a network share.
    """
    path = path.expanduser().absolute()
    try:
        for part in ("queue", "sweeps"):
            (path / part).mkdir(parents=True, exist_ok=True)
        trial = path / f".writable.{os.getpid()}"
        trial.write_bytes(b"x")
        trial.unlink()
        free = shutil.disk_usage(path).free
    except PermissionError:
        raise StorageError(_no_permission(path)) from None
    except OSError as e:
        raise write_error(path, e) from None
    if free < MIN_FREE_BYTES:
        raise StorageError(
            f"{path}: only {free // 1_000_000} MB free, a sweep needs at least {MIN_FREE_BYTES // 1_000_000} MB; "
            "free some space, or choose another folder with --data or GOODPUT_DATA"
        )
    kind = network_share(_mounts(), path.resolve())
    if kind:
        raise StorageError(
            f"{path}: is on a network share ({kind}), where file locks are unreliable; choose a folder on a local disk "
            "with --data or GOODPUT_DATA (finished sweeps may be copied to the share)"
        )
    return path


def _no_permission(path: Path) -> str:
    """Who may not write and whose the folder is: the usual trouble of a folder that is mounted into a container."""
    me = f"{os.getuid()}:{os.getgid()}"
    there = next((p for p in (path, *path.parents) if os.path.exists(p)), path)
    try:
        found = there.stat()
        owner = f"{there} belongs to {found.st_uid}:{found.st_gid}"
    except OSError:
        owner = f"{there} cannot be looked at"
    return (
        f"{path}: cannot be written by user {me} ({owner}); give it to that user (chown -R {me}, on the host for a "
        "container), run as the owner (in compose: user), or choose another folder with --data or GOODPUT_DATA"
    )


def network_share(mounts: str, path: Path) -> str | None:
    """The kind of network file system `path` (absolute, resolved) lies on, or None. `mounts`: text of /proc/mounts."""
    best, kind = -1, None
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), parts[1]))
        depth = len(point.parts)
        if path.is_relative_to(point) and depth >= best:  # of two mounts at one place the later one hides the earlier
            best, kind = depth, parts[2]
    return kind if kind and _NETWORK.fullmatch(kind) else None


@contextlib.contextmanager
def locked(data_dir: Path, about: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
    """Holds runner.lock inside the block and writes `about` into it.

    Yields None if we hold it; if somebody else does, yields what that one wrote, without waiting.
    The system lets the lock go when the process ends, however it ends. Raises StorageError.
    """
    path = data_dir / LOCK
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as e:
        raise write_error(path, e) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        yield read_json(path) or {}
        return
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(about).encode(), 0)
        yield None
    finally:
        os.ftruncate(fd, 0)
        os.close(fd)


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return ""
