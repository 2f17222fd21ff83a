"""Names behind which a secret stands: of variables, flags and query parameters. PURE."""

import re
from collections.abc import Sequence
from urllib.parse import unquote

# A sweep's folder is made to be copied and shared: no secret may stand in its config.
_SECRET_NAME = re.compile(r"(api[-_]?keys?|key|token|password|passwd|secret|credentials?)$", re.IGNORECASE)
_SCHEME = re.compile(r"^\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def holds_secret(url: str) -> bool:
    """True for user info, or a query parameter that looks like a key. The scheme may be missing."""
    bare = _SCHEME.sub("", url)
    names = (unquote(parameter.partition("=")[0]) for parameter in re.split(r"[?#&;]", bare)[1:])
    return "@" in re.split(r"[/?#]", bare)[0] or any(_SECRET_NAME.search(name) for name in names)


def is_secret_name(name: str) -> bool:
    """Whether a variable or flag of this name holds a secret: HF_TOKEN, --api-key; but not --max-tokens."""
    return _SECRET_NAME.search(name) is not None


def secret_flags(command: Sequence[str]) -> list[tuple[str, str]]:
    """(flag, value) of what stands behind flags whose names say that it is a secret."""
    found = []
    for flag, following in zip(command, (*command[1:], ""), strict=False):
        name, equals, value = flag.partition("=")
        if name.startswith("-") and is_secret_name(name):
            found.append((name, value if equals else following))
    return found
