"""Under which names the dashboard may be opened, and which pages may talk to it.

A page from elsewhere can lead its own name to our address after it was loaded (DNS rebinding) and would then share our
origin. A name that nobody outside can point at us is safe; so is a dashboard that asks who comes, since its cookie
belongs to the name under which one has logged in.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

# names that home networks give to their machines, and that nobody else can register
LOCAL_ENDS = (
    ".local", ".localhost", ".lan", ".home", ".home.arpa", ".internal", ".intranet", ".localdomain", ".fritz.box",
    ".ts.net",
)  # fmt: skip
ANY = "*"


def host_refusal(host: str, allowed: tuple[str, ...]) -> str | None:
    """None when a dashboard that asks nobody for a password may be opened under the Host header `host`, else one
    sentence why not. `allowed`: further names, lower case; "*" allows all."""
    name = host_name(host)
    if name is not None and (ANY in allowed or name in allowed or _is_local(name)):
        return None
    shown = name or "an unreadable name"
    return (
        f"Goodput Lab does not answer to {shown}. If that is its name, start it with "
        f"GOODPUT_HOSTNAMES={name or 'NAME'}, or let it ask for a password with GOODPUT_PASSWORD."
    )


def host_name(host: str) -> str | None:
    """The name or address in a Host header, lower case, without port; None for what is no Host header."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname, parts.port  # raises for a port that is no number
    except ValueError:
        return None
    clean = name and parts.netloc == host and parts.username is None and not any(c in host for c in "/?#\\ ,;'\"<>")
    return name.rstrip(".") if name and clean else None


def same_origin(origin: str, host: str) -> bool:
    """True when a page of `origin` was loaded from the Host `host`: name and port are the same."""
    try:
        parts = urlsplit(origin)
        ours = urlsplit(f"//{host}")
        standard = {"http": 80, "https": 443}.get(parts.scheme)
        return (
            standard is not None
            and bool(parts.hostname)
            and parts.hostname == ours.hostname
            and (parts.port or standard) == (ours.port or standard)
        )
    except ValueError:
        return False


def _is_local(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return "." not in name or name.endswith(LOCAL_ENDS)
    return True
