"""A request's JSON -> what the engine is asked for, or the error vLLM would give. Pure: bytes in, values out."""

import json
import random
import reprlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import log

from runner.simulator.state import BLOCK_TOKENS

COMPLETIONS_MAX_TOKENS = 16  # vLLM's default on /v1/completions; chat goes to the end of the context
# answers that may stop by themselves: lognormal tokens, half below 160 and nine in ten below 400
ANSWER_MU, ANSWER_SIGMA = log(160), log(400 / 160) / 1.2816


class ApiError(Exception):
    """Refused: HTTP status and the fields of vLLM's error object."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param


@dataclass(frozen=True, slots=True)
class Ask:
    """One checked request. Tokens; `output_tokens` is the length it will really have."""

    prompt_tokens: int
    output_tokens: int
    finish_reason: str  # length | stop
    priority: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    prefix: tuple[int, ...] = ()  # names of the prompt's full blocks


def parse_ask(body: bytes, chat: bool, model: str, max_model_len: int, name_blocks: bool = False) -> Ask:
    """Checks a chat or completions body as vLLM does. A prompt counts one token per word. Raises ApiError.

    `name_blocks`: fill in `Ask.prefix`, which a prefix cache needs.
    """
    raw = _object(body)
    if raw.get("model") not in (None, model):
        name = raw["model"] if isinstance(raw["model"], str) else reprlib.repr(raw["model"])
        message = f"The model `{name}` does not exist. Valid aliases: {model}."
        raise ApiError(404, message, "NotFoundError", "model")
    stream, usage, continuous = _stream_options(raw)
    if raw.get("n") not in (None, 1):
        raise ApiError(400, f"n must be 1 with the built-in engine, got {reprlib.repr(raw['n'])}.", param="n")
    words = _chat_words(raw.get("messages")) if chat else _prompt_words(raw)
    prompt = max(1, len(words))
    wanted, parameter = _wanted_tokens(raw, chat)
    if prompt >= max_model_len:
        raise _too_long(max_model_len, 1 if wanted is None else wanted, prompt)
    if wanted is None:
        wanted = max_model_len - prompt if chat else COMPLETIONS_MAX_TOKENS
        wanted = min(wanted, max_model_len - prompt)
    if wanted > max_model_len:
        message = f"{parameter}={wanted} cannot be greater than max_model_len={max_model_len}."
        message += f" Please request fewer output tokens. (parameter={parameter}, value={wanted})"
        raise ApiError(400, message, param=parameter)
    if prompt + wanted > max_model_len:
        raise _too_long(max_model_len, wanted, prompt)
    least = _integer(raw, "min_tokens") or 0
    if least > wanted:
        raise ApiError(400, f"min_tokens must be less than or equal to max_tokens={wanted}, got {least}.")
    output = wanted if raw.get("ignore_eos") is True else answer_length(body, least, wanted)
    reason = "length" if output == wanted else "stop"
    prefix = block_names(words) if name_blocks else ()
    return Ask(prompt, output, reason, _integer(raw, "priority") or 0, stream, usage, continuous, prefix)


def answer_length(body: bytes, least: int, most: int) -> int:
    """Tokens of an answer that may stop by itself, least..most: the same body always gets the same length."""
    drawn = random.Random(zlib.crc32(body)).lognormvariate(ANSWER_MU, ANSWER_SIGMA)
    return max(1, least, min(most, round(drawn)))


def block_names(words: Sequence[object]) -> tuple[int, ...]:
    """One name for each full block of a prompt; equal names mean equal words from the first one on."""
    names: list[int] = []
    before = b""
    for i in range(0, len(words) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        said = " ".join(map(str, words[i : i + BLOCK_TOKENS])).encode(errors="surrogatepass")
        before = blake2b(before + said, digest_size=8).digest()
        names.append(int.from_bytes(before))
    return tuple(names)


def _chat_words(messages: object) -> list[str]:
    if not isinstance(messages, list):
        raise _validation("missing" if messages is None else "list_type", "messages", messages)
    words: list[str] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            parts = [p.get("text") for p in content if isinstance(p, dict)]
            content = " ".join(p for p in parts if isinstance(p, str))
        if content is not None and not isinstance(content, str):
            raise _validation("string_type", "messages.content", content)
        words += content.split() if content else []
    return words


def _prompt_words(raw: dict[str, object]) -> Sequence[object]:
    prompt = raw.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt.split()
    if isinstance(prompt, list) and prompt and all(isinstance(t, int) for t in prompt):
        return prompt
    raise _validation("missing" if prompt is None else "string_type", "prompt", prompt)


def error_body(status: int, message: str, kind: str, param: str | None) -> bytes:
    """vLLM's error object as JSON."""
    return _json({"error": {"message": message, "type": kind, "param": param, "code": status}})


def _object(body: bytes) -> dict[str, object]:
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError) as e:
        place = getattr(e, "pos", 0)
        text = (
            f"1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.{place}', 'msg': 'JSON decode error', "
            f"'input': '<dict of 0 items>', 'ctx': {{'error': '{getattr(e, 'msg', e)}'}}}}"
        )
        raise ApiError(400, text, "Bad Request", f"body.{place}") from None
    if not isinstance(raw, dict):
        raise ApiError(400, "1 validation error:\n  the body must be a JSON object", "Bad Request", "body")
    return raw


def _stream_options(raw: dict[str, object]) -> tuple[bool, bool, bool]:
    stream, options = raw.get("stream") is True, raw.get("stream_options")
    if options is not None and not stream:
        message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
        raise ApiError(400, message, param="stream_options")
    if not isinstance(options, dict):
        return stream, False, False
    usage = options.get("include_usage") is True
    return stream, usage, usage and options.get("continuous_usage_stats") is True


def _wanted_tokens(raw: dict[str, object], chat: bool) -> tuple[int | None, str]:
    names = ("max_completion_tokens", "max_tokens") if chat else ("max_tokens",)
    for name in names:
        value = _integer(raw, name)
        if value is None:
            continue
        if value < 1:
            message = f"max_tokens must be at least 1, got {value}. (parameter=max_tokens, value={value})"
            raise ApiError(400, message, param="max_tokens")
        return value, name
    return None, "max_tokens"


def _integer(raw: dict[str, object], key: str) -> int | None:
    value = raw.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _validation("int_parsing", key, value)


def _validation(kind: str, key: str, value: object) -> ApiError:
    says = {
        "missing": "Field required",
        "int_parsing": "Input should be a valid integer, unable to parse string as an integer",
        "list_type": "Input should be a valid list",
        "string_type": "Input should be a valid string",
    }[kind]
    shown = reprlib.repr(value)[:80]  # of any depth
    text = f"1 validation error:\n  {{'type': '{kind}', 'loc': 'body.{key}', 'msg': '{says}', 'input': {shown}}}"
    return ApiError(400, text, "Bad Request", f"body.{key}")


def _too_long(max_model_len: int, wanted: int, prompt: int) -> ApiError:
    message = (
        f"This model's maximum context length is {max_model_len} tokens. However, you requested {wanted} output "
        f"tokens and your prompt contains {prompt} input tokens, for a total of {prompt + wanted} tokens. Please "
        f"reduce the length of the input prompt or the number of requested output tokens. "
        f"(parameter=input_tokens, value={prompt})"
    )
    return ApiError(400, message, param="input_tokens")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
