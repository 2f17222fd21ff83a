"""The request fields that both OpenAI dialects share."""

from runner.protocols.facts import Ask, ServerParams


def openai_fields(ask: Ask, params: ServerParams, max_tokens_name: str) -> dict[str, object]:
    """Everything but the prompt. Optional fields are left out where the server does not take them."""
    body: dict[str, object] = {max_tokens_name: ask.max_tokens, "stream": True}
    if ask.model is not None:
        body["model"] = ask.model
    if params.stream_options:
        body["stream_options"] = {"include_usage": True}
    if ask.hold_length and params.ignore_eos:
        body["ignore_eos"] = True
    if ask.hold_length and params.min_tokens:
        body["min_tokens"] = ask.max_tokens
    if ask.priority is not None and params.priority:
        body["priority"] = ask.priority
    if params.cache_prompt:
        body["cache_prompt"] = False
    body |= sampling_fields(ask)
    return body


def sampling_fields(ask: Ask) -> dict[str, object]:
    """`seed` and `temperature`, where asked for; the same names in every dialect."""
    asked = {"seed": ask.seed, "temperature": ask.temperature}
    return {name: value for name, value in asked.items() if value is not None}
