"""What each kind of server answers to GET requests: path -> (status, headers, body). Shapes of captures and of the
servers' documentation; a path that is not there is a 404 in that server's own way."""

import json
from typing import Any

Page = tuple[int, dict[str, str], str]
Pages = dict[str, Page]
JSON = {"Content-Type": "application/json"}


def page(body: object, status: int = 200, server: str = "uvicorn") -> Page:
    return status, {**JSON, "Server": server}, body if isinstance(body, str) else json.dumps(body)


def models(owner: str | None, *names: str) -> dict[str, Any]:
    own = {} if owner is None else {"owned_by": owner}
    return {"object": "list", "data": [{"id": name, "object": "model", "created": 1, **own} for name in names]}


LLAMA_PROPS = {
    "default_generation_settings": {"params": {"seed": 1}, "n_ctx": 2048},
    "total_slots": 4,
    "model_alias": "smollm2",
    "build_info": "b11549-0a1b2c3",
}
LLAMA_CPP: Pages = {  # captured; without --metrics its page says 501
    "/v1/models": page(
        {"models": [{"name": "smollm2", "model": "smollm2"}], **models("llamacpp", "smollm2")}, server="llama.cpp"
    ),
    "/props": page(LLAMA_PROPS, server="llama.cpp"),
    "/metrics": page({"error": {"code": 501, "type": "not_supported_error"}}, 501, "llama.cpp"),
    "/health": page({"status": "ok"}, server="llama.cpp"),
    "/api/tags": page({"models": [{"name": "smollm2", "model": "smollm2"}]}, server="llama.cpp"),
}
VLLM: Pages = {  # captured
    "/v1/models": page(models("vllm", "tiny")),
    "/version": page({"version": "0.32.0"}),
    "/metrics": page('# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine="0"} 0.0\n'),
    "/health": page(""),
}
SGLANG: Pages = {
    "/v1/models": page(models("sglang", "qwen/qwen2.5-0.5b-instruct")),
    "/server_info": page(
        {
            "model_path": "qwen/qwen2.5-0.5b-instruct",
            "max_running_requests": 48,
            "internal_states": [],
            "version": "0.5.16",
        }
    ),
    "/metrics": page({"detail": "Not Found"}, 404),
}
OLLAMA: Pages = {
    "/v1/models": page(models("library", "llama3.2:3b"), server=""),
    "/api/version": page({"version": "0.32.1"}, server=""),
    "/api/tags": page({"models": [{"name": "llama3.2:3b", "model": "llama3.2:3b", "size": 1}]}, server=""),
}
TGI: Pages = {
    "/info": page(
        {
            "model_id": "teknium/OpenHermes-2.5-Mistral-7B",
            "max_concurrent_requests": 128,
            "max_input_tokens": 1024,
            "max_total_tokens": 2048,
            "router": "text-generation-router",
            "version": "3.3.4",
        }
    ),
    "/metrics": page("# TYPE tgi_queue_size gauge\ntgi_queue_size 0\n"),
}
EMBEDDINGS: Pages = {  # the embedding server has an /info as well, and is no server of answers
    "/info": page(
        {"model_id": "BAAI/bge", "model_type": {"embedding": {"pooling": "cls"}}, "max_concurrent_requests": 512}
    ),
}
UNKNOWN_PATH = {"error": "Unexpected endpoint or method. (GET /x)"}
LMSTUDIO: Pages = {  # it answers 200 to every path
    "/v1/models": page(models("organization_owner", "qwen2-vl-7b-instruct"), server=""),
    "/api/v0/models": page(
        {
            "object": "list",
            "data": [
                {
                    "id": "qwen2-vl-7b-instruct",
                    "object": "model",
                    "type": "vlm",
                    "publisher": "mlx-community",
                    "arch": "qwen2_vl",
                    "compatibility_type": "mlx",
                    "state": "not-loaded",
                    "max_context_length": 32768,
                }
            ],
        },
        server="",
    ),
    "*": page(UNKNOWN_PATH, server=""),
}
TABBYAPI: Pages = {
    "/v1/models": page(models("tabbyAPI", "Mistral-exl3")),
    "/v1/internal/model/info": page({"id": "Mistral-exl3", "owned_by": "tabbyAPI"}),
    "/health": page({"status": "healthy"}),
}
TABBYAPI_WITH_KEY: Pages = {
    "/v1/models": page({"detail": "Please provide an API key"}, 401),
    "/v1/internal/model/info": page({"detail": "Please provide an API key"}, 401),
    "/health": page({"status": "healthy"}),
}
KOBOLDCPP: Pages = {  # imitates Ollama and llama.cpp beside its own API
    "/v1/models": page(models("koboldcpp", "koboldcpp/Qwen3-8B"), server="ConcedoLlamaForKoboldServer"),
    "/api/extra/version": page(
        {"result": "KoboldCpp", "version": "1.119", "protected": False}, server="ConcedoLlamaForKoboldServer"
    ),
    "/api/version": page({"version": "0.7.0"}, server="ConcedoLlamaForKoboldServer"),
    "/api/tags": page({"models": [{"name": "koboldcpp", "model": "koboldcpp:latest"}]}),
    "/props": page({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1}),
}
LOCALAI: Pages = {
    "/v1/models": page({"object": "list", "data": [{"id": "phi-2", "object": "model"}]}, server=""),
    "/system": page({"backends": ["llama-cpp"], "loaded_models": [{"id": "phi-2"}]}, server=""),
    "/version": page({"version": "2.26.0 (a1b2c3d4)"}, server=""),
}
MLX_LM: Pages = {
    "/v1/models": page(models(None, "mlx-community/Mistral-7B-4bit"), server="BaseHTTP/0.6 Python/3.12.4"),
    "/health": page({"status": "ok"}, server="BaseHTTP/0.6 Python/3.12.4"),
}
LITELLM: Pages = {
    "/v1/models": page({"error": {"message": "Authentication Error, No api key passed in."}}, 401),
    "/health/liveliness": page('"I\'m alive!"'),
    "/health": page({"error": {"message": "Authentication Error"}}, 401),
}
WEBUI: Pages = {
    "/v1/models": page(models("user", "Qwen3-8B")),
    "/v1/internal/model/info": page({"model_name": "Qwen3-8B", "lora_names": []}),
}
TRANSFORMERS: Pages = {  # captured: nothing loaded
    "/v1/models": page({"object": "list", "data": []}),
    "/health": page({"status": "ok"}),
}
VLLM_WITH_KEY: Pages = {**VLLM, "/v1/models": page({"error": "Unauthorized"}, 401)}
HTML = (200, {"Content-Type": "text/html"}, "<!doctype html><title>app</title>")
EVERY_PATH_IS_A_PAGE: Pages = {"*": HTML}  # as a dashboard does, ours too
EVERY_PATH_IS_CLOSED: Pages = {"*": page({"message": "log in"}, 401)}
OPEN_WEBUI: Pages = {"/api/version": page({"version": "0.6.40"}), "*": HTML}
