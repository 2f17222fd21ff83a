"""What servers tell about their own settings, and who answers an address. Texts as the servers send them."""

import json

import pytest

from runner.engines.proof import Identity, compare
from runner.engines.told import difference, read_cache_info, read_info, read_props, read_server_info


def test_each_server_tells_in_its_own_words() -> None:
    """The keys of a grid, whatever the server calls them; null and missing ones are left out."""
    assert read_props('{"total_slots": 4, "model_alias": "m"}') == {"max_num_seqs": 4}
    sglang = {"max_running_requests": 16, "chunked_prefill_size": None}
    assert read_server_info(json.dumps(sglang)) == {"max_num_seqs": 16}
    tgi = {"max_concurrent_requests": 128, "max_total_tokens": 4096, "sha": "x"}
    assert read_info(json.dumps(tgi)) == {"max_concurrent_requests": 128, "context_tokens": 4096}
    labels = 'block_size="128",num_gpu_blocks_override="None"'
    assert read_cache_info(f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{labels}}} 1.0\n") == {
        "block_size": "128"
    }


@pytest.mark.parametrize("text", ["", "no", "[]", "{", "null", pytest.param("[" * 100_000, id="nested")])
def test_a_page_that_tells_nothing_contradicts_nothing(text: str) -> None:
    """A proxy's error page, an empty answer."""
    assert read_props(text) == read_server_info(text) == read_cache_info(text) == {}


@pytest.mark.parametrize(
    ("asked", "told", "words"),
    [
        ({"max_num_seqs": 8}, {"max_num_seqs": 8}, None),
        ({"max_num_seqs": 8}, {}, None),
        (
            {"block_size": 16, "prefix": True, "kind": "FP8"},
            {"block_size": "16", "prefix": "True", "kind": "fp8"},
            None,
        ),
        ({"n": 10**400}, {"n": 10**400}, None),
        ({"n": 1, "b": 2}, {"n": 4, "b": 3}, "the server says that it runs with n 4 instead of 1, b 3 instead of 2"),
    ],
)
def test_what_was_asked_is_compared_with_what_is_told(
    asked: dict[str, int], told: dict[str, int], words: str | None
) -> None:
    """Numbers as numbers, words whatever their case; silence is no contradiction."""
    assert difference(asked, told) == words


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (Identity(False), Identity(True), "new"),  # nobody answered before
        (Identity(True, (7, 1.0)), Identity(True, (7, 1.0)), "old"),
        (Identity(True, (7, 1.0)), Identity(True, (7, 9.0)), "new"),  # the number was given away again
        (Identity(True, (7, 1.0)), Identity(True, (8, 9.0)), "new"),
        (Identity(True, (7, 1.0), 100.0), Identity(True, (7, 1.0), 200.0), "new"),  # a proxy stayed, its server did not
        (Identity(True, (7, 1.0), 100.0), Identity(True, (8, 9.0), 100.0), "old"),
        (Identity(True), Identity(True), "unknown"),
        (Identity(True, (7, 1.0), None), Identity(True, None, 100.0), "unknown"),
    ],
)
def test_a_new_server_is_told_from_an_old_one(before: Identity, after: Identity, verdict: str) -> None:
    """By who answered before, by the server's own start time, by the process that listens; else it is not known."""
    assert compare(before, after) == verdict
