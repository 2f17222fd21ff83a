"""Why an engine did not start or died, from its last log lines and exit code. PURE."""

import re

from runner.errors import SettingFailed

# llama.cpp, CUDA, ROCm, Vulkan, Metal, PyTorch, vLLM, the C++ and Python allocators
_OUT_OF_MEMORY = re.compile(
    r"out of ((device|host) )?memory|outof(device|host)?memory|(failed|unable) to allocate|can(no|')t allocate memory"
    r"|bad_alloc|cudaMalloc failed|insufficient memory|not enough (gpu |device )?memory|\bMemoryError\b"
    r"|no available memory for the cache|larger than the (maximum|available)[^\n]*kv cache"
    r"|kv cache memory[^\n]*is needed|less than desired gpu memory utilization",
    re.IGNORECASE,
)
_SHOWN_LINES = 20
_SIGKILL = -9


def ran_out_of_memory(log: str) -> bool:
    return bool(_OUT_OF_MEMORY.search(log))


def died(exit_code: int | None, log: str, when: str) -> SettingFailed:
    """The failure of an engine whose process ended by itself. `when`: "while starting" or "while serving"."""
    how = "exit code unknown" if exit_code is None else _how(exit_code)
    if ran_out_of_memory(log):
        detail = f"the server ran out of memory {when} ({how}); lower the context or the batch limits of this setting"
        return SettingFailed("out_of_memory", detail, exit_code=exit_code, log_tail=log_tail(log))
    hint = "; the kernel kills a process this way when memory runs out" if exit_code == _SIGKILL else ""
    detail = f"the server ended {when} ({how}){hint}; its last log lines say why"
    return SettingFailed("exited", detail, exit_code=exit_code, log_tail=log_tail(log))


def _how(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def hook_failed(name: str, exit_code: int, log: str) -> SettingFailed:
    """The failure of a command of the user's own that ended with something else than 0."""
    how = _how(exit_code)
    if ran_out_of_memory(log):
        detail = f"control.{name} failed ({how}): out of memory; lower the context or the batch limits of this setting"
        return SettingFailed("out_of_memory", detail, exit_code=exit_code, log_tail=log_tail(log))
    detail = f"control.{name} failed ({how}); its last log lines say why"
    return SettingFailed("hook_failed", detail, exit_code=exit_code, log_tail=log_tail(log))


def log_tail(log: str) -> str:
    """The last 20 lines that say something."""
    lines = [line for line in log.splitlines() if line.strip()]
    return "\n".join(lines[-_SHOWN_LINES:])
