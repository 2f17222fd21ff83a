"""Saved servers of the data folder, and the connection check. Commands come from the file, never from a browser."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.views.servers import models_text
from app.words import Words
from runner.engines.catalogue import KINDS
from runner.errors import ConfigError
from runner.once import discover_once, inspect_once

FILE = "backends.toml"
CHECK_S = 60.0  # a model may have to be loaded first


def saved_backends(data_dir: Path) -> dict[str, Any]:
    """The tables of backends.toml by name: keys of [backend], and a `control` table. Empty without the file.

    Raises ConfigError in one sentence when it can't be read.
    """
    path = data_dir / FILE
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise ConfigError(f"{path}: cannot be read ({e}); mend that line") from None
    wrong = [name for name, table in found.items() if not isinstance(table, dict)]
    if wrong:
        raise ConfigError(f"{path}: {wrong[0]} is not a table; write [{wrong[0]}] and its keys below")
    return found


def check_connection(backend: Mapping[str, Any], w: Words) -> tuple[bool, str]:
    """(it works, one sentence): one streamed request by `goodput probe`, in a process that can be given up."""
    flags = [
        f"--{flag}={backend[key]}"
        for key, flag in (("model", "model"), ("api_key_env", "api-key-env"))
        if backend.get(key)
    ]
    command = [sys.executable, "-m", "app.cli", "probe", "--json", *flags, "--", str(backend["url"])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_S, check=False)
    except subprocess.TimeoutExpired:
        return False, w.text("No answer within {seconds} s.", seconds=w.count(CHECK_S))
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return False, done.stderr.strip().removeprefix("goodput: ") or w.text("The check itself failed.")
    return answer.get("outcome") == "ok", check_sentence(answer, w)


def check_sentence(answer: Mapping[str, Any], w: Words) -> str:
    """A request object in one sentence."""
    if answer.get("outcome") != "ok":
        kind = str(answer.get("error_kind") or answer.get("outcome")).replace("_", " ")
        return w.text(
            "It does not answer as it should: {kind}. {detail}", kind=kind, detail=answer.get("error_detail") or ""
        )
    return w.text(
        "It answers: first words after {ttft}, {tokens} tokens, {gap} each.",
        ttft=w.ms(answer.get("ttft_ms")),
        tokens=w.count(answer.get("output_tokens")),
        gap=w.ms(answer.get("tpot_ms")),
    )


def servers_here() -> list[dict[str, Any]]:
    """The rows of `goodput discover --json`; takes under three seconds."""
    return [found.as_json() for found in discover_once()]


def what_it_says(backend: Mapping[str, Any], w: Words) -> list[str]:
    """What the server at that address turned out to be, in sentences: kind, models, what is missing. Empty when it
    answers as no known kind would."""
    found = inspect_once(str(backend["url"]), backend.get("api_key_env") or None)
    return server_sentences(found.as_json(), str(backend.get("kind")), w) if found else []


def server_sentences(row: Mapping[str, Any], chosen: str | None, w: Words) -> list[str]:
    """A row of `goodput discover --json` in sentences. `chosen`: the kind that the user picked, if one was."""
    name = " ".join(filter(None, [row["title"], row["version"]]))
    if row["models"]:
        out = [w.text("{name}, with {models}.", name=name, models=models_text(row["models"]))]
    else:
        out = [w.text("{name}.", name=name)]
    if chosen is not None and sweep_kind(row) not in ("openai", chosen):
        out.append(
            w.text("Choose the kind {kind}, so that it is asked in its own way.", kind=KINDS[sweep_kind(row)].title)
        )
    if row["metrics"]:
        out.append(w.text("It shows its metrics: queue and batch will stand beside what the client sees."))
    elif row["metrics_hint"]:
        out.append(w.text("Metrics: {hint}.", hint=w.text(row["metrics_hint"])))
    return [*out, *(w.text(note) for note in row["notes"])]


def sweep_kind(row: Mapping[str, Any]) -> str:
    """The kind under which a found server is measured: a running built-in engine has vLLM's metrics."""
    return "vllm" if row["kind"] == "simulated" else str(row["kind"])
