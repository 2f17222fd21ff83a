"""The page's own script and style, and the plotly bundle: read once from the package, checked nowhere else."""

import base64
import gzip
import hashlib
from functools import lru_cache
from importlib import resources


@lru_cache
def text(name: str) -> str:
    """A file of this package as text."""
    return resources.files("app.export").joinpath(name).read_text(encoding="utf-8")


@lru_cache
def plotly_source() -> str:
    """The vendored plotly.js basic bundle."""
    return text("vendor/plotly-basic.min.js")


@lru_cache
def plotly_packed() -> str:
    """The bundle, gzipped and in base64: half its size, and no markup inside."""
    return base64.b64encode(gzip.compress(plotly_source().encode(), 9, mtime=0)).decode()


def csp_hash(source: str) -> str:
    """The Content-Security-Policy source that allows exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
