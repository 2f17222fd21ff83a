"""What servers say of themselves, in sentences: found ones, saved ones, the connection check."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from app.views.cells import error_text
from app.views.servers import models_text
from app.words import Words
from runner.engines.address import is_web_address
from runner.engines.catalogue import KINDS
from runner.engines.hook import OUR_NAMES
from runner.engines.start_line import placeholders
from runner.once import discover_once, inspect_once, room_once

CHECK_S = 60.0  # a model may have to be loaded first


def settings_sentences(saved: Mapping[str, Any], w: Words) -> list[str]:
    """How the settings of a saved backend are applied; of its command only the program is named."""
    control = saved.get("control") or {}
    mode = control.get("mode") or "none"
    command = control.get("command") or [""]
    program = PurePath(str(command[0])).name
    keys = ", ".join(varied_by(saved))
    told = {
        "none": w.text("Its settings stay as they are; only the load is varied."),
        "manual": w.text("Its settings are changed by hand: the sweep waits and says what to change."),
        "process": w.text("Goodput Lab starts it anew for each setting: {program}.", program=program),
        "command": w.text("A command of yours changes its settings: {program}.", program=program),
    }
    sentence = told.get(str(mode), str(mode))
    return [sentence, w.text("It can vary {keys}.", keys=keys)] if keys else [sentence]


def varied_by(saved: Mapping[str, Any]) -> list[str]:
    """Settings that the command of a saved backend takes: its placeholders but those that we fill in ourselves."""
    control = saved.get("control") or {}
    texts = [*(control.get("command") or ()), *(control.get("env") or {}).values()]
    return sorted(placeholders([str(text) for text in texts]) - set(OUR_NAMES))


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
        return False, w.said(done.stderr.strip().removeprefix("goodput: ")) or w.text("The check itself failed.")
    return answer.get("outcome") == "ok", check_sentence(answer, w)


def check_sentence(answer: Mapping[str, Any], w: Words) -> str:
    """A request object in one sentence."""
    if answer.get("outcome") != "ok":
        kind = error_text(str(answer.get("error_kind") or answer.get("outcome")), w)
        detail = w.said(answer.get("error_detail") or "")
        return w.text("It does not answer as it should: {kind}. {detail}", kind=kind, detail=detail)
    return w.text(
        "It answers: first words after {ttft}, {tokens} tokens, {gap} each.",
        ttft=w.ms(answer.get("ttft_ms")),
        tokens=w.count(answer.get("output_tokens")),
        gap=w.ms(answer.get("tpot_ms")),
    )


def key_sentence(api_key_env: str | None, w: Words) -> str | None:
    """Whether the variable that holds the key is set where we run; null without one. The key itself is never told."""
    if not api_key_env:
        return None
    if os.environ.get(api_key_env):
        return w.text("Its key is in the environment variable {name}.", name=api_key_env)
    return w.text("The environment variable {name} is not set where Goodput Lab runs: set it and start anew.",
                  name=api_key_env)  # fmt: skip


def servers_here() -> list[dict[str, Any]]:
    """The rows of `goodput discover --json`; takes under three seconds."""
    return [found.as_json() for found in discover_once()]


def look_at(url: str, w: Words) -> tuple[dict[str, Any] | None, str | None]:
    """(the row of `goodput discover --json` for a typed address, why it can't be measured): what it says of itself,
    and where it says nothing, one test request. A row is null for a server of no known kind."""
    if not is_web_address(url):
        return None, w.text("{url} is not a web address; write it as http://host:port.", url=url)
    found = inspect_once(url)
    if found is None:
        fine, sentence = check_connection({"url": url}, w)
        return None, None if fine else sentence
    row = found.as_json()
    if row["needs_key"]:
        return row, w.text(
            "It wants an API key: save it under Backends with the name of a variable that holds the key."
        )
    return row, None


def what_it_says(backend: Mapping[str, Any], w: Words) -> list[str]:
    """What the server at that address turned out to be, in sentences: kind, models, what is missing. Empty when it
    answers as no known kind would."""
    found = inspect_once(str(backend["url"]), backend.get("api_key_env") or None)
    return server_sentences(found.as_json(), str(backend.get("kind")), w) if found else []


def context_tokens(backend: Mapping[str, Any]) -> int | None:
    """Prompt and answer of one request, at most, as a server that runs tells it (a slot of llama.cpp)."""
    return room_once(str(backend["url"]), backend.get("api_key_env") or None).context_tokens


def server_sentences(row: Mapping[str, Any], chosen: str | None, w: Words) -> list[str]:
    """A row of `goodput discover --json` in sentences. `chosen`: the kind that the user picked, if one was."""
    name = " ".join(filter(None, [row["title"], row["version"]]))
    if row["models"]:
        # llama.cpp may call a model by the path of its file
        names = [model.rsplit("/", 1)[-1] or model if model.startswith("/") else model for model in row["models"]]
        out = [w.text("{name}, with {models}.", name=name, models=models_text(names))]
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
    return [*out, *(w.said(note) for note in row["notes"])]


def sweep_kind(row: Mapping[str, Any]) -> str:
    """The kind under which a found server is measured: a running built-in engine has vLLM's metrics."""
    return "vllm" if row["kind"] == "simulated" else str(row["kind"])
