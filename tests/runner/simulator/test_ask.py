"""Request bodies: what is counted, and errors worded as vLLM 0.32 words them (recorded from it)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.simulator.ask import ApiError, answer_length, block_names, error_body, parse_ask


def ask(body: object, chat: bool = False, context: int = 1024):
    """parse_ask for the model "tiny"."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_ask(raw, chat, "tiny", context)


def refusal(body: object, chat: bool = False) -> dict:
    """The error object a body is answered with."""
    with pytest.raises(ApiError) as caught:
        ask(body, chat)
    error = caught.value
    return json.loads(error_body(error.status, str(error), error.kind, error.param))["error"]


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), min_size=1, max_size=50))
def test_a_prompt_of_n_words_counts_n_tokens(words: list[str]):
    """The contract with the workload generator, for completions and for chat."""
    prompt = " ".join(words)
    assert ask({"prompt": prompt, "max_tokens": 1}).prompt_tokens == len(words)
    chat = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 1}
    assert ask(chat, chat=True).prompt_tokens == len(words)


def test_chat_counts_all_messages_and_parts():
    """Roles and the split into messages and parts cost nothing."""
    parts = [{"type": "text", "text": "c d"}, {"type": "text", "text": "e"}]
    for messages, tokens in (
        ([{"role": "system", "content": "a b"}, {"role": "user", "content": parts}], 5),
        ([{"role": "assistant", "content": None}], 1),
    ):
        assert ask({"messages": messages}, chat=True).prompt_tokens == tokens


def test_token_ids_count_themselves():
    """A completions prompt may be a list of token ids, or one such list or text in a list."""
    assert ask({"prompt": [5, 6, 7]}).prompt_tokens == 3
    assert ask({"prompt": ["a b"]}).prompt_tokens == 2


def test_exact_length_when_it_is_asked_for():
    """ignore_eos, or min_tokens equal to max_tokens, gives exactly max_tokens and finish_reason length."""
    for body in ({"max_tokens": 700, "ignore_eos": True}, {"max_tokens": 700, "min_tokens": 700}):
        asked = ask({"prompt": "a", **body})
        assert (asked.output_tokens, asked.finish_reason) == (700, "length")


def test_an_answer_that_may_stop_is_the_same_every_time():
    """Without ignore_eos the length is drawn by the request itself: repeatable, within bounds, told as stop."""
    body = {"prompt": "hello", "max_tokens": 1000, "min_tokens": 10, "seed": 7}
    first = ask(body)
    assert first == ask(body)
    assert 10 <= first.output_tokens < 1000
    assert first.finish_reason == "stop"
    lengths = [answer_length(b"%d" % i, 0, 100_000) for i in range(2001)]
    assert 140 < sorted(lengths)[1000] < 180  # the median of the drawn lengths is 160


def test_max_completion_tokens_wins_on_chat():
    """Both given: vLLM takes max_completion_tokens."""
    body = {"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 3, "max_tokens": 5}
    assert ask({**body, "ignore_eos": True}, chat=True).output_tokens == 3


def test_default_lengths():
    """16 tokens on completions; on chat the rest of the context."""
    assert ask({"prompt": "a", "ignore_eos": True}).output_tokens == 16
    chat = ask({"messages": [{"role": "user", "content": "a b"}], "ignore_eos": True}, chat=True)
    assert chat.output_tokens == 1022


def test_stream_options():
    """Usage only where it is asked for, and continuous usage only with it."""
    on = {"prompt": "a", "stream": True}
    assert not ask(on).include_usage
    assert ask({**on, "stream_options": {"include_usage": True}}).include_usage
    both = ask({**on, "stream_options": {"include_usage": True, "continuous_usage_stats": True}})
    assert both.continuous_usage


def test_errors_as_recorded():
    """Status, type, param and words of vLLM for the usual mistakes."""
    assert refusal({"model": "nope", "prompt": "a"}) == {
        "message": "The model `nope` does not exist. Valid aliases: tiny.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }
    assert refusal({"prompt": "a", "max_tokens": -5}) == {
        "message": "max_tokens must be at least 1, got -5. (parameter=max_tokens, value=-5)",
        "type": "BadRequestError",
        "param": "max_tokens",
        "code": 400,
    }
    assert refusal({"prompt": "a", "max_tokens": 100_000})["message"] == (
        "max_tokens=100000 cannot be greater than max_model_len=1024. Please request fewer output tokens. "
        "(parameter=max_tokens, value=100000)"
    )
    assert refusal({"prompt": "a", "max_tokens": 2, "min_tokens": 5})["message"] == (
        "min_tokens must be less than or equal to max_tokens=2, got 5."
    )
    assert refusal({"prompt": "a", "stream_options": {}})["param"] == "stream_options"
    assert refusal({"prompt": "a", "max_tokens": "ten"})["param"] == "body.max_tokens"
    assert refusal({"model": "tiny"}, chat=True)["param"] == "body.messages"


def test_bad_json_is_worded_as_vllm_words_it():
    """The recorded answer to a body that breaks off."""
    assert refusal(b'{"model": "x", "messages": [') == {
        "message": (
            "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.28', 'msg': 'JSON decode error', "
            "'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}"
        ),
        "type": "Bad Request",
        "param": "body.28",
        "code": 400,
    }


@pytest.mark.parametrize("body", [b"[]", b"\xff\xfe", b"[" * 100_000, b"3"])
def test_bodies_that_are_no_object_are_400(body: bytes):
    """Neither another type, nor broken UTF-8, nor absurd nesting is more than a bad request."""
    assert refusal(body)["code"] == 400


@pytest.mark.parametrize("extra", [{"n": 2}, {"prompt": []}, {"prompt": ["a", "b"]}, {"prompt": 3}, {"priority": "x"}])
def test_what_the_engine_cannot_do_is_refused(extra: dict):
    """Several answers or prompts at once and wrong types are told, not quietly changed."""
    assert refusal({"prompt": "a", **extra})["code"] == 400


def test_too_long_for_the_context():
    """1020 words and 10 tokens exceed 1024: the words by which clients recognise a context overflow."""
    error = refusal({"prompt": "a " * 1020, "max_tokens": 10})
    assert error["code"] == 400
    assert error["message"].startswith("This model's maximum context length is 1024 tokens.")
    assert ask({"prompt": "a " * 1014, "max_tokens": 10}).prompt_tokens == 1014
    assert refusal({"prompt": "a " * 1024})["code"] == 400


def test_blocks_are_named_by_all_words_up_to_their_end():
    """Two full blocks of 40 words; another first word renames both, another last word none of them."""
    words = [f"w{i}" for i in range(40)]
    names = block_names(words)
    assert len(set(names)) == 2
    assert block_names([*words[:39], "other"]) == names
    assert not set(block_names(["other", *words[1:]])) & set(names)
    assert block_names([*words[:20], "other", *words[21:]])[0] == names[0]
    assert block_names(words[:15]) == ()
    body = json.dumps({"prompt": " ".join(words)}).encode()
    assert parse_ask(body, False, "tiny", 1024, name_blocks=True).prefix == names
    assert parse_ask(body, False, "tiny", 1024).prefix == ()


@pytest.mark.parametrize("key", ["prompt", "model", "n", "max_tokens", "priority"])
def test_lists_inside_lists_are_refused_at_any_depth(key: str):
    """Also at those that the JSON reader just takes and a message about them would not."""
    for depth in (1, 50, 300, 900, 970, 985, 990):
        body = f'{{"prompt": "a", "{key}": {"[" * depth}{"]" * depth}}}'
        assert refusal(body.encode())["code"] in (400, 404)
