"""Servers on this host are found by what they answer, quickly, and without making any of them generate."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.engines.address import free_port, host_and_port
from runner.engines.discover import USUAL_PORTS, Found, discover, inspect, is_another_machine
from runner.engines.identify import Answer, identify
from runner.engines.server import Server
from tests.engines_support import server_pages as shapes
from tests.engines_support.http_pages import Reply, Request, serve_pages
from tests.engines_support.llama import llama_installed
from tests.engines_support.server_pages import Pages
from tests.engines_support.sweeps import llama_sweep
from tests.support.small_sweeps import quick_config

ASKED: list[Request] = []


@contextlib.asynccontextmanager
async def serving(pages: Pages) -> AsyncIterator[int]:
    """Gives the port of a server with these pages; a page "*" answers every other path."""

    async def answer(request: Request) -> Reply:
        ASKED.append(request)
        return pages.get(request.path) or pages.get("*") or (404, {}, "not found")

    async with serve_pages(answer) as url:
        yield host_and_port(url)[1]


def found(pages: Pages) -> Found | None:
    """What discover makes of a server with these pages."""

    async def look() -> list[Found]:
        async with serving(pages) as port:
            return await discover([port], ["127.0.0.1"])

    servers = asyncio.run(look())
    assert len(servers) <= 1
    return servers[0] if servers else None


@pytest.mark.parametrize(
    ("pages", "kind", "title", "version", "models", "metrics", "needs_key"),
    [
        (shapes.LLAMA_CPP, "llama_cpp", "llama.cpp", "b11549-0a1b2c3", ["smollm2"], False, False),
        (shapes.VLLM, "vllm", "vLLM", "0.32.0", ["tiny"], True, False),
        (shapes.VLLM_WITH_KEY, "vllm", "vLLM", "0.32.0", [], True, True),
        (shapes.SGLANG, "sglang", "SGLang", "0.5.16", ["qwen/qwen2.5-0.5b-instruct"], False, False),
        (shapes.OLLAMA, "ollama", "Ollama", "0.32.1", ["llama3.2:3b"], None, False),
        (shapes.TGI, "tgi", "TGI", "3.3.4", ["teknium/OpenHermes-2.5-Mistral-7B"], True, False),
        (shapes.LMSTUDIO, "lmstudio", "LM Studio", None, ["qwen2-vl-7b-instruct"], None, False),
        (shapes.TABBYAPI, "tabbyapi", "TabbyAPI", None, ["Mistral-exl3"], None, False),
        (shapes.TABBYAPI_WITH_KEY, "openai", "OpenAI-compatible server", None, [], None, True),
        (shapes.KOBOLDCPP, "koboldcpp", "KoboldCpp", "1.119", ["koboldcpp/Qwen3-8B"], None, False),
        (shapes.LOCALAI, "localai", "LocalAI", "2.26.0 (a1b2c3d4)", ["phi-2"], None, False),
        (shapes.MLX_LM, "mlx_lm", "mlx_lm", None, ["mlx-community/Mistral-7B-4bit"], None, False),
        (shapes.LITELLM, "litellm", "LiteLLM proxy", None, [], None, True),
        (shapes.WEBUI, "openai", "text-generation-webui", None, ["Qwen3-8B"], None, False),
        (shapes.TRANSFORMERS, "openai", "OpenAI-compatible server", None, [], None, False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_is_known_by_its_answers(
    pages: Pages,
    kind: str,
    title: str,
    version: str | None,
    models: list[str],
    metrics: bool | None,
    needs_key: bool,
) -> None:
    """On a port that says nothing; the JSON row has the promised keys and no other."""
    server = found(pages)
    assert server is not None
    row = server.as_json()
    assert list(row) == [
        "kind", "title", "url", "version", "models", "api", "metrics", "metrics_hint", "needs_key", "notes",
    ]  # fmt: skip
    facts = (row["kind"], row["title"], row["version"], row["models"], row["metrics"], row["needs_key"])
    assert facts == (kind, title, version, models, metrics, needs_key)
    assert (row["metrics_hint"] is None) == (metrics is True)
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize(
    "pages",
    [shapes.EVERY_PATH_IS_A_PAGE, shapes.EVERY_PATH_IS_CLOSED, shapes.OPEN_WEBUI, shapes.EMBEDDINGS, {}],
    ids=["dashboard", "closed", "open webui", "embeddings", "404"],
)
def test_what_serves_no_answers_is_not_listed(pages: Pages) -> None:
    """A web page for every path (as our own dashboard gives), a log-in, an embedding server, an empty server."""
    assert found(pages) is None


def test_notes_say_what_a_sweep_would_want_to_know() -> None:
    """Slots and their context, the limit that SGLang tells, a missing key, a missing model."""
    notes = {name: found(getattr(shapes, name)) for name in ("LLAMA_CPP", "SGLANG", "LITELLM", "TRANSFORMERS")}
    texts = {name: " ".join(server.identity.notes) for name, server in notes.items() if server}
    assert "4 slots with a context of 2048 tokens each." in texts["LLAMA_CPP"]
    assert "At most 48 requests at once." in texts["SGLANG"]
    assert "It wants an API key" in texts["LITELLM"]
    assert "It lists no model" in texts["TRANSFORMERS"]


def test_only_harmless_gets_are_sent() -> None:
    """No POST, and no path that makes a server generate."""
    ASKED.clear()
    found(shapes.VLLM)
    assert {request.method for request in ASKED} == {"GET"}
    assert len(ASKED) > 5
    assert not [r.path for r in ASKED if "generate" in r.path or "completion" in r.path or "chat" in r.path]
    ASKED.clear()
    found(shapes.LITELLM)
    assert "/health" not in [request.path for request in ASKED]  # it would answer by a request to each of its models


def test_closed_and_silent_ports_cost_less_than_three_seconds() -> None:
    """A port where nobody listens, and one that takes the connection and never answers."""

    async def look() -> tuple[list[Found], float]:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            began = time.monotonic()
            servers = await discover([server.sockets[0].getsockname()[1], free_port()], ["127.0.0.1"])
            return servers, time.monotonic() - began

    took_s = 60.0
    for _ in range(3):  # the machine may be busy in one of them
        servers, this_s = asyncio.run(look())
        assert servers == []
        took_s = min(took_s, this_s)
        if took_s < 3.0:
            break
    assert took_s < 3.0


def test_a_key_opens_a_closed_list_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection check of one server sends the key that the user named; discover sends none."""
    monkeypatch.setenv("THE_KEY", "open-sesame")
    seen: list[str | None] = []

    async def answer(request: Request) -> Reply:
        seen.append(request.headers.get("authorization"))
        open_ = request.headers.get("authorization") == "Bearer open-sesame"
        return (shapes.VLLM if open_ else shapes.VLLM_WITH_KEY).get(request.path, (404, {}, ""))

    async def look() -> tuple[Found | None, list[Found]]:
        async with serve_pages(answer) as url:
            with_key = await inspect(url, "THE_KEY")
            assert set(seen) == {"Bearer open-sesame"}
            seen.clear()
            return with_key, await discover([host_and_port(url)[1]], ["127.0.0.1"])

    with_key, (without,) = asyncio.run(look())
    assert with_key is not None
    assert (with_key.identity.models, with_key.identity.needs_key) == (("tiny",), False)
    assert (without.identity.models, without.identity.needs_key) == ((), True)
    assert set(seen) == {None}


def test_garbage_is_no_server() -> None:
    """Lists for objects, numbers for names, deep nesting, half JSON: null or a plain server, never an exception."""
    for text in (
        "[]",
        "7",
        '{"data": 7}',
        '{"data": [7, null]}',
        "[" * 100_000,
        '{"data": [{"id": 7',
        '{"models": {}}',
    ):
        assert identify({path: Answer(200, text) for path in ("/v1/models", "/props", "/info", "/server_info")}) is None


def test_every_kind_has_its_usual_port_looked_at() -> None:
    """The ports of the design page, once each."""
    assert {1234, 3000, 4000, 5000, 5001, 8000, 8080, 11434, 30000} == set(USUAL_PORTS)


@pytest.mark.skipif(not llama_installed(), reason="needs the llama.cpp wheel")
def test_a_real_llama_cpp_and_the_built_in_engine_are_found(tmp_path: Path) -> None:
    """Both run, each on a port of its own; what they say of themselves is enough."""

    async def look() -> dict[str, Found]:
        port = free_port()
        llama = Server(llama_sweep(port, {"max_num_seqs": [2]}, "-np", "{max_num_seqs}", "-c", "1024"), tmp_path)
        (tmp_path / "sim").mkdir()
        built_in = Server(quick_config(), tmp_path / "sim")
        try:
            await llama.apply({"max_num_seqs": 2})
            running = await built_in.apply({"max_num_seqs": 2})
            servers = await discover([port, host_and_port(running.base_url)[1]], ["127.0.0.1"])
        finally:
            await llama.stop()
            await built_in.stop()
        return {server.identity.kind: server for server in servers}

    servers = asyncio.run(look())
    assert set(servers) == {"llama_cpp", "simulated"}
    assert servers["llama_cpp"].identity.metrics is True
    assert "2 slots with a context of 512 tokens each." in servers["llama_cpp"].identity.notes
    assert servers["simulated"].identity.metrics is True
    assert servers["simulated"].identity.models


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["192.168.65.254"], True),
        (["127.0.0.1"], False),
        (["8.8.8.8"], False),
        (["192.168.65.254", "8.8.8.8"], False),
        ([], False),
    ],
    ids=["private", "loopback", "public", "both", "unknown"],
)
def test_a_container_looks_at_its_host_only_by_a_private_address(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], expected: bool
) -> None:
    """host.docker.internal is followed to another private address, never to a public one or back to ourselves."""

    def getaddrinfo(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if not addresses:
            raise socket.gaierror("unknown name")
        return [(2, 1, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert asyncio.run(is_another_machine("host.docker.internal")) is expected


def test_a_silent_name_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the look nor the end of its event loop waits for the answer."""
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(30) and [])
    began = time.monotonic()
    assert asyncio.run(is_another_machine("host.docker.internal")) is False
    assert time.monotonic() - began < 15  # of 30
    answered.set()


@pytest.mark.parametrize("inside", [True, False])
def test_the_host_of_a_container_is_asked_for_only_inside_one(monkeypatch: pytest.MonkeyPatch, inside: bool) -> None:
    """Elsewhere no name server hears of us."""
    asked: list[str] = []

    async def is_another_machine(host: str) -> bool:
        asked.append(host)
        return False

    monkeypatch.setattr("runner.engines.discover.in_container", lambda: inside)
    monkeypatch.setattr("runner.engines.discover.is_another_machine", is_another_machine)
    assert asyncio.run(discover(ports=())) == []
    assert asked == (["host.docker.internal"] if inside else [])
