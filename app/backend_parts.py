"""Parts of the backends page: a saved server, the form that adds or edits one, how a command is written."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import backends, isolation_parts, links, quick_check, ui
from app.words import Words
from runner.config import BACKEND_KINDS
from runner.engines.catalogue import KINDS
from runner.protocols.dialects import DIALECTS
from runner.saved_backends import NAME, check_backend, remove_backend, save_backend
from storage.errors import GoodputError

Table = Mapping[str, Any]


def card(number: int, name: str, saved: Table, w: Words) -> None:
    """One saved server: what is known of it, and what can be done with it."""
    with st.container(border=True, key=f"backend-{number}", gap="small"):
        ui.say(name, level=2)
        kind = str(saved.get("kind"))
        facts = [KINDS[kind].title if kind in KINDS else kind, saved.get("url"), saved.get("model"), saved.get("api")]
        ui.say(" · ".join(str(fact) for fact in facts if fact))
        try:
            check_backend(name, saved)
            problem = None
        except GoodputError as e:
            problem = w.said(e)
        for said in [*backends.settings_sentences(saved, w), backends.key_sentence(saved.get("api_key_env"), w)]:
            if said:
                ui.note(said)
        if problem:
            st.error(ui.plain(problem))
        _buttons(number, name, saved, w, usable=problem is None)


def _buttons(number: int, name: str, saved: Table, w: Words, *, usable: bool) -> None:
    real = usable and saved.get("kind") != "simulated"
    with st.container(horizontal=True):
        checked = st.button(w.text("Check the connection"), key=f"check-{number}", disabled=not real)
        quick = st.button(w.text("Quick check"), key=f"quick-{number}", disabled=not real)
        new = st.button(w.text("New sweep"), key=f"sweep-of-{number}", disabled=not usable)
        isolation_parts.start_button(name, w, key=f"isolate-{number}", disabled=not usable)
        edited = st.button(w.text("Edit"), key=f"edit-{number}")
        removed = st.button(w.text("Remove"), key=f"remove-{number}", disabled="control" in saved)
    if checked:
        _check(saved, w)
    if quick:
        ui.attempt(_quick, name, saved, w)
    if new:
        st.switch_page(ui.NEW, query_params={"server": "saved", "saved": name})
    if edited:
        st.session_state["edit"] = name
        st.rerun()
    if removed:
        ui.attempt(remove_backend, ui.data_dir(), name)
        st.rerun()


def _check(saved: Table, w: Words) -> None:
    """What the server says of itself, then one streamed request."""
    with st.spinner(w.text("Looking at the server…")):
        more = backends.what_it_says(saved, w)
        fine, sentence = backends.check_connection(saved, w)
    (st.success if fine else st.error)(ui.plain(sentence))
    for said in more:
        ui.note(said)


def _quick(name: str, saved: Table, w: Words) -> None:
    """The server as it is: its command is not run for it."""
    backend = {key: value for key, value in saved.items() if key != "control"}
    ui.go_to(ui.LIVE, quick_check.start(ui.data_dir(), backend, name, w))


def edit(saved: Mapping[str, Table], w: Words) -> None:
    """The form: a new server, or the one that the address or its button names."""
    new = ""
    names = [new, *saved]
    name = links.follow("edit", names, new)
    links.show("edit", name or None)
    ui.say(w.text("Edit {name}", name=name) if name else w.text("Save a server"), level=2)
    if name and st.button(w.text("Save another one instead"), key="another"):
        st.session_state["edit"] = new
        st.rerun()
    now = saved.get(name, {})
    kinds = [kind for kind in BACKEND_KINDS if kind != "simulated"]
    apis = ["", *DIALECTS]
    with st.form(f"backend-{name}", border=True):
        title = name or st.text_input(
            w.text("Name"), key="new-name", max_chars=60, placeholder="nas", help=w.text("Letters, digits, - and _")
        )
        kind = st.selectbox(
            w.text("Kind"),
            kinds,
            kinds.index(now["kind"]) if now.get("kind") in kinds else kinds.index("openai"),
            format_func=lambda k: KINDS[k].title,
            key=f"kind-{name}",
        )
        url = st.text_input(
            w.text("Address"), str(now.get("url") or ""), placeholder="http://192.168.1.20:8080", key=f"url-{name}"
        )
        model = st.text_input(
            w.text("Model (empty: the first it lists)"), str(now.get("model") or ""), key=f"model-{name}"
        )
        key_env = st.text_input(
            w.text("Name of the environment variable with the API key, if it needs one"),
            str(now.get("api_key_env") or ""),
            key=f"key-env-{name}",
            placeholder="LLM_API_KEY",
        )
        api = st.selectbox(
            w.text("Dialect"),
            apis,
            apis.index(now["api"]) if now.get("api") in apis else 0,
            format_func=lambda a: a or w.text("found out by itself"),
            key=f"api-{name}",
        )
        asked = st.form_submit_button(w.text("Save"), key=f"save-{name}", type="primary", width="stretch")
    if asked:
        values = {"kind": kind, "url": url, "model": model, "api_key_env": key_env, "api": api}
        _save(str(title), {"metrics_url": now.get("metrics_url"), **values}, w)


def _save(name: str, values: Mapping[str, str | None], w: Words) -> None:
    try:
        save_backend(ui.data_dir(), name.strip(), values)
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    st.session_state["edit"] = ""
    st.toast(ui.plain(w.text("Saved as {name}.", name=name.strip())))
    st.rerun()


def example(saved: Mapping[str, Table], w: Words) -> None:
    """Lines for backends.toml, for the kind of the first saved server that has no command."""
    name, table = next(((n, t) for n, t in saved.items() if "control" not in t), ("nas", {"kind": "llama_cpp"}))
    kind = str(table.get("kind"))
    engine = KINDS[kind] if kind in KINDS and KINDS[kind].start else KINDS["llama_cpp"]
    flag = engine.flags.get("max_num_seqs")
    words = [*engine.start, *(f"{flag} {{max_num_seqs}}".split() if flag else ())]
    inner = ", ".join(f'"{word}"' for word in words)
    variable = engine.variables.get("max_num_seqs")
    env = f'\nenv = {{ {variable} = "{{max_num_seqs}}" }}' if variable else ""
    quoted = name if NAME.fullmatch(name) else f'"{name}"'
    st.code(f'[{quoted}.control]\nmode = "process"\ncommand = [{inner}]{env}', language="toml", wrap_lines=True)
    ui.note(
        w.text(
            "What stands in braces is filled in for each setting; mode command runs a hook of yours instead, such as "
            "docker compose up."
        )
    )
