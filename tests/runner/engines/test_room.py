"""What servers say of how much they can hold."""

import pytest

from runner.engines.room import Room, read_room

PROPS = '{"total_slots": 4, "default_generation_settings": {"n_ctx": 1536}}'
CACHE = 'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000",sliding_window="None"} 1.0\n'


@pytest.mark.parametrize(
    ("pages", "room"),
    [
        ({"/props": PROPS}, Room(4, 1536, 6144)),
        ({"/v1/models": '{"data": [{"id": "m", "max_model_len": 8192}]}', "/metrics": CACHE}, Room(None, 8192, 16000)),
        ({"/v1/models": '{"data": []}', "/metrics": "up 1\n"}, Room()),
        ({"/props": "[]", "/v1/models": '{"data": [{"max_model_len": true}]}'}, Room()),
        ({"/props": "<html>", "/v1/models": '{"data": ["m"]}'}, Room()),
        ({}, Room()),
    ],
)
def test_what_is_told_is_taken_and_all_else_is_unknown(pages: dict[str, str], room: Room) -> None:
    """llama.cpp tells slots and their context, vLLM its context and its cache in blocks."""
    assert read_room(pages) == room
