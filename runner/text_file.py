"""Reads a file that a person named, which may be anything: never more of it than such a file may hold."""

from pathlib import Path


class Unreadable(Exception):
    """Why, as words that fit into brackets."""


def read_text(path: Path, most_bytes: int, *, regular: bool = False) -> str:
    """The text of a UTF-8 file, a byte order mark left out (editors on Windows put one in front).

    `regular`: refuse what is no file on a disk, such as a pipe or a device. Raises Unreadable, FileNotFoundError.
    """
    try:
        if path.exists() and regular and not path.is_file():
            raise Unreadable("it is no regular file")
        with path.open("rb") as f:
            data = f.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise Unreadable(f"it is larger than {most_bytes // 1_000_000} MB")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise
    except NotADirectoryError as e:  # below a file there is none either
        raise FileNotFoundError(e.errno, e.strerror) from None
    except OSError as e:
        raise Unreadable(e.strerror or str(e)) from None
    except UnicodeDecodeError:
        raise Unreadable("it is not UTF-8 text") from None
