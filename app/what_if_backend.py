"""The second half of the what-if page: a measured server, its cost model, and what that predicts for it and others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from app import cache, calibrating, ui, what_if
from app.data import all_sweeps
from app.preset_choice import choose_preset
from app.views.predicted import (
    beyond_sentences,
    error_sentence,
    held_out_rows,
    pace_sentence,
    pairs_of,
    predicted_figure,
    predicted_rows,
)
from app.words import Words
from runner.analysis.result import score
from runner.calibration.held_out import stand_in
from runner.calibration.profile_file import Calibration, load_calibration
from runner.config import SweepConfig
from runner.engines.knowledge import longest_tokens
from runner.errors import ConfigError
from runner.saved_backends import saved_backends
from runner.simulated_sweep import check_virtual
from runner.simulator.presets import DEVICES, EngineProfile, resolve_preset
from runner.simulator.profile import load_profile
from storage.errors import GoodputError
from storage.side_files import SweepSummary

LOOK_S = 2.0


def show(w: Words) -> None:
    """The whole half: calibrate, errors, predicted beside measured, another machine."""
    _calibrate(w)
    profiles = _calibrated(ui.data_dir())
    if not profiles:
        st.info(ui.plain(w.text("No server is calibrated yet: do it above, or run `goodput calibrate URL -o FILE`.")))
        return
    name = str(st.selectbox(w.text("Calibrated server"), list(profiles), key="calibrated"))
    path, calibration = profiles[name]
    try:
        profile = load_profile(path)
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    _errors(calibration, profile, w)
    ui.say(w.text("Predicted beside measured"), level=3)
    sweep = _measured_sweep(calibration, w)
    if sweep is not None:
        _compare(sweep, name, profile, calibration, w)


def _calibrate(w: Words) -> None:
    """A saved backend, one button, and how far it is."""
    try:
        backends = {k: v for k, v in saved_backends(ui.data_dir()).items() if v.get("url")}
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    if not backends:
        ui.note(w.text("Save a server on the Backends page to calibrate it here."))
        return
    with st.container(border=True):
        name = str(st.selectbox(w.text("Calibrate a saved server"), list(backends), key="to-calibrate"))
        ui.note(
            w.text(
                "It gets requests of several lengths, alone and together, and then a run at two rates: some five "
                "minutes, in which nothing else should use it."
            )
        )
        found = calibrating.progress(ui.data_dir(), name)
        if found is not None and found.state == "running":
            _watch(name, w)
            return
        if found is not None and found.state == "failed":
            st.error(ui.plain(w.text("The last calibration failed: {why}", why=w.said(found.line))))
        if st.button(w.text("Calibrate"), key="calibrate", type="primary"):
            ui.attempt(calibrating.start, ui.data_dir(), name, backends[name])
            st.rerun()


def _watch(name: str, w: Words) -> None:
    @st.fragment(run_every=LOOK_S)
    def look() -> None:
        found = calibrating.progress(ui.data_dir(), name)
        if found is None or found.state != "running":
            st.rerun()
        ui.say(w.text("Calibrating: {line}", line=w.said(found.line)))

    look()
    st.button(w.text("Stop"), key="stop-calibrating", on_click=calibrating.stop, args=(ui.data_dir(), name))


def _calibrated(data_dir: Path) -> dict[str, tuple[Path, Calibration]]:
    """Profiles that a calibration wrote, by their name; one that can't be read is left out."""
    out = {}
    for path in what_if.profile_files(data_dir):
        try:
            found = load_calibration(path)
        except ConfigError:
            continue
        if found is not None:
            out[path.stem] = (path, found)
    return out


def _errors(calibration: Calibration, profile: EngineProfile, w: Words) -> None:
    cost = profile.cost
    ui.say(error_sentence(calibration.worst_error, w))
    if (text := pace_sentence(calibration.pace_after, w)) is not None:
        ui.note(text)
    ui.note(
        w.text(
            "An iteration of {model} takes {a} ms, {b} ms more for each prompt token and {c} ms for each answer in it.",
            model=(calibration.model or calibration.kind).rpartition("/")[2],
            a=w.significant(cost.a),
            b=w.significant(cost.b),
            c=w.significant(cost.c),
        )
    )
    if calibration.held_out:
        with st.expander(w.text("Errors on the held-out run")):
            st.dataframe(held_out_rows(calibration.held_out, w), hide_index=True)


def _measured_sweep(calibration: Calibration, w: Words) -> SweepSummary | None:
    """A measured sweep to hold the prediction against; at first the held-out run."""
    sweeps = {s.sweep_id: s for s in all_sweeps(ui.data_dir()) if s.status in ("done", "sample") and not s.simulated}
    if not sweeps:
        ui.note(w.text("No sweep has been measured yet: its points would stand beside the predicted ones."))
        return None
    ids = list(sweeps)
    first = ids.index(calibration.sweep_id) if calibration.sweep_id in ids else 0
    picked = st.selectbox(
        w.text("Measured sweep"), ids, first, format_func=lambda k: ui.label(sweeps[k]), key="held-against"
    )
    return sweeps[picked]


def _compare(sweep: SweepSummary, name: str, profile: EngineProfile, calibration: Calibration, w: Words) -> None:
    try:
        prepared = cache.prepared(sweep.folder)
        measured = score(prepared)
        config = stand_in(
            prepared.config, calibration.scheduler, calibration.max_num_seqs, calibration.max_num_batched_tokens
        )
        _refuse(config, measured, w)
        others = {w.text("predicted: {name}", name=name): _predicted(config, profile)}
        if st.toggle(w.text("What would another machine do?"), key="other-machine"):
            device, model, quant = choose_preset(w)
            other = resolve_preset(f"{device}/{model}/{quant}")
            others[f"{DEVICES[device].label}, {model} {quant}"] = _predicted(config, other)
            ui.note(w.text("Another machine is an estimate from public tables: nobody measured it here."))
    except GoodputError as e:
        st.error(ui.plain(e))
        return
    if not any(pairs_of(measured, found) for found in others.values()):
        ui.note(w.text("No cell of this sweep could be predicted."))
        return
    for text in _beyond(config, calibration, w):
        ui.note(text)
    figure = predicted_figure(measured, others, w, dark=ui.dark())
    ui.chart(figure, "predicted", w.text("measured goodput over raw output, and what is predicted for it"))
    ui.note(w.text("Filled: measured. Hollow: predicted, joined to what was measured by a dotted line."))
    for title, found in others.items():
        ui.say(title, level=4)
        st.dataframe(predicted_rows(measured, found, w), hide_index=True)


def _predicted(config: SweepConfig, profile: EngineProfile) -> dict[str, Any]:
    """The result object of the same load in virtual time. Raises GoodputError."""
    check_virtual(config, profile)
    return score(cache.what_if(config, profile))


def _refuse(config: SweepConfig, measured: Mapping[str, Any], w: Words) -> None:
    """Raises ConfigError for what a page can't calculate while somebody waits, or at all."""
    traced = [x.name for x in config.classes if x.trace is not None]
    if traced:
        raise ConfigError(
            w.text(
                "Class {names} replays a recorded trace: predict this sweep with `goodput simulate`.",
                names=", ".join(traced),
            )
        )
    cells = measured["cells"]
    seconds = config.run.duration_s + config.run.warmup
    tokens = sum((x["output_tok_per_s"] or 0.0) * seconds for x in cells)
    if what_if.too_large(len(cells), tokens):
        raise ConfigError(
            w.text("This sweep is too large to predict while you wait: use `goodput simulate --profile FILE`.")
        )


def _beyond(config: SweepConfig, calibration: Calibration, w: Words) -> list[str]:
    longest = max(longest_tokens(x.prompt_tokens) for x in config.classes)
    listed = [float(v) for v in config.grid.get("max_num_seqs", ()) if not isinstance(v, str)]
    return beyond_sentences(calibration.measured_up_to, longest, max([calibration.max_num_seqs, *listed]), w)
