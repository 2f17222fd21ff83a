"""What pages, permalinks and the command line ask about finished sweeps. Imports no Streamlit: see app.cache."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from app.export.series import series_of
from app.imports import import_folder, import_html, load_import
from app.words import ENGLISH, Words
from runner.analysis.goodput import judge, verdicts
from runner.analysis.prepare import Prepared, prepare
from runner.analysis.result import score, targets_of
from runner.analysis.stalls import stalled_requests
from runner.config import GapRule, Slo
from runner.errors import BusyError, ConfigError
from runner.queue import sweep_folder
from storage.errors import StorageError
from storage.imports import DOCUMENT, list_imports
from storage.json_files import read_json
from storage.plain_errors import write_error
from storage.queries import read_sweep
from storage.side_files import LIVE, SWEEP, SweepSummary, list_sweeps, read_state, status_of
from storage.sweep_store import DATABASE

SAMPLES = Path(__file__).resolve().parent.parent / "sample_data"
IMPORT = "imp-"  # how the id of an import begins


def find_folder(data_dir: Path, sweep_id: str) -> Path:
    """The folder of a sweep or an import of the data folder, or of a sample. Raises ConfigError if there is none."""
    if sweep_id.startswith(IMPORT):
        return import_folder(data_dir, sweep_id)
    folder = sweep_folder(data_dir, sweep_id)
    sample = SAMPLES / folder.name
    if folder.is_dir():
        return folder
    if (sample / DATABASE).is_file():
        return sample
    raise ConfigError(f"there is no sweep {sweep_id!r} here; it may have been deleted")


def is_sample(folder: Path) -> bool:
    """True for a recorded sweep that came with the program: to look at, never to change."""
    return folder.parent == SAMPLES


def sample_sweeps() -> list[SweepSummary]:
    """The recorded sweeps that came with the program."""
    found = sorted(p for p in SAMPLES.glob("*") if (p / DATABASE).is_file())
    return [_sample(folder) for folder in found]


def _sample(folder: Path) -> SweepSummary:
    sweep, state = read_json(folder / SWEEP) or {}, read_state(folder) or {}
    return SweepSummary(
        sweep_id=folder.name,
        name=str(sweep.get("name") or folder.name),
        status="sample",
        created_unix_ns=int(sweep.get("created_unix_ns") or 0),
        cells_total=int(state.get("cells_total") or 0),
        cells_done=int(state.get("cells_done") or 0),
        verdict=state.get("verdict"),
        brief=state.get("brief") if isinstance(state.get("brief"), dict) else None,
        simulated=sweep.get("simulated") is True,
        folder=folder,
    )


def imported_sweeps(data_dir: Path) -> list[SweepSummary]:
    """What was taken in from files, newest first, as lines of the list of sweeps."""
    return [
        SweepSummary(
            sweep_id=known.import_id,
            name=known.name,
            status=known.status,
            created_unix_ns=known.created_unix_ns,
            cells_total=known.cells,
            cells_done=known.cells,
            verdict=None,
            simulated=known.simulated,
            folder=known.folder,
            brief=known.brief,
            source=known.tool,
        )
        for known in list_imports(data_dir)
    ]


def all_sweeps(data_dir: Path) -> list[SweepSummary]:
    """The user's own sweeps, newest first, then the samples."""
    return [*list_sweeps(data_dir), *sample_sweeps()]


def all_results(data_dir: Path) -> list[SweepSummary]:
    """Everything that can be looked at: own sweeps, what was imported, the samples."""
    return [*list_sweeps(data_dir), *imported_sweeps(data_dir), *sample_sweeps()]


def state_of(folder: Path) -> str:
    """status_of, but a sample is always done: nobody could go on with it."""
    return "done" if is_sample(folder) else status_of(folder)


def is_import(folder: Path) -> bool:
    """True for the folder of an import, which has no database; asks no disk, for it may be half copied."""
    return folder.parent.name == "imports" and folder.name.startswith(IMPORT)


def stamp_of(folder: Path) -> tuple[int, int]:
    """Changes whenever the sweep's database or the import does: (mtime in ns, bytes); zeros if there is none."""
    try:
        found = (folder / (DOCUMENT if is_import(folder) else DATABASE)).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def refuse_unfinished(folder: Path) -> None:
    """Raises BusyError while the sweep is measured."""
    if state_of(folder) in LIVE:
        raise BusyError(f"sweep {folder.name} is being measured; its result is there when it ends")


def load_prepared(folder: Path) -> Prepared:
    """A finished sweep, ready to be scored. Raises BusyError while it is measured, StorageError if damaged."""
    refuse_unfinished(folder)
    tables = read_sweep(folder)
    try:
        return prepare(tables)
    except ValueError as e:
        raise StorageError(f"{folder}: its settings can't be read by this version ({e}); update Goodput Lab") from None


def result_of(
    prepared: Prepared,
    folder: Path,
    *,
    targets: Mapping[str, Slo] | None = None,
    rule: GapRule | None = None,
    share_target: float | None = None,
) -> dict[str, Any]:
    """The result object with these targets; those of the sweep where None."""
    return score(prepared, targets=targets, rule=rule, share_target=share_target, status=state_of(folder))


def report_html(folder: Path, *, include_private: bool = False, words: Words = ENGLISH) -> str:
    """The shared page of a sweep or an import, in the language of `words`. Raises GoodputError in plain words."""
    if is_import(folder):
        return import_html(load_import(folder), include_private=include_private, words=words)
    from app.export.shared_page import render_page  # brings Plotly, which most commands do not need

    prepared = load_prepared(folder)
    windows = {facts.cell: facts.window_s for facts in prepared.cells if facts.window_s}
    crowds = {facts.cell: facts.crowds for facts in prepared.cells}
    return render_page(
        result_of(prepared, folder),
        prepared.requests,
        windows_s=windows,
        crowds=crowds,
        stalled=stalled_requests(prepared, targets_of(prepared.config)),
        include_private=include_private,
        words=words,
    )


def write_report(folder: Path, path: Path, *, include_private: bool, words: Words = ENGLISH) -> None:
    """Writes the shared page to `path`. Raises GoodputError."""
    html = report_html(folder, include_private=include_private, words=words)
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as e:
        raise write_error(path, e) from None


def cell_series(prepared: Prepared, cell: int) -> dict[str, dict[str, np.ndarray]]:
    """{"ttft_ms" | "gap_ms": {class: values}} of the answers that count in a cell's window, for ECDFs.

    An answer that came in one piece has no gaps, as in the percentiles.
    """
    facts = next(f for f in prepared.cells if f.cell == cell)
    return series_of(prepared.requests.iloc[facts.rows], [cell])


def cell_rows(prepared: Prepared, cell: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(requests, engine samples) of one cell, for its timeline."""
    facts = next(f for f in prepared.cells if f.cell == cell)
    engine = prepared.tables.engine
    return prepared.requests.iloc[facts.rows], engine[engine["cell"] == cell]


def cell_verdicts(
    prepared: Prepared, cell: int, targets: Mapping[str, Slo] | None = None, rule: GapRule | None = None
) -> list[str | None]:
    """ "met", "missed", "censored" or None (no targets) of each request of a cell, as the result object counts them."""
    facts = next(f for f in prepared.cells if f.cell == cell)
    rows = prepared.requests.iloc[facts.rows]
    wanted = targets_of(prepared.config) if targets is None else targets
    return list(verdicts(rows, judge(rows, wanted), rule))
