"""Generated text inside the objects of a chunk, by channel: answer, reasoning, tool call."""

import json
from typing import Any

Json = dict[str, Any]
ToolPiece = tuple[int | None, str, str]


def text_in(value: object) -> str:
    """Text from a string, or from a list of parts (`[{"type": "text", "text": "..."}]`); null and others are ""."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def json_text(value: object) -> str:
    """As JSON. Lists inside lists that the reader of JSON just took may be too deep for its writer: an ellipsis."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "…"


def reasoning_in(message: Json) -> str:
    """The thinking channel under any of its names; servers that send two names send the same text twice."""
    return (
        text_in(message.get("reasoning_content"))
        or text_in(message.get("reasoning"))
        or text_in(message.get("thinking"))
        or _thinking_parts(message.get("content"))
    )


def _thinking_parts(content: object) -> str:
    """Thoughts among the parts of the content, as Mistral's models send them."""
    if not isinstance(content, list):
        return ""
    return "".join(text_in(part.get("thinking")) for part in content if isinstance(part, dict))


def tool_pieces(message: Json) -> list[ToolPiece]:
    """Generated pieces of tool calls: (number of the call, name, arguments), at least one of the texts not empty.

    An id alone is not generated. A call without a number (Ollama, older servers) is a whole one of its own.
    """
    calls = message.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    pieces = [_piece(call.get("index"), call.get("function")) for call in found]
    pieces.append(_piece(0, message.get("function_call")))  # the name before tool_calls: one call, in pieces
    return [piece for piece in pieces if piece[1] or piece[2]]


def _piece(number: object, function: object) -> ToolPiece:
    if not isinstance(function, dict):
        return None, "", ""
    arguments = function.get("arguments")
    if arguments and not isinstance(arguments, str):
        arguments = json_text(arguments)
    return number if isinstance(number, int) else None, text_in(function.get("name")), arguments or ""
