"""Streamlit's caches around app.data. A sweep is read once, however many sliders are moved."""

from pathlib import Path
from typing import Any

import streamlit as st

from app import backends
from app.data import load_prepared, stamp_of
from runner.analysis.prepare import Prepared
from runner.config import SweepConfig
from runner.simulated_sweep import VirtualSweep
from runner.simulator.presets import EngineProfile
from runner.simulator.step_log import StepLog
from runner.what_if import cell_steps, in_memory


def prepared(folder: Path) -> Prepared:
    """`load_prepared`, remembered until the sweep's database changes. Raises GoodputError."""
    return _prepared(str(folder), stamp_of(folder))


@st.cache_resource(max_entries=3, show_spinner=False)
def _prepared(folder: str, stamp: tuple[int, int]) -> Prepared:
    return load_prepared(Path(folder))


@st.cache_data(ttl=30, show_spinner=False)
def servers() -> list[dict[str, Any]]:
    """`app.backends.servers_here`, remembered for half a minute, for all visitors."""
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
