"""Tokens of a text by the server's own tokenizer, for an answer whose count the server did not tell."""

import httpx

# llama.cpp, vLLM, SGLang, TGI; llama-cpp-python; KoboldCpp; text-generation-webui
PATHS = ("/tokenize", "/extras/tokenize/count", "/api/extra/tokencount", "/v1/internal/token-count")
TEXTS = ("content", "prompt", "inputs", "input", "text")  # each server reads its own and leaves the others alone
COUNTS = ("count", "value", "length")
LIMIT_S = 5.0


async def count_tokens(
    client: httpx.AsyncClient, root: str, text: str, *, model: str | None, headers: dict[str, str]
) -> int | None:
    """Null where no tokenizer answers. What one puts in front of every text, such as a mark of its beginning, is found
    with an empty text and not counted."""
    for path in PATHS:
        found = await _ask(client, root + path, text, model, headers)
        if found:
            return max(1, found - (await _ask(client, root + path, "", model, headers) or 0))
    return None


async def _ask(
    client: httpx.AsyncClient, url: str, text: str, model: str | None, headers: dict[str, str]
) -> int | None:
    body = {**dict.fromkeys(TEXTS, text), **({"model": model} if model else {})}
    try:
        response = await client.post(url, json=body, headers=headers, timeout=LIMIT_S)
        told = response.json() if response.status_code == 200 else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
        return None
    if isinstance(told, dict):
        told = next((told[key] for key in COUNTS if isinstance(told.get(key), int)), told.get("tokens"))
    if isinstance(told, list):
        return len(told)
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 2**53 else None
