"""Generated text inside the objects of a chunk, by channel: answer, reasoning, tool call."""

from typing import Any

Json = dict[str, Any]


def text_in(value: object) -> str:
    """Text from a string, or from a list of parts (`[{"type": "text", "text": "..."}]`); null and others are ""."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def reasoning_in(message: Json) -> str:
    """The thinking channel under any of its names; servers that send two names send the same text twice."""
    return (
        text_in(message.get("reasoning_content"))
        or text_in(message.get("reasoning"))
        or text_in(message.get("thinking"))
    )


def has_tool_text(message: Json) -> bool:
    """Whether a piece of a tool call was generated: a function's name or arguments (an id alone is not generated)."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    functions.append(message.get("function_call"))
    return any(isinstance(one, dict) and bool(one.get("name") or one.get("arguments")) for one in functions)
