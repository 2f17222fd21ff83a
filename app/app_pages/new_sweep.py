"""New sweep: server, users, targets, grid; beside it how much that is and what is odd about it."""

import pandas as pd
import streamlit as st

from app import backends, forms, jobs, status, ui
from app.preset_choice import choose_preset
from runner.config import BACKEND_KINDS, LOAD_AXES, parse_sweep
from runner.engines.catalogue import KINDS
from runner.engines.check import check_control
from runner.errors import ConfigError
from runner.simulator.schedulers.by_name import SCHEDULERS
from storage.errors import GoodputError

w = ui.words()
ui.say(w.text("New sweep"), level=2)
asked_url, asked_kind = st.query_params.get("url", ""), st.query_params.get("kind")  # of a server that was found
form, beside = st.columns([3, 2], gap="large")
try:
    saved = backends.saved_backends(ui.data_dir())
except GoodputError as e:
    st.warning(ui.plain(e))
    saved = {}

with form:
    name = st.text_input(w.text("Name"), w.text("How many chats fit"), max_chars=200)
    ui.say(w.text("1. Which server"), level=3)
    kinds = {
        "simulated": w.text("Built-in engine"),
        "server": w.text("A server that runs already"),
        "saved": w.text("A saved backend"),
    }
    kind = st.segmented_control(
        w.text("Server"),
        list(kinds),
        format_func=lambda k: kinds[k],
        default="server" if asked_url else "simulated",
        required=True,
        key="kind",
        wrap=True,
    )
    if kind == "simulated":
        preset = "/".join(choose_preset(w))
        scheduler = st.selectbox(w.text("Scheduler"), list(SCHEDULERS), index=list(SCHEDULERS).index("vllm_v1"))
        backend: dict[str, str] | str = {
            "kind": "simulated",
            "preset": preset,
            "scheduler": scheduler,
        }
        ui.note(w.text("Good for learning how settings act. It is no measurement of that machine."))
    elif kind == "server":
        url = st.text_input(w.text("Address"), asked_url, placeholder="http://127.0.0.1:8080", key="url").strip()
        others = [k for k in BACKEND_KINDS if k != "simulated"]
        place = others.index(asked_kind) if asked_kind in others else 0
        engine = st.selectbox(w.text("Kind"), others, place, lambda k: KINDS[k].title, key="engine")
        model = st.text_input(w.text("Model (empty: the first it lists)"), key="served").strip()
        key_env = st.text_input(
            w.text("Name of the environment variable with the API key, if it needs one"), key="key_env"
        ).strip()
        server = {"kind": engine, "url": url, "model": model, "api_key_env": key_env}
        if st.button(w.text("Check the connection"), disabled=not url, key="check"):
            fine, sentence = backends.check_connection(server, w)
            (st.success if fine else st.error)(ui.plain(sentence))
            for said in backends.what_it_says(server, w):
                ui.note(said)
        backend = server
        ui.note(
            w.text(
                "Vary the load, and its settings stay as they are. Vary settings, and the sweep waits while you change "
                "them by hand; a saved backend has them changed by a command."
            )
        )
    else:
        if not saved:
            st.info(
                ui.plain(
                    w.text(
                        "None yet. Commands that start a server are only read from {file}, never typed in a browser.",
                        file=str(ui.data_dir() / backends.FILE),
                    )
                )
            )
            st.stop()
        backend = str(st.selectbox(w.text("Saved backend"), sorted(saved), key="saved"))

    ui.say(w.text("2. Who uses it, and what they were promised"), level=3)
    workloads = {
        "chat": w.text("Home chat"),
        "rag": w.text("Questions to documents"),
        "mixed": w.text("Both, with background work"),
    }
    workload = st.segmented_control(
        w.text("Workload"),
        list(workloads),
        format_func=lambda k: workloads[k],
        default="chat",
        required=True,
        key="mix",
        wrap=True,
    )
    number = st.column_config.NumberColumn
    titles = {
        "name": st.column_config.TextColumn(w.text("class"), help=w.text("Lower-case letters, digits, _")),
        "ttft_ms": number(w.text("first token (ms)"), help=w.text("Empty: no promise, background work.")),
        "gap_ms": number(w.text("gap (ms)")),
        "weight": number(w.text("share of the rate"), help=w.text("Empty for a class with a fixed number of users.")),
        "closed": number(w.text("or: users at once"), format="%d"),
        "prompt_p50": number(w.text("prompt p50"), format="%d"),
        "prompt_p90": number(w.text("prompt p90"), format="%d"),
        "prompt_max": number(w.text("prompt max"), format="%d"),
        "output_p50": number(w.text("answer p50"), format="%d"),
        "output_p90": number(w.text("answer p90"), format="%d"),
        "output_max": number(w.text("answer max"), format="%d"),
        "priority": number(w.text("priority"), format="%d", help=w.text("0 goes first.")),
    }
    mix = st.data_editor(
        pd.DataFrame(forms.WORKLOADS[workload], columns=list(forms.CLASS_COLUMNS)).convert_dtypes(),
        column_config=titles,
        num_rows="dynamic",
        hide_index=True,
        key=f"classes-{workload}",
    )
    ui.note(w.text("Scroll the table sideways for the lengths in tokens; add a row for another class."))

    ui.say(w.text("3. What to vary"), level=3)
    grid = st.data_editor(
        pd.DataFrame(forms.GRIDS["simulated" if kind != "server" else "server"]),
        column_config={
            "key": st.column_config.TextColumn(w.text("setting or load"), help=", ".join(LOAD_AXES)),
            "values": st.column_config.TextColumn(w.text("values, separated by commas"), width="large"),
        },
        num_rows="dynamic",
        hide_index=True,
        key=f"grid-{kind}",
    )

    ui.say(w.text("4. How long"), level=3)
    duration = st.select_slider(
        w.text("Measured time of each cell"),
        [10, 30, 60, 120, 300, 600],
        value=60,
        format_func=lambda s: status.duration(s, w),
        key="duration",
    )
    repeats_place, share_place, seed_place = st.columns(3)
    repeats = repeats_place.number_input(w.text("Repeats"), 1, 20, 1, key="repeats")
    share = share_place.selectbox(w.text("Share wanted"), [0.9, 0.95, 0.99], format_func=w.share, key="share")
    seed = seed_place.number_input(w.text("Seed"), 0, 2**31 - 1, 1, key="seed")

run = {"duration_s": duration, "repeats": repeats, "seed": seed, "share_target": share}
raw = forms.sweep_data(name, backend, grid.to_dict("records"), mix.astype(object).to_dict("records"), run)
with beside:
    ui.say(w.text("What this is"), level=3)
    try:
        config = parse_sweep(raw, w.text("This sweep"), saved)
        check_control(config)
    except ConfigError as e:
        st.error(ui.plain(e))
        st.stop()
    size = forms.size_of(config)
    with st.container(horizontal=True, gap="large"):
        st.metric(w.text("cells"), w.count(size.cells), width="content")
        st.metric(w.text("server starts"), w.count(size.starts), width="content")
        st.metric(w.text("time"), status.duration(size.seconds, w), width="content")
    budgets = forms.safe_budgets(config)
    for seqs, budget in budgets.items():
        text = w.text(
            "With {seqs} answers at once, up to {budget} tokens an iteration keep the gap target.",
            seqs=w.count(seqs),
            budget=w.count(budget),
        )
        ui.note(text)
    for sentence in forms.oddities(config, w):
        st.warning(ui.plain(sentence))
    sure = size.cells <= forms.ASK_FROM_CELLS or st.checkbox(
        w.text("Yes, I mean {cells} cells", cells=w.count(size.cells)), key="sure"
    )
    if st.button(w.text("Start"), type="primary", disabled=not sure, key="start", width="stretch"):
        try:
            started = jobs.start_sweep(ui.data_dir(), config)
        except GoodputError as e:
            st.error(ui.plain(e))
            st.stop()
        ui.go_to(ui.LIVE, started)
