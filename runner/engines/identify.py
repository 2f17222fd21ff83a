"""Which server answered, from what it says to GET requests: by its own words, never by its port. PURE."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runner.engines.catalogue import KINDS
from runner.engines.metrics_text import read_fields

MODELS = "/v1/models"
LITELLM_ALIVE = "/health/liveliness"
PATHS = (
    MODELS, "/api/extra/version", "/api/v0/models", "/api/version", "/api/tags", "/version", "/props", "/info",
    "/server_info", LITELLM_ALIVE, "/system", "/metrics", "/v1/internal/model/info",
)  # fmt: skip
HEALTH = "/health"  # asked last, and never of LiteLLM, which answers it by a request to each of its models
# what servers call themselves in /v1/models
OWNERS = {
    "llamacpp": "llama_cpp", "vllm": "vllm", "sglang": "sglang", "library": "ollama", "organization_owner": "lmstudio",
    "tabbyapi": "tabbyapi", "koboldcpp": "koboldcpp", "goodput-lab": "simulated",
}  # fmt: skip
KEY_WANTED = (401, 403)
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # of a name: control characters, halves of surrogate pairs


@dataclass(frozen=True)
class Answer:
    """One answer to a GET request; `server` is its Server header."""

    status: int
    text: str
    server: str = ""

    @cached_property
    def json(self) -> dict[str, Any]:
        """The JSON object of a 200 answer; empty for everything else."""
        try:
            found = json.loads(self.text) if self.status == 200 else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


Answers = Mapping[str, Answer]
NOTHING = Answer(0, "")


@dataclass(frozen=True)
class Identity:
    """A server by what it answers. `version`, `models`: as it says them; `notes`: sentences for the user."""

    kind: str
    title: str
    version: str | None
    models: tuple[str, ...]
    metrics: bool | None  # null: this kind has none, or they want a key
    metrics_hint: str | None  # how to switch them on; null when they are on
    needs_key: bool
    notes: tuple[str, ...]


def identify(answers: Answers) -> Identity | None:
    """Null when nothing says that this is a server of language models."""
    kind = kind_of(answers)
    if kind is None:
        return None
    engine = KINDS[kind]
    models = model_names(_at(answers, MODELS).json) or model_names(_at(answers, "/api/tags").json)
    model_id = _said(_at(answers, "/info").json.get("model_id"))
    if not models and model_id:
        models = (model_id,)
    needs_key = (
        _at(answers, MODELS).status in KEY_WANTED or _at(answers, "/api/extra/version").json.get("protected") is True
    )
    metrics = _shows_metrics(answers, kind)
    return Identity(
        kind,
        "text-generation-webui" if kind == "openai" and _is_webui(answers) else engine.title,
        _version(answers, kind),
        models,
        metrics,
        None if metrics else engine.metrics_hint,
        needs_key,
        tuple(_notes(answers, kind, models, needs_key)),
    )


def kind_of(answers: Answers) -> str | None:
    """A key of the catalogue. The order matters: several servers imitate Ollama, and most imitate OpenAI."""
    return next((kind for kind, says in _SAYS if says(answers)), None)


def model_names(listing: Mapping[str, Any]) -> tuple[str, ...]:
    """Names in the answers of /v1/models and /api/tags, in their order; whatever is no text is passed over."""
    for key in ("data", "models"):
        rows = listing.get(key)
        if isinstance(rows, list):
            found = [row.get("id") or row.get("name") or row.get("model") for row in rows if isinstance(row, dict)]
            names = tuple(filter(None, map(_said, found)))
            if names:
                return names
    return ()


def _said(value: object) -> str | None:
    """A name that can be shown, sent and stored as it is; None for anything else."""
    return value if isinstance(value, str) and value and not _UNFIT.search(value) else None


def owner(listing: Mapping[str, Any]) -> str | None:
    """The kind that the first model of /v1/models names as its owner."""
    rows = listing.get("data")
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    return OWNERS.get((_said(first.get("owned_by")) or "").lower())


def _at(answers: Answers, path: str) -> Answer:
    return answers.get(path, NOTHING)


def _owned_by(kind: str) -> Callable[[Answers], bool]:
    return lambda answers: owner(_at(answers, MODELS).json) == kind


def _is_kobold(answers: Answers) -> bool:
    """https://github.com/LostRuins/koboldcpp/blob/concedo/koboldcpp.py: it imitates Ollama and llama.cpp as well."""
    return _at(answers, "/api/extra/version").json.get("result") == "KoboldCpp"


def _is_lmstudio(answers: Answers) -> bool:
    """https://lmstudio.ai/docs/developer/rest/endpoints."""
    rows = _at(answers, "/api/v0/models").json.get("data")
    return isinstance(rows, list) and any(
        isinstance(r, dict) and {"state", "compatibility_type"} <= set(r) for r in rows
    )


def _is_sglang(answers: Answers) -> bool:
    """https://docs.sglang.ai/basic_usage/native_api.html."""
    info = _at(answers, "/server_info").json
    return "max_running_requests" in info and "model_path" in info


def _is_tgi(answers: Answers) -> bool:
    """An embedding server's /info has model_id as well, but no max_total_tokens."""
    info = _at(answers, "/info").json
    return "model_id" in info and (
        "max_total_tokens" in info or (_said(info.get("router")) or "").startswith("text-generation")
    )


def _is_llama(answers: Answers) -> bool:
    props = _at(answers, "/props").json
    return any(a.server == "llama.cpp" for a in answers.values()) or {
        "default_generation_settings",
        "total_slots",
    } <= set(props)


def _is_built_in(answers: Answers) -> bool:
    return "goodput_engine:" in _metrics_text(answers)


def _is_vllm(answers: Answers) -> bool:
    """With a key, /v1/models is closed, /version and /metrics are open."""
    return isinstance(_at(answers, "/version").json.get("version"), str) and "\nvllm:" in f"\n{_metrics_text(answers)}"


def is_litellm(answers: Answers) -> bool:
    """https://docs.litellm.ai/docs/proxy/health."""
    alive = _at(answers, LITELLM_ALIVE)
    return alive.status == 200 and "I'm alive!" in alive.text[:40]


def _is_localai(answers: Answers) -> bool:
    """https://localai.io/reference/system-info/."""
    return {"backends", "loaded_models"} <= set(_at(answers, "/system").json)


def _is_ollama(answers: Answers) -> bool:
    tags = _at(answers, "/api/tags").json
    return isinstance(_at(answers, "/api/version").json.get("version"), str) and isinstance(tags.get("models"), list)


def _is_mlx(answers: Answers) -> bool:
    """Python's plain HTTP server, models without an owner: mlx_lm/server.py."""
    listed = _at(answers, MODELS)
    rows = listed.json.get("data")
    unowned = isinstance(rows, list) and all(isinstance(r, dict) and "owned_by" not in r for r in rows)
    return unowned and listed.server.startswith("BaseHTTP") and _at(answers, HEALTH).json == {"status": "ok"}


def _is_webui(answers: Answers) -> bool:
    """https://github.com/oobabooga/text-generation-webui/wiki/12-%E2%80%90-OpenAI-API."""
    return "model_name" in _at(answers, "/v1/internal/model/info").json


def _is_openai(answers: Answers) -> bool:
    """A list of models in OpenAI's shape; or a JSON refusal there, while other paths are not closed as well."""
    listed = _at(answers, MODELS)
    if listed.status in KEY_WANTED:
        others = [a.status for path, a in answers.items() if not path.startswith("/v1/")]
        return listed.text.lstrip().startswith("{") and any(s not in (0, *KEY_WANTED) for s in others)
    return isinstance(listed.json.get("data"), list) and (
        listed.json.get("object") == "list" or bool(model_names(listed.json))
    )


_SAYS: tuple[tuple[str, Callable[[Answers], bool]], ...] = (
    ("koboldcpp", _is_kobold),
    ("simulated", _owned_by("simulated")),
    ("simulated", _is_built_in),
    ("vllm", _owned_by("vllm")),
    ("sglang", _owned_by("sglang")),
    ("tabbyapi", _owned_by("tabbyapi")),
    ("lmstudio", _is_lmstudio),
    ("lmstudio", _owned_by("lmstudio")),
    ("sglang", _is_sglang),
    ("tgi", _is_tgi),
    ("llama_cpp", _is_llama),
    ("llama_cpp", _owned_by("llama_cpp")),
    ("vllm", _is_vllm),
    ("localai", _is_localai),
    ("litellm", is_litellm),
    ("ollama", _is_ollama),
    ("ollama", _owned_by("ollama")),
    ("koboldcpp", _owned_by("koboldcpp")),
    ("mlx_lm", _is_mlx),
    ("openai", _is_webui),
    ("openai", _is_openai),
)

_VERSION_AT = {
    "koboldcpp": "/api/extra/version", "ollama": "/api/version", "vllm": "/version", "sglang": "/server_info",
    "tgi": "/info", "localai": "/version",
}  # fmt: skip


def _version(answers: Answers, kind: str) -> str | None:
    found = _at(answers, "/props").json.get("build_info") if kind == "llama_cpp" else None
    found = _at(answers, _VERSION_AT[kind]).json.get("version") if kind in _VERSION_AT else found
    return _said(found)


def _metrics_text(answers: Answers) -> str:
    page = _at(answers, "/metrics")
    return page.text if page.status == 200 else ""


def _shows_metrics(answers: Answers, kind: str) -> bool | None:
    """True only for names that we read: a page of other numbers does not help."""
    names = KINDS[kind].metrics
    if not names or _at(answers, "/metrics").status in KEY_WANTED:
        return None
    return any(value is not None for value in read_fields(_metrics_text(answers), names).values())


def _notes(answers: Answers, kind: str, models: tuple[str, ...], needs_key: bool) -> list[str]:
    notes = ["The hardware is modelled, only the traffic is real."] if kind == "simulated" else []
    props = _at(answers, "/props").json
    slots, settings = props.get("total_slots"), props.get("default_generation_settings")
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    if kind == "llama_cpp" and isinstance(slots, int) and isinstance(context, int):
        notes.append(f"{slots} slots with a context of {context} tokens each.")
    running = _at(answers, "/server_info").json.get("max_running_requests")
    if kind == "sglang" and isinstance(running, int):
        notes.append(f"At most {running} requests at once.")
    if needs_key:
        notes.append(
            "It wants an API key: put that into an environment variable, and name the variable in api_key_env."
        )
    elif not models:
        notes.append("It lists no model: load one, or name it.")
    if KINDS[kind].cannot_know:
        notes.append(str(KINDS[kind].cannot_know))
    return notes
