"""Streamlit's caches around app.data. A sweep is read once, however many sliders are moved."""

from pathlib import Path
from typing import Any

import streamlit as st

from app import backends
from app.data import load_prepared, stamp_of
from runner.analysis.prepare import Prepared


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
