"""Why an engine did not start or died, from its last log lines and exit code. PURE."""

import re

from runner.errors import SettingFailed

# llama.cpp, CUDA, ROCm, Vulkan, Level Zero, Metal, MLX, PyTorch, XLA, vLLM, Ollama, the C++ and Python allocators
_OUT_OF_MEMORY = re.compile(
    r"out[ _]?of[ _]?((device|host|gpu|pool)[ _]?)?memory|(failed|unable) to allocate|can(no|')t allocate memory"
    r"|bad_alloc|(cuda|hip)_?Malloc\w* failed|insufficient (v?ram|(gpu )?memory)|not enough (gpu |device )?memory"
    r"|\bMemoryError\b|oom[-_ ]?kill|STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED|allocation of size \d+ failed"
    r"|greater than the maximum allowed buffer size|requires more (system|gpu|video) memory"
    r"|no available memory for the cache|larger than the (maximum|available)[^\n]*kv cache"
    r"|kv cache memory[^\n]*is needed|less than desired gpu memory utilization",
    re.IGNORECASE,
)
# how argument parsers of C++, Python, Rust and Go refuse what they do not know
_BAD_FLAG = re.compile(
    r"invalid argument:|unknown argument|unrecogni[sz]ed (arguments?|option)|unknown (option|flag)|no such option"
    r"|unexpected argument '|flag provided but not defined|expected one argument|invalid choice:"
    r"|error: argument -|the argument '",
    re.IGNORECASE,
)
_ASSERTION = re.compile(r"GGML_ASSERT|AssertionError|\bassert(ion)?\b[^\n]*fail|GGML_ABORT", re.IGNORECASE)
# the last word of a Python server, such as vLLM's "Value error, max_num_batched_tokens (32) must be …"
_PYTHON_ERROR = re.compile(r"^\s*Value error, \S|^(?:\([^)]*\) )?(?:\w+\.)*\w*(?:Error|Exception): \S")
_SHOWN_LINES = 20
_SHOWN_CHARACTERS = 160
_KILLED = (-9, 137)  # ours and, behind a shell or a container, 128 + 9


def ran_out_of_memory(log: str) -> bool:
    return bool(_OUT_OF_MEMORY.search(log))


def died(exit_code: int | None, log: str, when: str) -> SettingFailed:
    """The failure of an engine whose process ended by itself. `when`: "while starting" or "while serving".

    Kinds: out_of_memory, bad_command (it does not take a flag), exited. A kill that nobody here asked for counts as
    out of memory: the kernel does it without a word in the engine's log.
    """
    how = "exit code unknown" if exit_code is None else _how(exit_code)
    tail = log_tail(log)
    starting = when == "while starting"
    if starting and (said := _line(_BAD_FLAG, log)):
        detail = f"the server does not take its start line ({said}); mend control.command or [grid]"
        return SettingFailed("bad_command", detail, exit_code=exit_code, log_tail=tail)
    if ran_out_of_memory(log):
        detail = f"the server ran out of memory {when} ({how}); lower the context or the batch limits of this setting"
        return SettingFailed("out_of_memory", detail, exit_code=exit_code, log_tail=tail)
    if exit_code in _KILLED:
        detail = (
            f"the server was killed {when} ({how}), as the kernel does it when memory runs out; "
            "lower the context or the batch limits of this setting, or end what else needs memory"
        )
        return SettingFailed("out_of_memory", detail, exit_code=exit_code, log_tail=tail)
    said = _line(_ASSERTION, log) or _line(_PYTHON_ERROR, log)
    why = f": {said}" if said else f"; {_where_to_look(tail)}"
    return SettingFailed("exited", f"the server ended {when} ({how}){why}", exit_code=exit_code, log_tail=tail)


def _how(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def hook_failed(name: str, exit_code: int, log: str) -> SettingFailed:
    """The failure of a command of the user's own that ended with something else than 0."""
    how = _how(exit_code)
    if ran_out_of_memory(log):
        detail = f"control.{name} failed ({how}): out of memory; lower the context or the batch limits of this setting"
        return SettingFailed("out_of_memory", detail, exit_code=exit_code, log_tail=log_tail(log))
    if exit_code in _KILLED:
        detail = f"control.{name} was killed ({how}), as the kernel does it when memory runs out; end what needs memory"
        return SettingFailed("out_of_memory", detail, exit_code=exit_code, log_tail=log_tail(log))
    tail = log_tail(log)
    detail = f"control.{name} failed ({how}); {_where_to_look(tail)}"
    return SettingFailed("hook_failed", detail, exit_code=exit_code, log_tail=tail)


def _where_to_look(tail: str) -> str:
    """A hook may leave the server's output elsewhere, or say nothing itself."""
    if tail:
        return "its last log lines say why"
    return "it printed nothing to us: look where its output goes, or let its output reach ours"


def _line(pattern: re.Pattern[str], log: str) -> str | None:
    """The last line of the log in which the pattern stands, cut to a length that fits into a sentence."""
    found = [line.strip() for line in log.splitlines() if pattern.search(line)]
    return found[-1].partition(" [type=")[0][:_SHOWN_CHARACTERS] if found else None


def log_tail(log: str) -> str:
    """The last 20 lines that say something."""
    lines = [line for line in log.splitlines() if line.strip()]
    return "\n".join(lines[-_SHOWN_LINES:])
