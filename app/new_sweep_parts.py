"""Parts of the new-sweep page: which server, who uses it, what is varied, for how long; and what that comes to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app import backends, calibrating, forms, links, presets, status, trace_upload, ui
from app.preset_choice import choose_preset
from app.words import Words
from runner.config import BACKEND_KINDS, LOAD_AXES, SweepConfig
from runner.engines.catalogue import KINDS
from runner.errors import ConfigError
from runner.simulator.presets import EngineProfile
from runner.simulator.profile import load_profile
from runner.simulator.schedulers.by_name import SCHEDULERS
from runner.web_address import with_scheme
from storage.errors import GoodputError

Backend = dict[str, Any] | str
BASIC = ("name", "ttft_ms", "gap_ms", "weight", "closed", "prompt_p50", "output_p50")
DURATIONS = [10, 30, 60, 120, 300, 600]
BUDGETS = {"20m": 20 * 60.0, "90m": 90 * 60.0, "8h": 8 * 3600.0}
TEXTS = ("name", "trace")


def choose_server(saved: Mapping[str, Any], w: Words) -> tuple[Backend, list[str]] | None:
    """(the backend, its settings that a sweep may vary at first); None while there is none to choose."""
    names = {
        "simulated": w.text("Built-in engine"),
        "address": w.text("A server that runs already"),
        "saved": w.text("A saved backend"),
    }
    first = "address" if st.query_params.get("url") else "saved" if st.query_params.get("saved") else "simulated"
    kind = links.follow("server", names, first)
    st.segmented_control(
        w.text("Server"), list(names), format_func=names.__getitem__, required=True, key="server", wrap=True
    )
    links.show("server", kind if kind != first else None)
    for key, belongs_to in (("url", "address"), ("kind", "address"), ("saved", "saved")):
        if kind != belongs_to:
            links.show(key, None)
    if kind == "simulated":
        return _built_in(w), [row["key"] for row in forms.SERVER_ROWS]
    if kind == "address":
        return _by_address(w), []
    return _saved(saved, w)


def _built_in(w: Words) -> Backend:
    preset = "/".join(choose_preset(w))
    scheduler = st.selectbox(w.text("Scheduler"), list(SCHEDULERS), index=list(SCHEDULERS).index("vllm_v1"))
    ui.note(w.text("Good for learning how settings act. It is no measurement of that machine."))
    return {"kind": "simulated", "preset": preset, "scheduler": scheduler}


def _by_address(w: Words) -> Backend:
    if "url" not in st.session_state:
        st.session_state["url"] = st.query_params.get("url", "")
    url = st.text_input(w.text("Address"), placeholder="http://127.0.0.1:8080", key="url").strip()
    links.show("url", url or None)
    others = [k for k in BACKEND_KINDS if k != "simulated"]
    engine = links.follow("kind", others, "openai")
    st.selectbox(w.text("Kind"), others, format_func=lambda k: KINDS[k].title, key="kind")
    links.show("kind", engine if engine != "openai" else None)
    model = st.text_input(w.text("Model (empty: the first it lists)"), key="served").strip()
    key_env = st.text_input(
        w.text("Name of the environment variable with the API key, if it needs one"), key="key_env"
    ).strip()
    server = {"kind": engine, "url": url, "model": model, "api_key_env": key_env}
    check(server, w)
    ui.note(
        w.text(
            "Vary the load, and its settings stay as they are. Vary settings, and the sweep waits while you change "
            "them by hand; a saved backend has them changed by a command."
        )
    )
    return server


def _saved(saved: Mapping[str, Any], w: Words) -> tuple[Backend, list[str]] | None:
    if not saved:
        st.info(ui.plain(w.text("None yet: save one under Backends.")))
        st.page_link(ui.BACKENDS, label=w.text("Backends"))
        return None
    name = links.follow("saved", sorted(saved), sorted(saved)[0])
    st.selectbox(w.text("Saved backend"), sorted(saved), key="saved")
    links.show("saved", name)
    if saved[name].get("url"):
        check(saved[name], w)
    ui.note(" · ".join(backends.settings_sentences(saved[name], w)))
    return name, backends.varied_by(saved[name])


def check(server: Mapping[str, Any], w: Words) -> None:
    """The button of the connection check, and what it found."""
    if st.button(w.text("Check the connection"), disabled=not server.get("url"), key="check"):
        with st.spinner(w.text("Looking at the server…")):
            fine, sentence = backends.check_connection(server, w)
            more = backends.what_it_says(server, w)
            st.session_state["room"] = (with_scheme(str(server["url"])), backends.context_tokens(server))
        (st.success if fine else st.error)(ui.plain(sentence))
        for said in more:
            ui.note(said)


def choose_workload(data_dir: Path, w: Words) -> tuple[str, presets.Workload] | None:
    """(a name for the state of its table, the workload); None while a recorded trace is wanted and none is there."""
    told = {**presets.workload_words(w), "trace": (w.text("A recorded trace"), w.text("Your own log, as it happened."))}
    picked = links.follow("workload", told, "chat")
    st.segmented_control(
        w.text("Workload"), list(told), format_func=lambda k: told[k][0], required=True, key="workload", wrap=True
    )
    links.show("workload", picked if picked != "chat" else None)
    links.show("targets" if picked == "trace" else "trace", None)
    if picked == "trace":
        return _recorded(data_dir, w)
    found = presets.WORKLOADS[picked]
    ui.note(f"{told[picked][1]} {w.text(found.source)}")
    target = links.follow("targets", ["own", *presets.TARGETS], "own")
    st.selectbox(
        w.text("Targets"),
        ["own", *presets.TARGETS],
        format_func=lambda k: w.text("as above, or your own") if k == "own" else _target(k, w),
        key="targets",
    )
    links.show("targets", target if target != "own" else None)
    rows = presets.with_targets(found.rows, None if target == "own" else target)
    return f"{picked}-{target}", presets.Workload(tuple(rows), found.source, found.load)


def _target(key: str, w: Words) -> str:
    title, ttft_ms, gap_ms = presets.TARGETS[key]
    return " · ".join([title, " / ".join(w.ms(v) for v in (ttft_ms, gap_ms) if v is not None)])


def _recorded(data_dir: Path, w: Words) -> tuple[str, presets.Workload] | None:
    given = st.file_uploader(
        w.text("A CSV or JSONL file with the time, the prompt's tokens and the answer's tokens of each request"),
        type=["csv", "jsonl"],
        max_upload_size=trace_upload.MOST_MB,
        key="upload",
        help=w.text("Names as in public traces are known, such as TIMESTAMP, ContextTokens and GeneratedTokens."),
    )
    if given is not None and st.session_state.get("kept") != given.file_id:
        try:
            st.session_state["trace"] = trace_upload.keep(data_dir, given.name, given.getvalue(), w)
            st.session_state["kept"] = given.file_id
        except GoodputError as e:
            st.error(ui.plain(e))
    names = trace_upload.stored(data_dir)
    if not names:
        ui.note(w.text("None is kept here yet. The file stays on this machine."))
        return None
    name = links.follow("trace", names, names[0])
    st.selectbox(w.text("Kept traces"), names, key="trace")
    links.show("trace", name)
    try:
        found = trace_upload.facts(data_dir, name)
    except ConfigError as e:
        st.error(ui.plain(e))
        return None
    sentence = w.text(
        "{n} requests in {time}, {rate}; the middle prompt has {prompt} tokens, the middle answer {output}. A cell "
        "sends what falls into its time.",
        n=w.count(found.requests),
        time=status.duration(found.span_s, w),
        rate=w.per_s(found.per_s),
        prompt=w.count(found.prompt_tokens),
        output=w.count(found.output_tokens),
    )
    ui.note(sentence)
    return f"trace-{name}", presets.recorded(name, found.prompt_tokens, found.output_tokens)


def edit_classes(key: str, rows: Sequence[presets.Row], traces: Sequence[str], w: Words) -> list[dict[str, Any]]:
    """The table of classes as it is now."""
    number = st.column_config.NumberColumn
    titles = {
        "name": st.column_config.TextColumn(w.text("class"), help=w.text("Lower-case letters, digits, _")),
        "ttft_ms": number("TTFT (ms)", help=w.text("First token. Empty: no promise, background work."), min_value=1),
        "gap_ms": number(w.text("gap (ms)"), min_value=1),
        "weight": number(
            w.text("weight"), help=w.text("Its part of the rate; one of weight, users, rate, dump, trace.")
        ),
        "closed": number(
            w.text("users"), format="%d", min_value=1, help=w.text("So many at once, each after another.")
        ),
        "think_s": number(w.text("pause (s)"), min_value=0, help=w.text("Of each user between two requests.")),
        "rate": number(w.text("rate (req/s)"), min_value=0, help=w.text("A rate of its own, whatever is varied.")),
        "dump": number(w.text("dump"), format="%d", min_value=1, help=w.text("So many requests at one moment.")),
        "dump_at_s": number(w.text("dump at (s)"), min_value=0),
        "trace": st.column_config.SelectboxColumn(w.text("trace"), options=list(traces)),
        "prompt_p50": number(w.text("prompt p50"), format="%d", min_value=1),
        "prompt_p90": number(w.text("prompt p90"), format="%d", min_value=1),
        "prompt_max": number(w.text("prompt max"), format="%d", min_value=1),
        "output_p50": number(w.text("answer p50"), format="%d", min_value=1),
        "output_p90": number(w.text("answer p90"), format="%d", min_value=1),
        "output_max": number(w.text("answer max"), format="%d", min_value=1),
        "priority": number(w.text("priority"), format="%d", help=w.text("0 goes first.")),
    }
    everything = st.toggle(w.text("Show every column"), key="columns")
    frame = pd.DataFrame(
        {c: pd.array([row.get(c) for row in rows], dtype="string" if c in TEXTS else "Float64")
         for c in presets.CLASS_COLUMNS}
    )  # fmt: skip
    return _rows(
        st.data_editor(
            frame,
            column_config=titles,
            column_order=list(presets.CLASS_COLUMNS if everything else [c for c in BASIC if c in _used(rows)]),
            num_rows="dynamic",
            hide_index=True,
            key=f"classes-{key}",
            placeholder="",
            alt=w.text("classes of requests: targets, how often they come, lengths, priority"),
        )
    )


def _used(rows: Sequence[presets.Row]) -> set[str]:
    """Columns that some class fills in, and those that any class needs."""
    used = {key for row in rows for key, value in row.items() if value is not None}
    return used | {"name", "ttft_ms", "gap_ms", "prompt_p50", "output_p50"}


def edit_grid(key: str, rows: Sequence[Mapping[str, str]], w: Words) -> list[dict[str, Any]]:
    """The table of what is varied as it is now."""
    return _rows(
        st.data_editor(
            pd.DataFrame(rows, dtype="string"),
            column_config={
                "key": st.column_config.TextColumn(w.text("setting or load"), help=", ".join(LOAD_AXES)),
                "values": st.column_config.TextColumn(w.text("values, separated by commas"), width="large"),
            },
            num_rows="dynamic",
            hide_index=True,
            key=f"grid-{key}",
            placeholder="",
            alt=w.text("what is varied, and its values"),
        )
    )


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows with None in its empty fields."""
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in frame.astype(object).to_dict("records")
    ]


def choose_run(w: Words) -> dict[str, Any]:
    """The [run] table."""
    finds = {
        "grid": w.text("Every cell of the grid"),
        "rate": w.text("The largest load each setting stands"),
        "budget": w.text("The best setting within a time"),
    }
    find = links.follow("find", finds, "grid")
    st.segmented_control(
        w.text("What to find"), list(finds), format_func=finds.__getitem__, required=True, key="find", wrap=True
    )
    links.show("find", find if find != "grid" else None)
    run: dict[str, Any] = {}
    if find == "rate":
        ui.note(
            w.text("The loads above are where it begins; it goes on up and down by itself until the limit is found.")
        )
        run["find_rate"] = True
    if find == "budget":
        run["budget"] = st.select_slider(
            w.text("Time for all of it"),
            list(BUDGETS),
            format_func=lambda b: status.duration(BUDGETS[b], w),
            key="time",
        )
        ui.note(w.text("Poor settings are dropped after short looks, the best are measured longer."))
    duration = links.follow("duration", DURATIONS, 60)
    st.select_slider(
        w.text("Measured time of each cell"),
        DURATIONS,
        format_func=lambda s: status.duration(s, w),
        key="duration",
    )
    links.show("duration", duration if duration != 60 else None)
    repeats, share, seed = st.columns(3)
    return {
        **run,
        "duration_s": duration,
        "repeats": repeats.number_input(w.text("Repeats"), 1, 20, 1, key="repeats"),
        "seed": seed.number_input(w.text("Seed"), 0, 2**31 - 1, 1, key="seed"),
        "share_target": share.selectbox(w.text("Share wanted"), [0.9, 0.95, 0.99], format_func=w.share, key="share"),
    }


def speed_of(data_dir: Path, backend: Backend, config: SweepConfig) -> EngineProfile | None:
    """What is known of a server's speed beside the config: the calibration of a saved one, the built-in engine's
    profile file."""
    file = data_dir / config.backend.profile if config.backend.profile else None
    if isinstance(backend, str) and config.backend.kind != "simulated":
        file = calibrating.profile_path(data_dir, backend)
    try:
        return load_profile(file) if file and file.is_file() else None
    except ConfigError:
        return None  # said where profiles are chosen


def summary(config: SweepConfig, speed: EngineProfile | None, w: Words) -> forms.Size:
    """How much the sweep is, what the server's cost model says, and what is odd about it."""
    size = forms.size_of(config)
    with st.container(horizontal=True, gap="large"):
        st.metric(w.text("cells"), w.count(size.cells), width="content")
        st.metric(w.text("server starts"), w.count(size.starts), width="content")
        st.metric(w.text("time"), status.duration(size.seconds, w), width="content")
    budgets = forms.safe_budgets(config, speed)
    for seqs, budget in budgets.items():
        if not budget:
            ui.note(w.text("With {seqs} answers at once every prompt breaks the gap target.", seqs=w.count(seqs)))
            continue
        ui.note(
            w.text(
                "With {seqs} answers at once, up to {budget} tokens an iteration keep the gap target.",
                seqs=w.count(seqs),
                budget=w.count(budget),
            )
        )
    if budgets and config.backend.kind != "simulated":
        ui.note(w.text("This is worked out from the server's calibration."))
    for sentence in forms.oddities(config, w, _context_tokens(config), speed):
        st.warning(ui.plain(sentence))
    return size


def _context_tokens(config: SweepConfig) -> int | None:
    """What the connection check found that a request may have at this server; null before it was made."""
    url, tokens = st.session_state.get("room", (None, None))
    return int(tokens) if tokens and url == config.backend.url else None
