"""The quick check in words: its button's sweep, and its answer as one sentence."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app import jobs
from app.live_lines import known_rows
from app.words import Words
from runner.config import SweepConfig
from runner.engines.address import server_root
from runner.engines.check import check_control
from runner.errors import ConfigError
from runner.quick_check import SOURCE, QuickAnswer, quick_answer, quick_check
from storage.side_files import SweepSummary, read_lines

MOST_NAME = 200  # characters of a sweep's name


def start(data_dir: Path, backend: Mapping[str, Any], title: str, w: Words) -> str:
    """Queues the check of a server as it is; returns the sweep's id. Raises GoodputError in one sentence."""
    config = config_of(backend, title, w)
    check_control(config)
    return jobs.start_sweep(data_dir, config, SOURCE)


def config_of(backend: Mapping[str, Any], title: str, w: Words) -> SweepConfig:
    """The sweep, named after the server: `Quick check: llama.cpp at 127.0.0.1:8080`. Raises ConfigError."""
    url = str(backend.get("url") or "").strip()
    if not url:
        raise ConfigError(w.text("Type the address of the server, such as http://127.0.0.1:8080."))
    where = server_root(url).partition("://")[2]
    name = w.text("Quick check: {server} at {address}", server=title, address=where)
    shown = "".join(ch if ch.isprintable() else " " for ch in name)[:MOST_NAME]
    return quick_check(backend, shown)


def told(sweep: SweepSummary, w: Words) -> str | None:
    """The answer of a quick check that has ended; null for any other sweep. Reads the four lines of its cells."""
    if sweep.source != SOURCE or sweep.status not in ("done", "stopped", "failed"):
        return None
    return sentence(known_rows(read_lines(sweep.folder, "cells.jsonl")), w)


def sentence(cells: Sequence[Mapping[str, Any]], w: Words) -> str | None:
    """`4 people can chat at once: first words in 0.8 s, 22 tok/s each.` Null when no cell was measured.

    `cells`: of a result object, or lines of cells.jsonl.
    """
    answer = quick_answer(cells)
    if answer is None:
        return None
    if answer.ttft_ms is None and answer.tok_per_s is None:
        return w.text("Nobody got an answer within the time of the check.")
    return f"{_head(answer, w)} {_how(answer, w)}"


def _head(answer: QuickAnswer, w: Words) -> str:
    if not answer.people:
        return w.text("Not even 1 person gets every word in time:")
    if answer.all_hold:
        return w.plural("At least {n} person can chat at once:", "At least {n} people can chat at once:", answer.people)
    return w.plural("{n} person can chat at once:", "{n} people can chat at once:", answer.people)


def _how(answer: QuickAnswer, w: Words) -> str:
    ttft, rate = w.ms(answer.ttft_ms), w.per_s(answer.tok_per_s, "tok")
    if answer.ttft_ms is None:
        return w.text("{rate} each.", rate=rate)
    if answer.tok_per_s is None:
        return w.text("first words in {ttft}.", ttft=ttft)
    return w.text("first words in {ttft}, {rate} each.", ttft=ttft, rate=rate)


def small_print(w: Words) -> str:
    """What the sentence leaves out."""
    return w.text(
        "Short chats: first words within 1 s and no pause over 150 ms for 90 % of the answers. About 15 s for each "
        "number of people, so read it as indicative; a sweep proves it."
    )
