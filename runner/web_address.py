"""A server's address as users have it at hand. PURE."""

import re

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def with_scheme(url: str) -> str:
    """The full URL: `nas:8000/v1` is that of plain HTTP. Space around it goes; an empty text stays one."""
    url = url.strip()
    return url if not url or _SCHEME.match(url) else f"http://{url}"
