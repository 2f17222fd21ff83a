"""The reason of a failed start is read from the exit code and the last log lines."""

from pathlib import Path

import pytest

from runner.engines.failure import died, hook_failed, log_tail, ran_out_of_memory

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
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 512.00 MiB.",
        "ROCm error: out of memory in function alloc at ggml-cuda.cu:120",
        "hipMalloc failed with hipErrorOutOfMemory",
        "ggml_metal_graph_compute: error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "ggml_metal_buffer_init: error: failed to allocate buffer, size = 24576.00 MiB",
        "libc++abi: [metal::malloc] Attempting to allocate 17179869184 bytes which is greater than the maximum allowed "
        "buffer size of 9534832640 bytes.",
        "vk::DeviceLost: VK_ERROR_OUT_OF_DEVICE_MEMORY",
        "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 8858370048",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "Error: model requires more system memory (9.3 GiB) than is available (7.1 GiB)",
        "memory cgroup: oom-kill of the task",
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


@pytest.mark.parametrize("exit_code", [-9, 137])
def test_a_kill_by_the_system_counts_as_out_of_memory(exit_code: int) -> None:
    """Signal 9 that we did not send, or 128 + 9 behind a shell or a container; the log cannot say so."""
    failed = died(exit_code, "loading tensors", "while serving")
    assert failed.error_kind == "out_of_memory"
    assert failed.exit_code == exit_code
    assert "as the kernel does it when memory runs out" in str(failed)


@pytest.mark.parametrize(
    "line",
    [
        "error: invalid argument: --no-such-flag",
        "api_server.py: error: unrecognized arguments: --no-such-flag",
        "api_server.py: error: argument --max-num-seqs: invalid choice: '0'",
        "error: unexpected argument '--no-such-flag' found",
        "flag provided but not defined: -no-such-flag",
        "Error: No such option: --no-such-flag",
    ],
)
def test_a_flag_that_the_server_does_not_take_is_named(line: str) -> None:
    """llama.cpp, Python's argparse, Rust's clap, Go and click; the sentence shows what the server said."""
    failed = died(2, f"usage: server [options]\n{line}\n", "while starting")
    assert failed.error_kind == "bad_command"
    assert line in str(failed)
    assert died(2, line, "while serving").error_kind == "exited"


def test_a_failed_assertion_is_shown_in_the_reason() -> None:
    """ggml ends with SIGABRT and one line that says where."""
    line = "/src/ggml-cuda.cu:83: GGML_ASSERT(n_tokens <= n_batch) failed"
    failed = died(-6, f"slot update\n{line}\n", "while serving")
    assert (failed.error_kind, failed.exit_code) == ("exited", -6)
    assert line in str(failed)


def test_no_log_lines_are_pointed_at_where_there_are_none() -> None:
    """A hook that leaves its server's output elsewhere, or says nothing, has no last lines that say why."""
    for silent in (died(None, " \n", "while serving"), hook_failed("command", 3, "")):
        assert "log lines say why" not in str(silent)
        assert "look where its output goes" in str(silent)
    for spoken in (died(3, "no such quant\n", "while serving"), hook_failed("command", 3, "no such container")):
        assert str(spoken).endswith("its last log lines say why")


def test_log_tail_is_the_last_lines_that_say_something() -> None:
    """Twenty lines, blank ones left out."""
    assert log_tail("\n".join(f"line {n}\n" for n in range(30))).splitlines() == [f"line {n}" for n in range(10, 30)]


def test_the_last_word_of_a_python_server_is_quoted() -> None:
    """What vLLM 0.32 says of a token budget below its sequences, without pydantic's own notes behind it."""
    log = """Traceback (most recent call last):
  File "arg_utils.py", line 2617, in create_engine_config
    scheduler_config = SchedulerConfig(
pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig
  Value error, max_num_batched_tokens (32) must be greater than or equal to max_num_seqs (64). [type=value_error, input]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
    failure = died(1, log, "while starting")
    assert failure.error_kind == "exited"
    assert str(failure) == (
        "the server ended while starting (exit code 1): "
        "Value error, max_num_batched_tokens (32) must be greater than or equal to max_num_seqs (64)."
    )
