"""The version of this program, as installed."""

from importlib.metadata import PackageNotFoundError, version


def tool_version() -> str:
    """Such as "0.1.0"; "unknown" when run from a source tree that is not installed."""
    try:
        return version("goodput-lab")
    except PackageNotFoundError:
        return "unknown"
