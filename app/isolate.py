"""A server by name, address or sweep file -> the sweep of its isolation experiment. Imports no Streamlit."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.backends import sweep_kind
from runner.config import SweepConfig, parse_sweep
from runner.engines.address import is_web_address
from runner.engines.catalogue import KINDS
from runner.engines.knowledge import POLICY_HOW
from runner.errors import ConfigError
from runner.isolation_plan import Pace, Wishes, usual_sweep, with_arms
from runner.load.workload import PromptScale, RequestSpec, make_prompt
from runner.once import detect_once, inspect_once, probe_once, room_once
from runner.saved_backends import saved_backends
from runner.simulator.cost_model import BatchShape, iteration_ms
from runner.simulator.virtual_server import stand_for
from runner.sweep_file import load_sweep
from runner.web_address import with_scheme

LOOK_PROMPT, LOOK_ANSWER = 120, 24  # tokens of the two requests that tell the pace


def isolation_config(data_dir: Path, named: str, wishes: Wishes, own: Mapping[str, str] | None = None) -> SweepConfig:
    """`named`: a sweep file, a saved backend, or a URL; `own`: keys of [backend] beside a URL. Sends two requests to a
    server that runs. Raises ConfigError."""
    if is_sweep_file(named):
        return with_arms(load_sweep(Path(named), saved_backends(data_dir)), wishes.caps)
    saved = saved_backends(data_dir)
    if named in saved:
        return backend_config(named, saved[named], wishes)
    if not (set(":.") & set(named) and is_web_address(named)):
        known = ", ".join(saved) or "none yet"
        raise ConfigError(
            f"{named} is neither a sweep file, nor a saved backend (saved: {known}), nor a web address such as "
            "http://host:port"
        )
    url = with_scheme(named)
    found = inspect_once(url, (own or {}).get("api_key_env"))
    kind = sweep_kind(found.as_json()) if found else "openai"
    title = KINDS[kind].title  # no address: the name goes with every shared page
    return backend_config(title, {"kind": kind, "url": url, **(own or {})}, wishes)


def is_sweep_file(named: str) -> bool:
    """By its name, as against a saved backend and a URL."""
    return Path(named).suffix in (".toml", ".json")


def backend_config(name: str, backend: Mapping[str, Any], wishes: Wishes) -> SweepConfig:
    """The usual experiment for one [backend] table. Raises ConfigError."""
    if backend.get("kind") == "simulated":
        return usual_sweep(name, backend, _calculated_pace(name, backend), None, wishes)
    url, key_env = str(backend.get("url")), backend.get("api_key_env")
    runs_later = (backend.get("control") or {}).get("mode") in ("process", "command")
    if runs_later and inspect_once(url, key_env) is None:
        return usual_sweep(name, backend, None, None, wishes)
    running = {k: v for k, v in backend.items() if k != "control" or not runs_later}  # it holds the port: as it runs
    pace, room = look_pace(backend), room_once(url, key_env)
    heeds = backend.get("kind") in POLICY_HOW and _takes_priority(backend)
    return usual_sweep(name, running, pace, room.context_tokens, wishes, heeds_priority=heeds)


def _takes_priority(backend: Mapping[str, Any]) -> bool:
    """Whether a running server answers a request that has a priority; vLLM refuses it unless its policy is priority."""
    asked = {k: backend.get(k) for k in ("api", "model", "api_key_env")}
    return detect_once(str(backend["url"]), **asked, kind=str(backend["kind"])).params.priority


def look_pace(backend: Mapping[str, Any]) -> Pace:
    """How fast a running server answers one request, by the second of two. Raises ConfigError when it does not."""
    answer: dict[str, Any] = {}
    for i in range(2):
        spec = RequestSpec(i, "look", 0, None, LOOK_PROMPT, LOOK_ANSWER, time.time_ns(), i)
        answer = probe_once(
            str(backend["url"]),
            api=backend.get("api"),
            model=backend.get("model"),
            prompt=make_prompt(spec, PromptScale()),
            max_tokens=LOOK_ANSWER,
            api_key_env=backend.get("api_key_env"),
        )
        if answer["outcome"] != "ok":
            raise ConfigError(f"{backend['url']} does not answer as it should: {answer['error_detail']}")
    prompt = float(answer["prompt_tokens"] or LOOK_PROMPT)
    token_ms = answer["tpot_ms"] or float(answer["ttft_ms"]) / prompt
    return Pace(float(answer["ttft_ms"]) / prompt, float(token_ms))


def _calculated_pace(name: str, backend: Mapping[str, Any]) -> Pace:
    chat = {"name": "chat", "rate": 1, "prompt_tokens": 1, "output_tokens": 1}
    raw = {"name": name, "backend": backend, "grid": {"chat_max_in_flight": [1]}, "classes": [chat]}
    cost = stand_for(parse_sweep(raw, name), {}, None).settings.profile.cost
    prompt = BatchShape(LOOK_PROMPT, LOOK_PROMPT**2)
    return Pace(iteration_ms(cost, prompt) / LOOK_PROMPT, iteration_ms(cost, BatchShape(0, 0, 1, LOOK_PROMPT)))
