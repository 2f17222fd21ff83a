"""One request to a server nobody has described yet: its dialect, its models, the fields it takes."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from time import monotonic_ns
from urllib.parse import urlsplit

import httpx

from runner.analysis.request_object import request_object
from runner.cold_start import first_token_ms
from runner.engines.address import server_root
from runner.engines.catalogue import KINDS
from runner.engines.identify import MODELS, NOTHING, Answer, Answers, kind_of, model_names
from runner.engines.token_count import count_tokens
from runner.errors import SettingFailed
from runner.load.client import Result, Slot, Target, auth_headers, run_request, secrets_of
from runner.load.stamped_socket import LOCAL_STAGGER_S
from runner.load.transport import StampedTransport
from runner.protocols.dialects import DIALECTS, endpoint
from runner.protocols.facts import Ask, ServerParams
from runner.protocols.scrub import hide

PROMPT = "Say hello in one short sentence."
LOOK_LIMIT_S = 5.0
TEST_LIMIT_S = 300.0  # a cold model is loaded by its first request
PROBE_LIMIT_S = 600.0
MUTE_LIMIT_S = 30.0  # for one that takes connections and answers none of the questions before
SLOW_LOCALHOST_NS = round(LOCAL_STAGGER_S * 1e9)  # from here on its first address was waited for in vain
OPTIONAL = ("ignore_eos", "min_tokens", "cache_prompt", "priority")
NO_SUCH_ENDPOINT = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class Detected:
    """What a server turned out to be. `kind`: a key of the catalogue, `openai` when it does not say."""

    api: str
    params: ServerParams
    model: str | None
    models: tuple[str, ...]
    kind: str
    metrics: bool  # shows the metrics that its kind is known for
    notes: tuple[str, ...]  # sentences for the user
    load_ms: float | None = None  # of the test request: the cold model load that the server told
    ttft_ms: float | None = None  # of the test request, from sending


async def probe(
    url: str,
    *,
    api: str | None = None,
    model: str | None = None,
    prompt: str = PROMPT,
    max_tokens: int = 64,
    api_key_env: str | None = None,
) -> dict[str, object]:
    """One streamed request as the *request object* of the interface; a failure is one too. No request is repeated,
    except with fewer fields or in another dialect after the server refused those as unknown. Where the server tells no
    token count, its tokenizer is asked afterwards."""
    async with httpx.AsyncClient(transport=StampedTransport(), trust_env=False, timeout=LOOK_LIMIT_S) as client:
        apis: Sequence[str] = (api,) if api else ("openai_chat",)
        limit_s = PROBE_LIMIT_S
        if api is None or model is None:
            look = await _look(client, url, api_key_env, kind=None if api is None else "openai")
            limit_s = PROBE_LIMIT_S if look.answered else MUTE_LIMIT_S
            model = model or next(iter(look.models), None)
            apis = (api,) if api else look.apis
        ask = Ask(prompt, model, max_tokens, hold_length=False)
        _, _, result = await _settle(client, url, apis, ServerParams(), ask, api_key_env, limit_s)
        result = await _counted(client, url, result, model, api_key_env)
        secrets = secrets_of(Target(url, apis[0], ServerParams(), api_key_env))
    return request_object(
        result.record, hide(result.text, secrets), hide(result.reasoning_text, secrets), result.tool_calls
    )


async def _counted(
    client: httpx.AsyncClient, url: str, result: Result, model: str | None, api_key_env: str | None
) -> Result:
    """Of a good answer whose tokens could only be guessed from its chunks, the tokens as the server's tokenizer has
    them. A sweep does not ask: that would be more load on the server that is measured."""
    text = result.reasoning_text + result.text
    if result.record.outcome != "ok" or result.record.output_tokens_source != "estimated" or result.tool_calls:
        return result
    tokens = await count_tokens(client, server_root(url), text, model=model, headers=auth_headers(api_key_env))
    if tokens is None:
        return result
    return replace(result, record=replace(result.record, output_tokens=tokens, output_tokens_source="tokenize"))


async def detect(
    client: httpx.AsyncClient,
    url: str,
    *,
    api: str | None = None,
    model: str | None = None,
    api_key_env: str | None = None,
    kind: str | None = None,
) -> Detected:
    """What a sweep must know of a server, found out once, with one short request that it has to answer.

    `kind`: what the user says it is, else guessed. Raises SettingFailed with the error kind of that request and one
    sentence.
    """
    look = await _look(client, url, api_key_env, kind)
    chosen = model or next(iter(look.models), None)
    wanted = ServerParams(priority=look.kind in ("vllm", "simulated"), cache_prompt=look.kind == "llama_cpp")
    ask = Ask("Hi", chosen, 2, priority=1)
    apis = (api,) if api else look.apis
    limit_s = TEST_LIMIT_S if look.answered else MUTE_LIMIT_S
    spoken, params, result = await _settle(client, url, apis, wanted, ask, api_key_env, limit_s)
    record = result.record
    if record.error_kind is not None and record.error_kind != "empty_stream":
        detail = f"{url} did not answer a test request: {record.error_detail}"
        raise SettingFailed(record.error_kind, detail + _key_hint(record.error_kind, api_key_env))
    notes = []
    if look.models and chosen not in look.models:
        notes.append(f"the server answers for {chosen}, but lists only {', '.join(look.models[:5])}")
    if urlsplit(url).hostname == "localhost" and (record.connect_ns or 0) >= SLOW_LOCALHOST_NS:
        notes.append(
            "connecting to localhost is slow, as when ::1 comes first and does not answer; write 127.0.0.1 instead"
        )
    if record.clock != "kernel":
        notes.append("arrival times come from the program's own clock, not from the kernel's stamps")
    if record.output_tokens_source == "estimated":
        notes.append("the server tells no token counts; they are estimated from the chunks")
    ttft_ms = first_token_ms(record)
    return Detected(spoken, params, chosen, look.models, look.kind, look.metrics, tuple(notes), record.load_ms, ttft_ms)


def _key_hint(error_kind: str, api_key_env: str | None) -> str:
    if error_kind != "unauthorized":
        return ""
    if api_key_env is None:
        return "; name the environment variable that holds the key in api_key_env"
    return "" if auth_headers(api_key_env) else f"; the environment variable {api_key_env} is not set, export it"


@dataclass(frozen=True, slots=True)
class _Look:
    models: tuple[str, ...]
    kind: str
    apis: tuple[str, ...]  # dialects to try, best first
    metrics: bool
    answered: bool  # at least one question, if only with an error


async def _look(client: httpx.AsyncClient, url: str, api_key_env: str | None, kind: str | None) -> _Look:
    """What a server says of itself to GET requests; nothing of it has to work."""
    root = endpoint(url, "ollama_chat").partition("/api/chat")[0]
    headers = auth_headers(api_key_env)
    listed = endpoint(url, "openai_chat").replace("/chat/completions", "/models")
    answers = {MODELS: await _get(client, listed, headers)}
    models = model_names(answers[MODELS].json)
    kind = kind or _kind_of(answers)
    if kind is None or not models:
        paths = ("/api/tags", "/api/version", "/info")
        found = await asyncio.gather(*(_get(client, root + path, headers) for path in paths))
        answers |= dict(zip(paths, found, strict=True))
        models = models or model_names(answers["/api/tags"].json)
        kind = kind or _kind_of(answers)
    metrics = kind is not None and bool(KINDS[kind].metrics) and await _shows_metrics(client, root, headers, kind)
    apis = KINDS[kind].apis if kind else tuple(DIALECTS)
    answered = any(answer.status for answer in answers.values())
    return _Look(models, kind or "openai", apis, metrics, answered)


def _kind_of(answers: Answers) -> str | None:
    """Null also for a server that only looks like OpenAI's: the others' dialects are tried on it."""
    kind = kind_of(answers)
    return None if kind == "openai" else kind


async def _get(client: httpx.AsyncClient, url: str, headers: dict[str, str]) -> Answer:
    """Status 0 when nobody answers."""
    try:
        response = await client.get(url, headers=headers, timeout=LOOK_LIMIT_S)
    except (httpx.HTTPError, httpx.InvalidURL):
        return NOTHING
    return Answer(response.status_code, response.text, response.headers.get("server", ""))


async def _shows_metrics(client: httpx.AsyncClient, root: str, headers: dict[str, str], kind: str) -> bool:
    try:
        response = await client.get(
            root + (KINDS[kind].metrics_path or "/metrics"), headers=headers, timeout=LOOK_LIMIT_S
        )
    except (httpx.HTTPError, httpx.InvalidURL):
        return False
    names = [name for alternatives in KINDS[kind].metrics.values() for name in alternatives]
    return response.status_code == 200 and any(name in response.text for name in names)


async def _settle(
    client: httpx.AsyncClient,
    url: str,
    apis: Sequence[str],
    params: ServerParams,
    ask: Ask,
    api_key_env: str | None,
    limit_s: float,
) -> tuple[str, ServerParams, Result]:
    """The first dialect, and the fields, with which the server answers; of none, the first dialect's failure."""
    failures: list[tuple[str, ServerParams, Result]] = []
    for api in apis:
        taken: ServerParams | None = params
        tried: set[ServerParams] = set()
        while taken is not None and taken not in tried:
            tried.add(taken)
            # a connection of its own: its connect time is told, and is not hidden by the look before
            target = Target(url, api, taken, api_key_env, limit_s, reuse=False)
            now = monotonic_ns()
            result = await run_request(client, target, ask, Slot(now, origin_ns=now))
            failures.append((api, taken, result))
            if result.record.http_status not in (400, 422) or _speaks_no_chat(result):
                break
            taken = without_refused(taken, result.record.error_detail or "")
        if result.record.http_status not in NO_SUCH_ENDPOINT and not _speaks_no_chat(result):
            return failures[-1]
        if result.record.error_kind == "model_not_found":
            return failures[-1]
    return failures[0]


def _speaks_no_chat(result: Result) -> bool:
    """A base model without a chat template refuses the chat dialect, not the request."""
    return result.record.http_status == 400 and "chat template" in (result.record.error_detail or "").lower()


def without_refused(params: ServerParams, message: str) -> ServerParams | None:
    """Fewer fields, after a server refused a request with this message; None when nothing is left to leave out.

    The fields that the message names go first; if it names none, all fields beyond OpenAI's, then stream_options.
    """
    named = [name for name in (*OPTIONAL, "stream_options") if name in message and getattr(params, name)]
    meant = "max_completion_tokens" in message or ("max_tokens" in message and not named)
    if meant and params.max_tokens_name == "max_tokens":
        return replace(params, max_tokens_name="max_completion_tokens")
    if not named:
        named = [name for name in OPTIONAL if getattr(params, name)]
    if not named and params.stream_options:
        named = ["stream_options"]
    return ServerParams(**(asdict(params) | dict.fromkeys(named, False))) if named else None
