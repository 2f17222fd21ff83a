"""backends.toml of the data folder: saved servers by name. People write it by hand, the dashboard adds and edits some.

The dashboard changes only the keys of EDITABLE, line by line; everything else in the file, above all commands, stays as
it was written. What it can't change without touching more than that is left to a text editor.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.config import SweepConfig, parse_sweep
from runner.errors import ConfigError
from runner.text_file import Unreadable, read_text
from storage.plain_errors import write_error

FILE = "backends.toml"
EDITABLE = ("kind", "url", "api", "model", "api_key_env", "metrics_url")
MOST_BYTES = 1_000_000
NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
HEAD = """# Saved servers of Goodput Lab. Commands are read from here and never typed in a browser:
#   [name.control]
#   mode = "process"
#   command = ["llama-server", "-m", "/models/x.gguf", "-np", "{max_num_seqs}", "--port", "{port}"]
"""


def saved_backends(data_dir: Path) -> dict[str, Any]:
    """The tables by name: keys of [backend], and a `control` table. Empty without the file.

    Raises ConfigError in one sentence when it can't be read.
    """
    path = data_dir / FILE
    return _tables(_read(path), path)


def save_backend(data_dir: Path, name: str, values: Mapping[str, str | None]) -> None:
    """Adds the backend, or changes keys of EDITABLE of the one with that name (None or "" takes a key away).

    Raises ConfigError for what is no valid backend or can only be changed by hand, StorageError.
    """
    path = data_dir / FILE
    text = _read(path)
    before = _tables(text, path)
    wanted = {key: str(values[key]).strip() for key in EDITABLE if str(values.get(key) or "").strip()}
    if name not in before and not NAME.fullmatch(name):
        raise ConfigError(f"{name[:80]!r} can't be a name; use up to 60 letters, digits, - and _")
    kept = {key: value for key, value in before.get(name, {}).items() if key not in EDITABLE}
    check_backend(name, {**kept, **wanted})
    new = _changed(text, name, wanted) if name in before else f"{text or HEAD}{_gap(text)}[{name}]\n{_lines(wanted)}"
    _write_checked(path, new, {**before, name: {**kept, **wanted}})


def remove_backend(data_dir: Path, name: str) -> None:
    """Takes the backend out of the file. Raises ConfigError for one with commands, which were written by hand."""
    path = data_dir / FILE
    text = _read(path)
    before = _tables(text, path)
    if name not in before:
        raise ConfigError(f"{path}: there is no [{name[:80]}]; it may have been taken out already")
    if any(isinstance(value, dict) for value in before[name].values()):
        raise ConfigError(f"{path}: [{name}] has commands written by hand; take it out with a text editor")
    lines = text.splitlines(keepends=True)
    start, end = _span(lines, name, path)
    _write_checked(path, "".join(lines[:start] + lines[end:]), {k: v for k, v in before.items() if k != name})


def check_backend(name: str, table: Mapping[str, Any]) -> SweepConfig:
    """Whether a sweep could name it. Raises ConfigError."""
    plain = {"name": "x", "prompt_tokens": 1, "output_tokens": 1, "weight": 1}
    return parse_sweep(
        {"name": name, "backend": name, "grid": {"request_rate": [1]}, "classes": [plain]}, name, {name: dict(table)}
    )


def _read(path: Path) -> str:
    try:
        return read_text(path, MOST_BYTES, regular=True)
    except FileNotFoundError:
        return ""
    except Unreadable as e:
        raise ConfigError(f"{path}: cannot be read ({e}); mend it") from None


def _tables(text: str, path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise ConfigError(f"{path}: cannot be read ({e}); mend that line") from None
    wrong = [name for name, table in found.items() if not isinstance(table, dict)]
    if wrong:
        raise ConfigError(f"{path}: {wrong[0]} is not a table; write [{wrong[0]}] and its keys below")
    return found


def _changed(text: str, name: str, wanted: Mapping[str, str]) -> str:
    """The text with the editable keys of the table replaced, taken away or added below its header."""
    lines = text.splitlines(keepends=True)
    start, end = _span(lines, name, Path(FILE))
    own = [line for line in lines[start + 1 : end] if not _sets_editable(line)]
    head = lines[start] if lines[start].endswith("\n") else lines[start] + "\n"
    return "".join([*lines[:start], head, _lines(wanted), *own, *lines[end:]])


def _sets_editable(line: str) -> bool:
    key = re.match(r"""\s*["']?([A-Za-z_]+)["']?\s*=""", line)
    return key is not None and key[1] in EDITABLE


def _span(lines: list[str], name: str, path: Path) -> tuple[int, int]:
    """Lines of the table: its header, and where the next header begins. Raises ConfigError when it has no header."""
    headers = [(i, found) for i, line in enumerate(lines) if (found := _header(line)) is not None]
    start = next((i for i, found in headers if found == [name]), None)
    if start is None:
        raise ConfigError(f"{path}: {name} is not written as a table [{name}]; change it with a text editor")
    return start, next((i for i, _ in headers if i > start), len(lines))


def _header(line: str) -> list[str] | None:
    """The path of a table header such as ["my nas".control]; None for any other line."""
    if not line.lstrip().startswith("["):
        return None
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path = []
    while isinstance(found, dict) and found:
        (key, found), *_ = found.items()
        path.append(key)
    return path


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())


def _gap(text: str) -> str:
    return "\n" if not text or text.endswith("\n") else "\n\n"


def _write_checked(path: Path, text: str, expected: Mapping[str, Any]) -> None:
    """Replaces the file in one step, if what it says is what is expected and nothing else has changed."""
    try:
        same = tomllib.loads(text.encode().decode()) == expected
    except (tomllib.TOMLDecodeError, UnicodeError):
        same = False
    if not same:
        raise ConfigError(f"{path}: is written in a way that only a text editor can change; change it there")
    half = path.with_name(f".{FILE}.part")
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(path)
    except OSError as e:
        raise write_error(path, e) from None
