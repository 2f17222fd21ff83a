"""Two sweeps of one real llama.cpp server differ by noise; half of its threads are worse. Run it on a quiet machine.

    python -m tests.benchmarks.compare_threads

Measured in turns, so that whatever else the machine does falls on all alike. Prints both verdicts. About three minutes.
"""

import os
import tempfile
from pathlib import Path

from runner.analysis.compare import compare
from runner.analysis.prepare import Prepared, prepare
from runner.config import parse_sweep
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.engines_support.llama import running_llama, smollm2_gguf

ROUNDS = 4
FLAGS = ("-np", "1", "-c", "1024", "--no-cache-prompt")


def measure(data: Path, url: str) -> Prepared:
    """One client that asks again as soon as it is answered: some eight answers to prompts of 250 tokens."""
    config = parse_sweep(
        {
            "name": "threads",
            "backend": {"kind": "llama_cpp", "url": url, "api": "openai_chat"},
            "grid": {"max_concurrency": [1]},
            "run": {"duration_s": 8, "warmup_s": 1, "drain_s": 10},
            "classes": [
                {
                    "name": "chat",
                    "weight": 1,
                    "prompt_tokens": 250,
                    "output_tokens": 6,
                    "slo": {"ttft_ms": 10_000, "gap_ms": 5_000},
                }
            ],
        },
        "test",
    )
    sweep_id = enqueue(data, config, "test")
    assert run_one(data, sweep_id, lambda _: None) == "done"
    return prepare(read_sweep(sweep_folder(data, sweep_id)))


class Turns:
    """Runs of two servers in turns: before and same are of the first, halved is of the second."""

    def __init__(self, data: Path, two: str, one: str) -> None:
        self.data, self.two, self.one = data, two, one
        self.before, self.halved, self.same = list[Prepared](), list[Prepared](), list[Prepared]()

    def measure(self, rounds: int) -> None:
        for turn in range(rounds):
            first, last = (self.before, self.same) if turn % 2 == 0 else (self.same, self.before)
            first.append(measure(self.data, self.two))
            self.halved.append(measure(self.data, self.one))
            last.append(measure(self.data, self.two))


def main() -> None:
    # threads that wait asleep: two that spin are slower than one wherever somebody else wants a core as well
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    with tempfile.TemporaryDirectory() as folder:
        data = open_data_folder(Path(folder) / "data")
        with (
            running_llama(*FLAGS, "-t", "2", "-tb", "2", model=smollm2_gguf()) as two,
            running_llama(*FLAGS, model=smollm2_gguf()) as one,
        ):
            turns = Turns(data, two, one)
            turns.measure(ROUNDS)
    for name, other in (("the same setting", turns.same), ("half of the threads", turns.halved)):
        found = compare(turns.before, other)
        print(f"{name}: {found['verdict']}, regression {found['regression']}")


if __name__ == "__main__":
    main()
