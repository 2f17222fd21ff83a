"""The command of one setting: templates filled, secrets taken out of what is shown. PURE."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from runner.config import ENGINE_KEYS, Backend, Scalar
from runner.engines.catalogue import KINDS, EngineKind
from runner.errors import ConfigError
from runner.protocols.scrub import scrub
from runner.secret_names import VARIABLE, is_secret_name, secret_flags

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_BACKEND_KEYS = ("scheduler", "preset", "profile", "kv_tokens", "policy")  # of the built-in engine
_COST_SOURCES = ("preset", "profile", "cost")


def placeholders(parts: Sequence[str]) -> set[str]:
    """Names in braces: {max_num_seqs} -> max_num_seqs. Other braces (JSON in a flag) are left alone."""
    return {name for part in parts for name in PLACEHOLDER.findall(part)}


def fill_command(
    command: Sequence[str], setting: Mapping[str, Scalar], extra: Mapping[str, Scalar] | None = None
) -> list[str]:
    """Puts the setting's values (and `extra`, such as the port) into a command template, argument by argument.

    Raises ConfigError when a placeholder has no value.
    """
    values = {**(extra or {}), **setting}
    return [PLACEHOLDER.sub(lambda m: _shown(values, m.group(1)), part) for part in command]


def with_variables(env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """`${NAME}` in a value replaced by that environment variable; one that is not set is left as it is."""
    return {k: VARIABLE.sub(lambda m: environ.get(m.group()[2:-1], m.group()), v) for k, v in env.items()}


def _shown(values: Mapping[str, Scalar], name: str) -> str:
    if name not in values:
        known = ", ".join(f"{{{k}}}" for k in values) or "none"
        raise ConfigError(
            f"control: {{{name}}} has no value (known: {known}); add {name} to [grid] or write the value itself"
        )
    value = values[name]
    return str(value).lower() if isinstance(value, bool) else str(value)


def simulator_args(backend: Backend, setting: Mapping[str, Scalar]) -> list[str]:
    """Flags of the built-in engine: the backend's keys, overruled by the setting's."""
    given: dict[str, object] = {k: getattr(backend, k) for k in _BACKEND_KEYS}
    if backend.cost is not None:
        given["cost"] = ",".join(f"{k}={v}" for k, v in backend.cost.model_dump(exclude_none=True).items())
    given |= {k: getattr(backend, k) for k in ENGINE_KEYS}
    if any(k in setting for k in _COST_SOURCES):
        given |= dict.fromkeys(_COST_SOURCES)  # the setting's own source replaces the backend's
    given |= setting
    return [part for k, v in given.items() if v is not None for part in (f"--{k.replace('_', '-')}", str(v))]


def secrets_of(command: Sequence[str], env: Mapping[str, str], key: str | None) -> list[str]:
    """The values that must never be shown: the API key, and what stands behind --api-key, HF_TOKEN and the like."""
    found = {value for _, value in secret_flags(command)} | {v for k, v in env.items() if is_secret_name(k)}
    if key:
        found.add(key)
    return sorted((v for v in found if v and not v.startswith("-")), key=len, reverse=True)


def shown_line(command: Sequence[str], env: Mapping[str, str], secrets: Sequence[str]) -> str:
    """The start line ready to paste into a shell, environment first, secrets as ***."""
    assigned = [f"{k}={shlex.quote(v)}" for k, v in env.items()]
    return scrub(" ".join([*assigned, shlex.join(command)]), secrets)


def setting_line(
    kind: str, setting: Mapping[str, Scalar], *, model: str | None = None, port: int | None = None
) -> str | None:
    """How a server of this kind is given the setting, ready to paste: a start line with its flags or environment
    variables, or lines of its settings file. Null when there is nothing to set, or no key of it has a known name.

    What has no known name stands behind a `#`, so that the line is never silently less than the setting.
    """
    engine = KINDS[kind]
    names_model = "MODEL" in engine.start or "model" in engine.file_keys
    known = {k: v for k, v in setting.items() if engine.knows(k) or (k == "model" and names_model)}
    if not known:
        return None
    lines = _file_lines(engine, known)
    flags = [part for k, v in known.items() for part in _flags(engine, k, v)]
    variables = [f"{engine.variables[k]}={shlex.quote(_text(v))}" for k, v in known.items() if k in engine.variables]
    if engine.start and not lines:
        lines.append(
            " ".join([*variables, *_start(engine, str(setting.get("model") or model or "MODEL"), port), *flags])
        )
    if unknown := [f"{k} = {_text(v)}" for k, v in setting.items() if k not in known]:
        lines.append(f"# no known name for: {', '.join(unknown)}")
    return "\n".join(lines)


def setting_fragment(kind: str, setting: Mapping[str, Scalar]) -> str | None:
    """Only what the setting adds to the start of a server of this kind, on one line: variables, flags, keys of its
    settings file. Null when no key of it has a known name."""
    engine = KINDS[kind]
    variables = [f"{engine.variables[k]}={shlex.quote(_text(v))}" for k, v in setting.items() if k in engine.variables]
    flags = [part for k, v in setting.items() for part in _flags(engine, k, v)]
    keys = [f"{engine.file_keys[k]} = {_text(v)}" for k, v in setting.items() if k in engine.file_keys]
    parts = [f"{', '.join(keys)} in {engine.settings_file}"] if keys else []
    return "; ".join([*([" ".join([*variables, *flags])] if variables or flags else []), *parts]) or None


def suggested_line(backend: Mapping[str, Any], setting: Mapping[str, Scalar]) -> str | None:
    """`setting_line` for a stored backend whose server we did not start; null for a kind that is not known, and for
    the built-in engine, whose hardware is not in the setting."""
    kind, model, url = backend.get("kind"), backend.get("model"), backend.get("url")
    if kind not in KINDS or kind == "simulated":
        return None
    try:
        port = urlsplit(str(url)).port if url else None
    except ValueError:  # as another tool's file may have it
        port = None
    return setting_line(str(kind), setting, model=model, port=port)


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start(engine: EngineKind, model: str, port: int | None) -> list[str]:
    """The start line of the catalogue; a model that is not known stays the word MODEL, to be replaced by hand."""
    parts = [part.format(port=port or engine.default_port) for part in engine.start]
    return [shlex.quote(model if part == "MODEL" else part) for part in parts]


def _flags(engine: EngineKind, key: str, value: Scalar) -> list[str]:
    if key in engine.switches:
        on, off = engine.switches[key]
        return [on if value is True or _text(value) == "true" else off]
    return [engine.flags[key], shlex.quote(_text(value))] if key in engine.flags else []


def _file_lines(engine: EngineKind, known: Mapping[str, Scalar]) -> list[str]:
    """`model.max_batch_size` -> the section and the key below it, as YAML."""
    lines: list[str] = []
    for key, value in known.items():
        if key in engine.file_keys:
            section, _, name = engine.file_keys[key].rpartition(".")
            if section and f"{section}:" not in lines:
                lines.append(f"{section}:")
            lines.append(f"{'  ' if section else ''}{name}: {_text(value)}")
    return [f"# {engine.settings_file}", *lines] if lines else []
