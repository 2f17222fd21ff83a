"""llama.cpp's slot list gives the sequences running and the share of KV cells in use."""

from pathlib import Path

import pytest

from runner.engines.slots_text import Slots, kv_is_unified, parse_slots

CAPTURES = Path(__file__).parents[2] / "engines_support" / "captures"


def slots(name: str) -> str:
    text = (CAPTURES / f"{name}.txt").read_text(encoding="utf-8")
    return text[text.index("[{") :]


def test_busy_slots_use_the_cells_of_their_prompts_and_answers() -> None:
    """Four slots of 2048 cells hold 81 + 79 + 79 + 75 tokens."""
    seen = parse_slots(slots("llamacpp_slots_under_load"), kv_unified=False)
    assert seen == Slots(4, 4, (81 + 79 + 79 + 75) / (4 * 2048))


def test_a_unified_cache_is_counted_once() -> None:
    """With one cache for all, each slot shows the whole of it: 2048 cells, not 4 × 2048."""
    seen = parse_slots(slots("llamacpp_slots_under_load"), kv_unified=True)
    assert seen == Slots(4, 4, (81 + 79 + 79 + 75) / 2048)


def test_what_idle_slots_keep_for_the_prefix_cache_is_free() -> None:
    """Left-over prompts of idle slots yield to the next request, so they are no use of the cache."""
    assert parse_slots(slots("llamacpp_slots_idle"), kv_unified=False) == Slots(0, 4, 0.0)


def test_unknown_cache_layout_means_unknown_use() -> None:
    """Without the start line the total is ambiguous: null, not a guess."""
    seen = parse_slots(slots("llamacpp_slots_under_load"), kv_unified=None)
    assert seen == Slots(4, 4, None)


# numbers that are none, and lists inside lists: no fault of ours, whoever sends them
HOSTILE = (
    '[{"is_processing":true,"n_ctx":1e999}]',
    '[{"is_processing":true,"n_ctx":8,"n_prompt_tokens":Infinity}]',
    pytest.param("[" * 100_000, id="nested"),
)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"error":{"code":501}}', "null", '[{"id":0}]', "<html>", '["a"]', *HOSTILE]
)
def test_what_is_no_slot_list_gives_nothing(text: str) -> None:
    """An error object, HTML or foreign JSON is no slot list."""
    assert parse_slots(text, kv_unified=False) is None


def test_a_share_of_the_cache_is_a_share_whatever_the_numbers() -> None:
    """More in use than there is room for is all of it."""
    seen = parse_slots(f'[{{"is_processing":true,"n_ctx":8,"n_prompt_tokens":{"9" * 400}}}]', kv_unified=False)
    assert seen == Slots(1, 1, 1.0)


@pytest.mark.parametrize(
    ("line", "unified"),
    [
        (None, None),
        ("llama-server -m x.gguf -np 4", False),
        ("llama-server -m x.gguf --parallel=4", False),
        ("llama-server -m x.gguf -np 4 -kvu", True),
        ("LLAMA_ARG_N_PARALLEL=4 llama-server -m x.gguf", False),
        ("llama-server -m x.gguf", True),
        ("llama-server -m x.gguf --no-kv-unified", False),
    ],
)
def test_cache_layout_is_read_from_the_start_line(line: str | None, unified: bool | None) -> None:
    """The default is unified exactly when the number of slots is left to llama-server."""
    assert kv_is_unified(line) is unified
