"""How prompts are sized: words to tokens as the server itself counts them."""

import asyncio

import pytest

from runner.engines.running import Running
from runner.load.clock import Clock
from runner.load.workload import PromptScale
from runner.measured import CALIBRATION_WORDS, Measured, prompt_scale
from tests.support.posting_server import chat_answer, models, server
from tests.support.small_sweeps import quick_config

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


def test_a_key_in_a_models_name_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lists what it was sent as its model: the sweep's file tells the name without the key."""
    monkeypatch.setenv("MEASURED_TEST_KEY", "sk-echoed-key-000000")
    raw = {"kind": "openai", "url": "http://127.0.0.1:1", "api_key_env": "MEASURED_TEST_KEY"}
    config = quick_config(backend=raw, grid={"request_rate": [1.0]})

    async def facts(url: str) -> dict[str, object]:
        measured = await Measured.find(config, {}, Running(url, None, None, None, False), Clock())
        await measured.close()
        return measured.facts()

    listing = models("vllm", "m-sk-echoed-key-000000")
    with server({"/v1/models": listing}, lambda *_: (200, chat_answer())) as (url, posts):
        assert asyncio.run(facts(url))["model"] == "m-***"
    assert posts[0][1]["model"] == "m-sk-echoed-key-000000"
