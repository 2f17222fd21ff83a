"""Servers that were found on this host, as plain text. PURE."""

from collections.abc import Mapping, Sequence
from typing import Any

MOST_MODELS = 3  # names in a row; a server may list dozens


def servers_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of the rows of `goodput discover --json`, each with what is worth knowing below it."""
    head = ("server", "version", "url", "api", "models", "metrics", "key")
    cells = [head, *(_row(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    out = lines[:1]
    for line, row in zip(lines[1:], rows, strict=True):
        below = [*row["notes"], *([row["metrics_hint"]] if row["metrics_hint"] else [])]
        out += [line, *(f"    {printable(note)}" for note in below)]
    return "\n".join(out)


def models_text(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(printable(name) for name in names[:MOST_MODELS])
    return f"{shown} +{len(names) - MOST_MODELS}" if len(names) > MOST_MODELS else shown


def printable(text: str) -> str:
    """What a server says, without what would steer a terminal."""
    return "".join(ch if ch.isprintable() else "\ufffd" for ch in text)


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    metrics = {True: "yes", False: "off", None: "-"}[row["metrics"]]
    key = "wanted" if row["needs_key"] else "-"
    return (
        row["title"],
        printable(row["version"] or "-"),
        row["url"],
        row["api"],
        models_text(row["models"]) or "-",
        metrics,
        key,
    )
