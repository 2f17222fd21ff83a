"""How prompts are sized: words to tokens as the server itself counts them."""

import pytest

from runner.load.workload import PromptScale
from runner.measured import CALIBRATION_WORDS, prompt_scale

FEW, MANY = CALIBRATION_WORDS


@pytest.mark.parametrize(
    ("counts", "scale"),
    [
        pytest.param([FEW + 30, MANY + 30], PromptScale(1.0, 30.0), id="a chat template of 30 tokens"),
        pytest.param([2 * FEW, 2 * MANY], PromptScale(2.0, 0.0), id="two tokens a word"),
        pytest.param([3 * FEW], PromptScale(3.0, 0.0), id="context too small for the longer prompt"),
        pytest.param([], PromptScale(), id="nothing counted"),
        pytest.param([0, 0], PromptScale(), id="usage of zero"),
        pytest.param([9, 9], PromptScale(), id="a count that does not grow"),
    ],
)
def test_two_counts_give_the_slope_and_the_template(counts: list[int], scale: PromptScale) -> None:
    """tokens = overhead + words x tokens_per_word through both points; a senseless count means one word a token."""
    assert prompt_scale(counts) == scale
