"""What the views ask of a result object's cells: names, loads, validity. PURE."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.words import ENGLISH, Words
from runner.analysis.warnings import INVALIDATING
from runner.config import is_load_key

Cell = Mapping[str, Any]
Result = Mapping[str, Any]
LOAD_AXES = ("request_rate", "max_concurrency", "load_scale")
PERCENTILES = ("p50", "p90", "p95", "p99")  # of times, as the pages offer and list them


def flag_text(flag: str, words: Words = ENGLISH) -> str:
    """A flag in plain words; an unknown one (from a newer version) as it is."""
    known = {
        "client_saturated": words.text("the load generator itself was the limit"),
        "send_lag": words.text("requests were sent late"),
        "machine_busy": words.text("other programs took the processors"),
        "rate_not_reached": words.text("the offered rate was not reached"),
        "prefix_cached": words.text("prompts were served from the prefix cache"),
        "prefix_share_not_held": words.text("the prefix cache did not serve what the prompts share"),
        "cold_load": words.text("the model was loaded during the measurement"),
        "output_length_not_held": words.text("answers were not of the planned length"),
        "prompt_length_mismatch": words.text("prompts were not of the planned length"),
        "stream_buffered": words.text("something between here and the server buffers the stream"),
        "server_restarted": words.text("the server restarted during the measurement"),
        "server_serialises": words.text("the server answers one request at a time"),
        "no_steady_state": words.text("no steady state"),
        "low_n": words.text("too few requests"),
        "overload": words.text("not sustainable: the queue keeps growing"),
        "multi_token_chunks": words.text("several tokens arrive in one chunk"),
        "tokens_estimated": words.text("token counts are estimated"),
        "malformed_events": words.text("some events could not be read"),
        "no_terminator": words.text("streams ended without an end mark"),
        "clock_stepped": words.text("the clock was set, or the machine slept"),
    }
    return known.get(flag, flag.replace("_", " "))


def error_text(kind: str, words: Words = ENGLISH) -> str:
    """What kind of error it was, in plain words; an unknown one as it is."""
    known = {
        "port_in_use": words.text("port in use"),
        "not_ready": words.text("not ready"),
        "exited": words.text("exited"),
        "out_of_memory": words.text("out of memory"),
        "unreachable": words.text("unreachable"),
        "bad_command": words.text("bad command"),
        "server_hung": words.text("server hung"),
        "hook_failed": words.text("hook failed"),
        "hook_timeout": words.text("hook timeout"),
        "not_restarted": words.text("not restarted"),
        "connect": words.text("connect"),
        "truncated": words.text("truncated"),
        "empty_stream": words.text("empty stream"),
        "timeout": words.text("timeout"),
        "http_error": words.text("http error"),
        "server_error": words.text("server error"),
        "unauthorized": words.text("unauthorized"),
        "model_not_found": words.text("model not found"),
        "rate_limited": words.text("rate limited"),
        "overloaded": words.text("overloaded"),
        "bad_request": words.text("bad request"),
        "context_overflow": words.text("context overflow"),
        "cancelled": words.text("cancelled"),
        "hopeless": words.text("hopeless"),
        "failed": words.text("failed"),
    }
    return known.get(kind, kind.replace("_", " "))


def cells_of(result: Result) -> list[Cell]:
    """All cells in order, the failed ones too."""
    return list(result.get("cells") or [])


def shown_number(number: int) -> int:
    """A cell's or repeat's number for people, who count from 1; files, JSON and CSV count from 0."""
    return number + 1


def asides(cell: Cell, words: Words = ENGLISH) -> list[str]:
    """What else is known of a cell, as sentences: model loads, and what was noted of the server when it began."""
    loads, longest = cell.get("cold_loads") or 0, cell.get("cold_load_max_ms")
    told = []
    if loads:
        told.append(
            words.plural(
                "{n} answer waited {time} for the model to be loaded: its promise counts, its times are left out.",
                "{n} answers waited up to {time} for the model to be loaded: their promises count, their times are "
                "left out.",
                loads,
                time=words.ms(longest),
            )
        )
    elif longest is not None:
        told.append(words.text("The model was loaded during the warm-up, in {time}.", time=words.ms(longest)))
    return told + [words.said(note) for note in cell.get("notes") or []]


def measured(result: Result) -> list[Cell]:
    """Cells that ran to their end and have a goodput."""
    return [c for c in cells_of(result) if c.get("status") == "ok" and c.get("goodput_per_s") is not None]


def why_invalid(cell: Cell, words: Words = ENGLISH) -> str | None:
    """Why a point can't be chosen, in words; None for a valid one."""
    if cell.get("status") != "ok":
        return failure(cell, words)
    flags = [f for f in cell.get("flags") or [] if f in INVALIDATING]
    if cell.get("valid") is True or (not flags and cell.get("valid") is None):
        return None
    return "; ".join(flag_text(f, words) for f in flags) or words.text("not valid")


def failure(cell: Cell, words: Words = ENGLISH) -> str:
    """What became of a cell without numbers, in words."""
    if cell.get("status") == "skipped":
        return words.text("skipped")
    if waits(cell):
        return words.text("not measured")
    kind = error_text(str(cell.get("error_kind") or cell.get("status") or "?"), words)
    return words.text("failed: {kind}", kind=kind)


def waits(cell: Cell) -> bool:
    """Whether the sweep ended before this cell was measured: it is neither good nor bad."""
    return cell.get("status") in ("pending", "running")


def key_of(setting: Mapping[str, Any]) -> str:
    """A setting as one comparable string."""
    return json.dumps(dict(setting), sort_keys=True, ensure_ascii=False, default=str)


def varying_keys(settings: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys that differ between settings, in the order they first appear; all keys when there is one setting."""
    rows = list(settings)
    keys = list(dict.fromkeys(k for s in rows for k in s))
    varying = [k for k in keys if len({json.dumps(s.get(k), default=str) for s in rows}) > 1]
    return varying or keys


def setting_name(setting: Mapping[str, Any], keys: Sequence[str], words: Words = ENGLISH) -> str:
    """`max_num_seqs 16, max_num_batched_tokens 512`: field's own names, only the keys that vary."""
    named = [f"{k} {setting[k]}" for k in keys if k in setting]
    return ", ".join(named) or words.text("the server as it is")


def settings_of(result: Result) -> dict[str, dict[str, Any]]:
    """Every setting once, by its key string, in running order."""
    return {key_of(c.get("setting") or {}): dict(c.get("setting") or {}) for c in cells_of(result)}


def setting_names(result: Result, words: Words = ENGLISH) -> dict[str, str]:
    """Readable name of every setting, by key string."""
    settings = settings_of(result)
    keys = varying_keys(settings.values())
    return {k: setting_name(s, keys, words) for k, s in settings.items()}


def short_names(result: Result, words: Words = ENGLISH) -> dict[str, str]:
    """`32 · 512`: the values alone, for legends whose title (`short_title`) names the keys; by key string."""
    settings = settings_of(result)
    keys = varying_keys(settings.values())
    return {
        k: " · ".join(str(s[key]) for key in keys if key in s) or words.text("the server as it is")
        for k, s in settings.items()
    }


def short_title(result: Result) -> str:
    """`max_num_seqs · max_num_batched_tokens`: what the parts of a short name are."""
    return " · ".join(varying_keys(settings_of(result).values()))


def load_of(cell: Cell) -> tuple[str, float | None]:
    """(load axis, value) of a cell: request_rate, max_concurrency or load_scale; ("load", None) without one."""
    load = cell.get("load") or {}
    for axis in LOAD_AXES:
        value = load.get(axis, cell.get(axis))
        if value is not None:
            return axis, float(value)
    return "load", None


def extra_load(cell: Cell) -> dict[str, Any]:
    """The load keys beside the main axis, such as background_max_in_flight, and the class that was sent alone."""
    return {k: v for k, v in (cell.get("load") or {}).items() if k not in LOAD_AXES and is_load_key(k)}


def load_title(axis: str, words: Words = ENGLISH) -> str:
    """Axis title of a load axis, with its unit."""
    titles = {
        "request_rate": words.text("offered load (requests/s)"),
        "max_concurrency": words.text("requests at once"),
        "load_scale": words.text("load scale (×)"),
    }
    return titles.get(axis, words.text("load"))


def load_name(cell: Cell, words: Words = ENGLISH) -> str:
    """`2 req/s`, `8 at once`, `×1.5`, with dispatcher caps after it."""
    axis, value = load_of(cell)
    shown = words.short(value) if value is not None else ""
    main = {
        "request_rate": words.text("{rate} req/s", rate=shown),
        "max_concurrency": words.text("{count} at once", count=shown),
        "load_scale": f"×{shown}",
    }.get(axis, "")
    return ", ".join([main] * bool(main) + [f"{k} {v}" for k, v in extra_load(cell).items()])


def interactive_classes(result: Result) -> list[str]:
    """Names of the classes with targets, in the order of the first cell that has them."""
    targets = result.get("targets")
    names = list(dict.fromkeys(n for c in cells_of(result) for n in (c.get("classes") or {})))
    if targets:
        return [n for n in names if targets.get(n)] or list(targets)
    return [
        n for n in names if any((c.get("classes") or {}).get(n, {}).get("share") is not None for c in measured(result))
    ]


def promised(cell: Cell) -> Cell:
    """The cell with the times of those who were promised something: beside work without targets those of its slowest
    class with targets, or a pile of documents would stand for the first words of a chat."""
    classes = list((cell.get("classes") or {}).values())
    told = [x for x in classes if x.get("share") is not None]
    if not told or len(told) == len(classes):
        return cell
    slowest = {m: max((x.get(m) or {} for x in told), key=_slowness) for m in ("ttft_ms", "gap_ms")}
    return {**cell, **slowest}


def _slowness(times: Mapping[str, Any]) -> float:
    return float(next((times[n] for n in ("p95", "p90", "p50") if times.get(n) is not None), 0.0))


def percentile(cell: Cell, metric: str, name: str) -> float | None:
    """One percentile of a cell in ms; None where the sample is too small for it."""
    value = (cell.get(metric) or {}).get(name)
    return float(value) if value is not None else None


def percentile_text(cell: Cell, metric: str, name: str, words: Words = ENGLISH) -> str:
    """One percentile of a cell with its unit, or why there is none."""
    value = percentile(cell, metric, name)
    return words.ms(value) if value is not None else words.text("n too small")


def by_load(cells: Sequence[Cell], setting_key: str) -> list[Cell]:
    """The cells of one setting, by load then repeat."""
    return by_settings(cells).get(setting_key, [])


def by_settings(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells of each setting, by load then repeat; by key string."""
    found: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda c: (load_of(c)[1] or 0.0, c.get("repeat") or 0)):
        found.setdefault(key_of(cell.get("setting") or {}), []).append(cell)
    return found


def chosen_cell(result: Result) -> Cell | None:
    """The measured cell of the choice: its setting at its load; the best goodput among repeats."""
    choice = result.get("choice") or {}
    if not choice.get("setting") and not measured(result):
        return None
    told = [c for c in measured(result) if c["cell"] in (choice.get("cells") or [])]
    if told:
        return max(told, key=lambda c: c["goodput_per_s"])
    wanted = key_of(choice.get("setting") or {})
    loads = {float(choice[a]) for a in LOAD_AXES if choice.get(a) is not None}
    mine = [c for c in measured(result) if key_of(c.get("setting") or {}) == wanted]
    at_load = [c for c in mine if not loads or load_of(c)[1] in loads]
    return max(at_load or mine, key=lambda c: c["goodput_per_s"], default=None)


def raw_winner(result: Result) -> Cell | None:
    """The cell with the most output tok/s: what a throughput benchmark would pick."""
    rated = [c for c in measured(result) if c.get("output_tok_per_s") is not None]
    return max(rated, key=lambda c: c["output_tok_per_s"], default=None)
