"""Parts of the what-if page that are more than one call: the form, distributions and iterations of one load."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import cache, ui, what_if
from app.data import all_sweeps, cell_rows, cell_series
from app.preset_choice import choose_preset
from app.views import cells as c
from app.views.ecdf import ecdf_figure
from app.views.schedulers import scheduler_of, title_of
from app.views.steps import Answers, Window, steps_figure, window_sentence, worst_window
from app.words import Words
from runner.analysis.prepare import Prepared
from runner.config import RequestClass, Slo, SweepConfig
from runner.engines.knowledge import longest_tokens
from runner.queue import read_config
from runner.simulator.presets import DEVICES, EngineProfile, resolve_preset
from runner.simulator.profile import load_profile
from runner.simulator.schedulers.by_name import SCHEDULERS
from runner.simulator.step_log import StepLog
from storage.errors import GoodputError

USUAL_SCHEDULERS = ("static", "orca", "vllm_v0", "vllm_v1", "sarathi")
REQUESTS = (100, 200, 400, 1000)
PRESET = "preset"


@dataclass(frozen=True)
class Speed:
    """What the machine is: its cost model, how a sweep file names it, and what it is called."""

    profile: EngineProfile
    keys: dict[str, str]
    name: str

    @property
    def given(self) -> EngineProfile | None:
        """The profile that stands beside the config; none for a preset, which the config names itself."""
        return None if PRESET in self.keys else self.profile


def speed(w: Words) -> Speed:
    """Machine, model and quantization, or a profile file. Raises ConfigError for a file that can't be read."""
    files = {str(p.relative_to(ui.data_dir())): p for p in what_if.profile_files(ui.data_dir())}
    source = PRESET
    if files:
        options = [PRESET, *files]
        source = st.selectbox(
            w.text("Speed from"), options, format_func=lambda k: w.text("a preset") if k == PRESET else k, key="speed"
        )
    if source != PRESET:
        return Speed(load_profile(files[source]), {"profile": source}, source.removesuffix(".toml"))
    device, model, quant = choose_preset(w)
    preset = f"{device}/{model}/{quant}"
    return Speed(resolve_preset(preset), {PRESET: preset}, f"{DEVICES[device].label}, {model} {quant}")


def workload(w: Words) -> tuple[str, list[dict[str, Any]]]:
    """(key, classes as a sweep file would say them): of a preset, or of a sweep of the data folder."""
    presets = {
        "chat": w.text("Home chat"),
        "rag": w.text("Questions to documents"),
        "mixed": w.text("Both, with background work"),
    }
    sweeps = {s.sweep_id: s for s in all_sweeps(ui.data_dir()) if s.status != "damaged"}

    def named(key: str) -> str:
        return presets.get(key) or w.text("as in: {sweep}", sweep=ui.label(sweeps[key]))

    key = st.selectbox(w.text("Workload"), [*presets, *sweeps], format_func=named, key="load")
    if key in presets:
        return key, what_if.workload_tables(key)
    config = read_config(sweeps[key].folder)
    tables = what_if.class_tables(config.classes)
    left_out = [x.name for x in config.classes if x.trace is not None]
    if left_out:
        ui.note(w.text("Left out, because they replay a recorded trace: {names}.", names=", ".join(left_out)))
    return key, tables


def limits(of: Speed, w: Words) -> tuple[int, int]:
    """max_num_seqs and max_num_batched_tokens, under the names that settings use."""
    seqs_place, budget_place = st.columns(2)
    seqs = int(
        seqs_place.number_input("max_num_seqs", 1, 1024, 32, key="seqs", help=w.text("Requests in a batch, at most."))
    )
    budget = budget_place.number_input(
        "max_num_batched_tokens", 1, 65536, what_if.usual_budget(of.profile, seqs), step=32,
        key=f"budget-{of.name}-{seqs}",
        help=w.text("Tokens of an iteration, at most: what chunks prompts, where a scheduler does."),
    )  # fmt: skip
    return seqs, int(budget)


def schedulers(w: Words) -> list[str]:
    """Which to compare, in the order of the list."""
    picked = st.pills(
        w.text("Schedulers"),
        list(SCHEDULERS),
        selection_mode="multi",
        default=USUAL_SCHEDULERS,
        format_func=lambda name: title_of(name, w),
        key="schedulers",
    )
    return [name for name in SCHEDULERS if name in picked]


def asides(names: list[str], classes: tuple[RequestClass, ...], pool_tokens: int, w: Words) -> list[str]:
    """What has to be known about the schedulers that were picked, and about prompts too long for the machine."""
    told = {
        "static": w.text("static and orca reserve the KV cache for the longest request there is."),
        "distserve": w.text("distserve stands for two such machines: one reads prompts, one writes answers."),
        "llama_cpp": w.text("llama_cpp: slots share the context (--kv-unified)."),
    }
    out = [text for name, text in told.items() if name in names or (name == "static" and "orca" in names)]
    for x in classes:
        longest = longest_tokens(x.prompt_tokens) + longest_tokens(x.output_tokens)
        if longest > pool_tokens:
            out.append(
                w.text(
                    "The longest request of class {name} ({longest} tokens) does not fit the KV cache of {pool} "
                    "tokens.",
                    name=x.name,
                    longest=w.count(longest),
                    pool=w.count(pool_tokens),
                )
            )
    return out


def distributions(
    prepared: Prepared, cells: list[c.Cell], classes: list[str], targets: Mapping[str, Slo], w: Words
) -> None:
    """First-token times and gaps of some classes at one load, a line a scheduler."""
    titles = {"ttft_ms": w.text("first token (ms)"), "gap_ms": w.text("gap between chunks (ms)")}
    found = {scheduler_of(x): cell_series(prepared, x["cell"]) for x in cells}
    for place, (key, title) in zip(st.columns(2), titles.items(), strict=True):
        series = {
            name: np.concatenate([np.zeros(0), *(of[key][k] for k in classes if k in of[key])])
            for name, of in found.items()
        }
        marks = sorted({float(getattr(targets[k], key)) for k in classes if k in targets})
        with place:
            ui.chart(ecdf_figure(series, title, w, targets_ms=marks, dark=ui.dark()), f"ecdf-{key}", title)
    if any(not len(of["gap_ms"].get(k, ())) for of in found.values() for k in classes if len(of["ttft_ms"].get(k, ()))):
        ui.note(w.text("A scheduler that answers in one piece has no gaps: its first token comes with the last."))


def iterations(
    prepared: Prepared, config: SweepConfig, given: EngineProfile | None, cells: list[c.Cell], w: Words
) -> None:
    """Two schedulers at one load below each other, around the worst stall of the first."""
    by_name = {scheduler_of(x): x for x in cells}
    windows = {name: worst_window(cell_rows(prepared, x["cell"])[0], _promised(config)) for name, x in by_name.items()}
    names = [name for name, window in windows.items() if window is not None]
    if not names:
        ui.note(w.text("No answer was complete at this load: there is no iteration to look at."))
        return
    stalls = {name: _stall(windows[name]) for name in names}
    worst, calm = max(names, key=stalls.__getitem__), min(names, key=lambda n: (stalls[n] == 0.0, stalls[n]))
    above, below = st.columns(2)
    first = _picked(above, w.text("The worst moment of"), names, worst, "steps-of", lambda n: title_of(n, w))
    others = ["", *(n for n in names if n != first)]
    usual = calm if calm in others else others[-1]
    second = _picked(
        below, w.text("and the same time of"), others, usual, "steps-beside",
        lambda n: title_of(n, w) if n else w.text("none"),
    )  # fmt: skip
    window = windows[first]
    assert window is not None
    panels = {n: _panel(prepared, config, given, by_name[n]["cell"], window) for n in (first, second) if n}
    ui.say(window_sentence(window, first, w))
    figure = steps_figure(panels, window.request, w, dark=ui.dark())
    ui.chart(figure, "steps", w.text("requests in each iteration over time"))
    ui.note(
        w.text(
            "A row is a request, a bar an iteration that it took part in, as wide as the iteration took; of many alike "
            "in a row several share a bar. The marked request is the one of the sentence; where others were there too, "
            "those with a prompt or a wait are shown."
        )
    )


def _picked(
    place: Any,  # noqa: ANN401  (a Streamlit column)
    title: str,
    options: list[str],
    usual: str,
    key: str,
    shown: Callable[[str], str],
) -> str:
    if st.session_state.get(key) not in options:
        st.session_state[key] = usual
    return str(place.selectbox(title, options, format_func=shown, key=key))


def _stall(window: Window | None) -> float:
    return window.ms if window is not None and window.stall else 0.0


def _promised(config: SweepConfig) -> list[str]:
    return [x.name for x in config.classes if x.slo] or [x.name for x in config.classes]


def _panel(
    prepared: Prepared, config: SweepConfig, given: EngineProfile | None, cell: int, window: Window
) -> tuple[StepLog, Answers]:
    """The iterations of the window, and when each request of the cell got its first token and ended."""
    log = cache.steps(config, given, cell, window.from_ns, window.until_ns)
    rows = cell_rows(prepared, cell)[0]
    rows = rows[rows["end_ns"].notna()]
    columns = (rows[k] for k in ("request", "first_chunk_ns", "end_ns"))
    return log, {
        int(r): (None if pd.isna(first) else int(first), int(end)) for r, first, end in zip(*columns, strict=True)
    }


def own_workload(w: Words) -> tuple[str, list[dict[str, Any]]] | None:
    """`workload`, with a sentence and None where a sweep can't be read or has nothing to send."""
    try:
        key, tables = workload(w)
    except GoodputError as e:
        st.error(ui.plain(e))
        return None
    if not tables:
        st.error(ui.plain(w.text("Nothing is left to send: choose another workload.")))
        return None
    return key, tables
