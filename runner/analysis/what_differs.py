"""What two sweeps differ in: settings, start command, backend, machine, workload, run. Only that is listed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runner.analysis.prepare import Prepared
from runner.config import RequestClass, SweepConfig

Json = dict[str, Any]
# moments of the machine and its resolution, not the machine; the name and the kernel clock are told elsewhere
MOMENTARY = frozenset(
    {"load_average_1m", "busy_share_at_start", "busy_at_start", "clock_resolution_ns", "hostname", "time"}
)
UNTOLD_RUN = frozenset({"share_target"})


def what_differs(a: Prepared, b: Prepared) -> list[Json]:
    """[{"where", "key", "a", "b"}] in the order of the places below; null where a side does not have the key."""
    one, other = a.config, b.config
    places: list[tuple[str, Json, Json]] = [
        ("setting", _grid(one, one.server_grid), _grid(other, other.server_grid)),
        ("control", *_control(one, other)),
        ("backend", flat(a.tables.meta["backend"]), flat(b.tables.meta["backend"])),
        ("server", _server(a), _server(b)),
        ("environment", _environment(a), _environment(b)),
        ("workload", _workload(one), _workload(other)),
        ("run", _run(one), _run(other)),
    ]
    return [
        {"where": where, "key": key, "a": left.get(key), "b": right.get(key)}
        for where, left, right in places
        for key in dict.fromkeys([*left, *right])
        if left.get(key) != right.get(key)
    ]


def flat(value: Mapping[str, Any], prefix: str = "") -> Json:
    """Nested names joined by a dot; lists stay values; nulls left out."""
    out: Json = {}
    for key, inner in value.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(inner, Mapping):
            out |= flat(inner, name)
        elif inner is not None:
            out[name] = inner
    return out


def _grid(config: SweepConfig, keys: Mapping[str, Sequence[Any]]) -> Json:
    """One value as itself, several as their list."""
    return {k: config.grid[k][0] if len(config.grid[k]) == 1 else list(config.grid[k]) for k in keys}


def _control(one: SweepConfig, other: SweepConfig) -> tuple[Json, Json]:
    """How settings are applied; the commands too, unless one of them is not told (as in a file from elsewhere)."""
    modes = {"mode": one.control.mode}, {"mode": other.control.mode}
    if not one.control.command or not other.control.command:
        return modes
    return {**modes[0], **_command(one)}, {**modes[1], **_command(other)}


def _command(config: SweepConfig) -> Json:
    """Flags of the start command with their values, what has no flag by its place, and the variables it is given."""
    out: Json = {}
    words = list(config.control.command or ())
    at = 0
    while at < len(words):
        word = words[at]
        follows = words[at + 1] if at + 1 < len(words) else "-"
        if word.startswith("-") and "=" in word:
            name, _, value = word.partition("=")
            out[name] = value
        elif word.startswith("-"):
            out[word] = True if _is_flag(follows) else follows
            at += not _is_flag(follows)
        else:
            out[f"word {at + 1}"] = word
        at += 1
    return out | {f"env.{k}": v for k, v in config.control.env.items()}


def _is_flag(word: str) -> bool:
    """-t and --port are, -1 is a value."""
    return word.startswith("-") and not word[1:2].isdigit()


def _server(prepared: Prepared) -> Json:
    """What the servers said of themselves when the first cell began."""
    if "server" not in prepared.tables.cells:
        return {}
    told = [t for t in prepared.tables.cells["server"] if isinstance(t, str)]
    found = flat(json.loads(told[0])) if told else {}
    return {k: v for k, v in found.items() if k != "notes"}


def _environment(prepared: Prepared) -> Json:
    facts = flat(prepared.tables.meta["environment"] or {})
    return {k: v for k, v in facts.items() if k.split(".")[0] not in MOMENTARY}


def _workload(config: SweepConfig) -> Json:
    loads = {k: v for k, v in config.grid.items() if k not in config.server_grid}
    out = _grid(config, loads)
    for c in config.classes:
        out |= _class(c)
    return out


def _class(c: RequestClass) -> Json:
    facts = c.model_dump(mode="json", exclude={"name"})
    return {f"{c.name}.{k}": v for k, v in flat(facts).items()}


def _run(config: SweepConfig) -> Json:
    return {k: v for k, v in flat(config.run.model_dump(mode="json")).items() if k not in UNTOLD_RUN}
