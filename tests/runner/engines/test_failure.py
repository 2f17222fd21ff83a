"""The reason of a failed start is read from the exit code and the last log lines."""

from pathlib import Path

import pytest

from runner.engines.failure import died, log_tail, ran_out_of_memory

CAPTURES = Path(__file__).parents[2] / "engines_support" / "captures"


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB: cudaMalloc failed: out of memory",
        "llama_init_from_model: failed to allocate compute pp buffers",
        "ggml_vulkan: Device memory allocation of size 1073741824 failed. ErrorOutOfDeviceMemory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be "
        "stored in KV cache (42000).",
        "OSError: [Errno 12] Cannot allocate memory",
    ],
)
def test_out_of_memory_is_recognised_in_the_words_of_each_engine(line: str) -> None:
    """CUDA, llama.cpp, Vulkan, C++, vLLM and Python each say it differently."""
    assert ran_out_of_memory(f"loading\n{line}\nbye")
    assert died(1, line, "while starting").error_kind == "out_of_memory"


def test_another_mistake_is_not_called_out_of_memory() -> None:
    """A real vLLM that refuses its block size ends as "exited", with the line that says why."""
    failed = died(1, (CAPTURES / "vllm_start_failure.txt").read_text(encoding="utf-8"), "while starting")
    assert failed.error_kind == "exited"
    assert failed.exit_code == 1
    assert "while starting (exit code 1)" in str(failed)


def test_a_kill_by_the_system_is_explained() -> None:
    """Signal 9 that we did not send usually is the kernel's out-of-memory killer; the log cannot say so."""
    failed = died(-9, "", "while serving")
    assert failed.error_kind == "exited"
    assert "signal 9" in str(failed)
    assert "memory runs out" in str(failed)


def test_log_tail_is_the_last_lines_that_say_something() -> None:
    """Twenty lines, blank ones left out."""
    assert log_tail("\n".join(f"line {n}\n" for n in range(30))).splitlines() == [f"line {n}" for n in range(10, 30)]
