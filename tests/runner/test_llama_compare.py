"""Two sweeps of one real llama.cpp server differ by noise; half of its threads are worse."""

import os
from pathlib import Path

import pytest

from runner.analysis.compare import compare
from runner.analysis.prepare import Prepared, prepare
from runner.config import parse_sweep
from runner.queue import enqueue, sweep_folder
from runner.work import run_one
from storage.data_folder import open_data_folder
from storage.queries import read_sweep
from tests.engines_support.llama import llama_installed, random_gguf, running_llama
from tests.engines_support.make_gguf import Size

pytestmark = pytest.mark.llama
ROUNDS, MOST_ROUNDS = 3, 8
FLAGS = ("-np", "1", "-c", "1024", "--no-cache-prompt")
PROMPTS = Size(hidden=256, layers=8, ffn=1024)  # to read 150 tokens keeps two threads busy for about 0.1 s


def measure(data: Path, url: str) -> Prepared:
    """One client that asks again as soon as it is answered, for a second and a half."""
    config = parse_sweep(
        {
            "name": "threads",
            "backend": {"kind": "llama_cpp", "url": url, "api": "openai_chat"},
            "grid": {"max_concurrency": [1]},
            "run": {"duration_s": 1.5, "warmup_s": 0.2, "drain_s": 10},
            "classes": [
                {
                    "name": "chat",
                    "weight": 1,
                    "prompt_tokens": 150,
                    "output_tokens": 8,
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


@pytest.mark.skipif(
    not llama_installed() and not os.environ.get("CI"), reason="xllamacpp is not installed (make test installs it)"
)
@pytest.mark.timeout(300)  # about half a minute on a machine of its own
def test_the_same_setting_is_noise_and_half_of_the_threads_are_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured in turns, so that whatever else the machine does falls on all alike; each side is told by how its own
    runs differ from each other. On a busy machine it takes more turns until the difference is clear. Noise is called a
    difference once in twenty times, which is what 95 % means: then it must not happen again.
    """
    # threads that wait asleep: two that spin are slower than one wherever somebody else wants a core as well
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setenv("GOMP_SPINCOUNT", "0")
    data, model = open_data_folder(tmp_path / "data"), random_gguf(PROMPTS)
    with (
        running_llama(*FLAGS, "-t", "2", "-tb", "2", model=model) as two,
        running_llama(*FLAGS, model=model) as one,
    ):
        turns = Turns(data, two, one)
        turns.measure(ROUNDS)
        worse = compare(turns.before, turns.halved)
        while not worse["regression"] and len(turns.halved) < MOST_ROUNDS:
            turns.measure(1)
            worse = compare(turns.before, turns.halved)
        equal = compare(turns.before, turns.same)
        if equal["verdict"] != "noise":
            again = Turns(data, two, one)
            again.measure(ROUNDS)
            equal = compare(again.before, again.same)
    if "cant_tell" in (worse["verdict"], equal["verdict"]):  # on so busy a machine nothing can be measured:
        assert worse["notes"] or equal["notes"]  # that is said,
        assert not equal["regression"]  # and nothing is blamed on the server
        return
    assert (worse["verdict"], worse["regression"]) == ("worse", True), worse["points"][0]["metrics"]
    assert (equal["verdict"], equal["regression"]) == ("noise", False), equal["points"][0]["metrics"]
