"""Loads what the pages draw with, before the first of them is asked for."""

from contextlib import suppress
from importlib import import_module

import plotly.io

from app.views.frontier import frontier_figure

# what the first visitors look at; other pages load the rest when they are opened
PARTS = (
    "app.cell_parts",
    "app.closer_parts",
    "app.import_parts",
    "app.isolation_parts",
    "app.start_parts",
    "app.views.imported",
)
# what Streamlit loads for the first visitor's icon and figures; another version of it may not have them
THEIRS = (
    "PIL.Image",
    "streamlit.elements.lib.streamlit_plotly_theme",
    "streamlit.emojis",
    "streamlit.material_icon_names",
)


def load_pages() -> None:
    """Takes about a second, which the first visitor would wait: the loading holds up the scripts that the browser asks
    for meanwhile."""
    for name in PARTS:
        import_module(name)
    for name in THEIRS:
        with suppress(ImportError):
            import_module(name)
    plotly.io.to_json(frontier_figure({}), validate=False)
