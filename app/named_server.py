"""A server named on the command line: what is wrong with its address or its dialect, before anything is sent."""

import re

from runner.errors import ConfigError


def check_named_server(url: str, api: str | None, api_key_env: str | None) -> None:
    """Raises ConfigError. A key where none belongs is refused and not repeated: it stands in the process list, and a
    sweep would keep it."""
    from runner.engines.address import is_web_address
    from runner.protocols.dialects import DIALECTS
    from runner.secret_names import holds_secret

    if api is not None and api not in DIALECTS:
        raise ConfigError(f"--api {api} is not known; choose one of {', '.join(DIALECTS)}")
    if api_key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", api_key_env):
        raise ConfigError("--api-key-env is not the name of an environment variable; give the name, never the key")
    if holds_secret(url):
        raise ConfigError("the address holds a user name or a key; take it out and name a variable with --api-key-env")
    if not is_web_address(url):
        raise ConfigError(f"{url!r} is not a web address; write it as http://host:port")
