"""The run that a fit has not seen: the same load for the backend and for the engine in its place."""

import pytest

from runner.calibration.held_out import errors_of, held_out_sweep, stand_in, worst_error
from runner.simulated_sweep import VirtualSweep
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.what_if import in_memory

PROFILE = EngineProfile(CostModel(a=10.0, b=0.2, c=0.5), 16_384, False, "test")
BACKEND = {"kind": "llama_cpp", "url": "http://127.0.0.1:9", "model": "/home/me/models/tiny-q4.gguf"}


def test_the_load_is_what_the_fitted_machine_can_bear_and_hold() -> None:
    """Two rates, a third and two thirds of its capacity; prompts and answers fit the context, the name tells no path.

    A chat of 296 and 40 tokens: 10 + 0.2 x 296 = 69 ms of prompt, and 40 x (10 + 4 x 0.5) / 4 = 120 ms of answer in a
    batch of four, so 5.3 a second.
    """
    config = held_out_sweep(BACKEND, PROFILE, 4, 688, 30.0)
    chat = config.classes[0]
    assert chat.prompt_tokens.uniform == (32, 560)
    assert chat.output_tokens.uniform == (16, 64)
    assert config.grid["request_rate"] == pytest.approx((0.35 * 5.3, 0.7 * 5.3), rel=0.03)
    assert config.name == "Held-out run of the calibration of tiny-q4.gguf"


def test_a_model_held_against_itself_is_not_off() -> None:
    """And one whose every iteration is a tenth slower is a tenth off in each gap."""
    config = held_out_sweep(BACKEND, PROFILE, 4, 688, 30.0)
    calm = stand_in(config, "llama_cpp", 4, 2048)
    assert [c.name for c in calm.classes] == ["chat"]
    assert (calm.backend.kind, calm.backend.max_num_seqs) == ("simulated", 4)
    right = in_memory(VirtualSweep(calm, PROFILE, {}))
    assert worst_error(errors_of(right, right)) == 0.0
    slow = EngineProfile(CostModel(a=11.0, b=0.22, c=0.55), 16_384, False, "test")
    rows = errors_of(right, in_memory(VirtualSweep(calm, slow, {})))
    assert [row["request_rate"] for row in rows] == list(config.grid["request_rate"])
    assert rows[0]["gap_ms"]["p50"]["error_share"] == pytest.approx(0.1, abs=0.03)
    assert worst_error(rows) > 0.09


def test_without_answers_nothing_is_known() -> None:
    """Not an error of 0."""
    assert worst_error([]) is None
