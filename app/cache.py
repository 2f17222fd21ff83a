"""Streamlit's caches around app.data. A sweep is read once, however many sliders are moved."""

import contextlib
import json
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from app import backends
from app.data import is_import, is_sample, load_prepared, refuse_unfinished, result_of, stamp_of, state_of
from app.imports import import_result, load_import, prepared_import
from runner.analysis.compare import compare
from runner.analysis.prepare import Prepared
from runner.analysis.result import targets_of
from runner.config import GapRule, Slo, SweepConfig
from runner.kept_result import keep_result, kept_result
from runner.simulated_sweep import VirtualSweep
from runner.simulator.presets import EngineProfile
from runner.simulator.step_log import StepLog
from runner.what_if import cell_steps, in_memory
from storage.errors import GoodputError

SOON_S = 1.0
MOST_SWEEPS = 3  # each takes about a hundred bytes a token
_asked: deque[tuple[str, tuple[int, int]]] = deque(maxlen=MOST_SWEEPS)  # read, or about to be


def prepare_soon(folder: Path) -> None:
    """Reads a sweep in a moment, when its page is drawn, so that the first slider need not wait for it."""
    if (asked := (str(folder), stamp_of(folder))) in _asked:
        return
    _asked.append(asked)
    timer = threading.Timer(SOON_S, _prepare_quietly, asked)
    timer.daemon = True
    timer.start()


def _prepare_quietly(folder: str, stamp: tuple[int, int]) -> None:
    with contextlib.suppress(GoodputError):  # the page says so when somebody asks for it
        _prepared(folder, stamp)


def prepared(folder: Path) -> Prepared:
    """`load_prepared`, remembered until the sweep's database changes. Raises GoodputError."""
    return _prepared(str(folder), stamp_of(folder))


@st.cache_resource(max_entries=MOST_SWEEPS, show_spinner=False)
def _prepared(folder: str, stamp: tuple[int, int]) -> Prepared:
    return load_prepared(Path(folder))


@st.cache_resource(ttl=30, show_spinner=False)  # of data it would say, before the server runs, that none does
def servers() -> list[dict[str, Any]]:
    """`app.backends.servers_here`, remembered for half a minute, for all visitors; to be read only."""
    return backends.servers_here()


def what_if(config: SweepConfig, profile: EngineProfile | None) -> Prepared:
    """Every cell of a what-if sweep, remembered for all visitors as long as few others are asked for. Raises
    GoodputError."""
    return _what_if(config.model_dump_json(), repr(profile), config, profile)


@st.cache_resource(max_entries=2, show_spinner=False)
def _what_if(config_key: str, profile_key: str, _config: SweepConfig, _profile: EngineProfile | None) -> Prepared:
    return in_memory(VirtualSweep(_config, _profile, {}))


def steps(config: SweepConfig, profile: EngineProfile | None, cell: int, from_ns: int, until_ns: int) -> StepLog:
    """`runner.what_if.cell_steps`, remembered."""
    return _steps(config.model_dump_json(), repr(profile), cell, from_ns, until_ns, config, profile)


@st.cache_resource(max_entries=6, show_spinner=False)
def _steps(
    config_key: str,
    profile_key: str,
    cell: int,
    from_ns: int,
    until_ns: int,
    _config: SweepConfig,
    _profile: EngineProfile | None,
) -> StepLog:
    return cell_steps(VirtualSweep(_config, _profile, {}), cell, from_ns, until_ns)


def own_result(folder: Path) -> tuple[SweepConfig, dict[str, Any]]:
    """A sweep's settings and its result with its own targets, to be read only: the kept one, where it is still what
    judging it would give. Raises GoodputError."""
    return _own_result(str(folder), stamp_of(folder))


@st.cache_resource(max_entries=12, show_spinner=False)
def _own_result(folder: str, stamp: tuple[int, int]) -> tuple[SweepConfig, dict[str, Any]]:
    where = Path(folder)
    refuse_unfinished(where)
    if kept := kept_result(where):
        return kept[0], {**kept[1], "status": state_of(where)}
    whole = prepared(where)
    own = result_of(whole, where)
    if not is_sample(where):
        keep_result(where, whole.tables.meta["config"], own)
    return whole.config, own


def result(
    folder: Path, targets: Mapping[str, Slo] | None = None, rule: GapRule | None = None, share: float | None = None
) -> dict[str, Any]:
    """`result_of` a sweep, or `import_result` of an import; to be read only. Raises GoodputError."""
    if not is_import(folder) and rule is None:
        config, own = own_result(folder)
        if targets in (None, targets_of(config)) and share in (None, config.run.share_target):
            return own
    asked = json.dumps({name: slo.model_dump(mode="json") for name, slo in (targets or {}).items()})
    key = "own" if targets is None else asked
    return _result(str(folder), stamp_of(folder), key, rule, share, targets)


@st.cache_resource(max_entries=12, show_spinner=False)
def _result(
    folder: str,
    stamp: tuple[int, int],
    key: str,
    rule: GapRule | None,
    share: float | None,
    _targets: Mapping[str, Slo] | None,
) -> dict[str, Any]:
    where = Path(folder)
    if is_import(where):
        known = imported(where)
        requests = _requests_of(folder, stamp)
        return import_result(known, targets=_targets, rule=rule, share_target=share, prepared=requests)
    return result_of(prepared(where), where, targets=_targets, rule=rule, share_target=share)


def imported(folder: Path) -> dict[str, Any]:
    """The document of an import, to be read only: it may have many megabytes. Raises StorageError."""
    return _imported(str(folder), stamp_of(folder))


@st.cache_resource(max_entries=3, show_spinner=False)
def _imported(folder: str, stamp: tuple[int, int]) -> dict[str, Any]:
    return load_import(Path(folder))


def requests_of(folder: Path) -> Prepared | None:
    """A sweep or an import ready to be scored; None for an import that tells nothing of single requests. Raises
    GoodputError."""
    return _requests_of(str(folder), stamp_of(folder)) if is_import(folder) else prepared(folder)


@st.cache_resource(max_entries=3, show_spinner=False)
def _requests_of(folder: str, stamp: tuple[int, int]) -> Prepared | None:
    return prepared_import(_imported(folder, stamp))


def comparison(a: Path, b: Path, targets: Mapping[str, Slo] | None, rule: GapRule | None) -> dict[str, Any] | None:
    """`compare` of two sweeps or imports; None where one tells nothing of single requests. Raises GoodputError."""
    key = json.dumps({name: slo.model_dump(mode="json") for name, slo in (targets or {}).items()})
    return _comparison(str(a), stamp_of(a), str(b), stamp_of(b), key, rule, targets)


@st.cache_resource(max_entries=12, show_spinner=False)
def _comparison(
    a: str,
    stamp_a: tuple[int, int],
    b: str,
    stamp_b: tuple[int, int],
    key: str,
    rule: GapRule | None,
    _targets: Mapping[str, Slo] | None,
) -> dict[str, Any] | None:
    sides = [requests_of(Path(a)), requests_of(Path(b))]
    first, second = sides
    return None if first is None or second is None else compare([first], [second], targets=_targets, rule=rule)
