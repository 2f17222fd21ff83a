"""Which schedulers the built-in engine has."""

from runner.errors import ConfigError
from runner.simulator.core import Plan
from runner.simulator.schedulers import vllm_v1

SCHEDULERS: dict[str, Plan] = {"vllm_v1": vllm_v1.plan}


def scheduler_named(name: str) -> Plan:
    """The plan step of a scheduler. Raises ConfigError naming those there are."""
    if name not in SCHEDULERS:
        raise ConfigError(
            f"scheduler {name!r} is not in this version of the built-in engine; choose one of {', '.join(SCHEDULERS)}"
        )
    return SCHEDULERS[name]
