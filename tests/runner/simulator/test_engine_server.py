"""The engine's server over real sockets."""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.errors import ConfigError
from runner.simulator.cost_model import CostModel
from runner.simulator.presets import EngineProfile
from runner.simulator.schedulers.by_name import SCHEDULERS
from runner.simulator.server import Service, start
from runner.simulator.settings import ServerSettings
from runner.simulator.state import Knobs

FAST = CostModel(a=2, b=0.001)


def settings_of(cost: CostModel = FAST, kv_tokens: int = 65_536, **more: object) -> ServerSettings:
    """Settings on a free port with the model "tiny"."""
    return ServerSettings(EngineProfile(cost, kv_tokens, False, "test"), model="tiny", port=0, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(settings: ServerSettings) -> AsyncIterator[tuple[int, Service]]:
    """A server on the test's loop: (port, service)."""
    server, service, port = await start(settings)
    try:
        yield port, service
    finally:
        server.close()
        for connection in list(service.connections):
            connection.transport.abort()


def http_request(path: str, body: object = None, method: str | None = None) -> bytes:
    """One HTTP/1.1 request; bytes go as they are."""
    raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    method = method or ("GET" if body is None else "POST")
    return f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw


async def read_reply(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """(status, headers, body) of one reply with either framing."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    if "content-length" in headers:
        return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return int(head[0].split()[1]), headers, body


async def call(port: int, path: str, body: object = None, method: str | None = None) -> tuple[int, bytes]:
    """One request on its own connection: (status, body)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(http_request(path, body, method))
    status, _, reply = await read_reply(reader)
    writer.close()
    return status, reply


def events_of(body: bytes) -> list[dict]:
    """The JSON events of a stream; it must end with [DONE]."""
    parts = [part.removeprefix(b"data: ") for part in body.strip().split(b"\n\n")]
    assert parts[-1] == b"[DONE]"
    return [json.loads(part) for part in parts[:-1]]


async def samples(port: int) -> dict[str, float]:
    """The /metrics page by sample name, read by the official parser; buckets left out."""
    _, body = await call(port, "/metrics")
    families = text_string_to_metric_families(body.decode())
    return {s.name: s.value for f in families for s in f.samples if "le" not in s.labels}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Asks until it is so; fails after 10 s."""
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.005)


CHAT = {"messages": [{"role": "user", "content": "one two three"}], "ignore_eos": True}


async def chat_stream() -> None:
    async with serving(settings_of()) as (port, _):
        body = {**CHAT, "model": "tiny", "max_tokens": 6, "stream": True, "stream_options": {"include_usage": True}}
        status, raw = await call(port, "/v1/chat/completions", body)
        events = events_of(raw)
    assert status == 200
    assert [e["object"] for e in events] == ["chat.completion.chunk"] * 8
    assert len({e["id"] for e in events}) == 1
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    said = "".join(e["choices"][0]["delta"]["content"] for e in events[1:7])
    assert len(said.split()) == 6
    assert [e["choices"][0]["finish_reason"] for e in events[:7]] == [None] * 6 + ["length"]
    assert events[7]["choices"] == []
    assert events[7]["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 6,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_chat_stream():
    """The role without text, one event per token, the reason in the last, usage without choices, [DONE]."""
    asyncio.run(chat_stream())


async def completions_stream() -> None:
    async with serving(settings_of()) as (port, _):
        body = {"prompt": "a b", "max_tokens": 4, "min_tokens": 4, "stream": True}
        _, raw = await call(port, "/v1/completions", body)
        usage = {"include_usage": True, "continuous_usage_stats": True}
        _, counted = await call(port, "/v1/completions", {**body, "stream_options": usage})
    events = events_of(raw)
    assert [len(e["choices"][0]["text"].split()) for e in events] == [1, 1, 1, 1]
    assert all("usage" not in e for e in events)
    assert [e["usage"]["completion_tokens"] for e in events_of(counted)] == [1, 2, 3, 4, 4]


def test_completions_stream():
    """Text events without a role; usage in each of them only when asked for."""
    asyncio.run(completions_stream())


async def keep_alive() -> None:
    async with serving(settings_of()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(http_request("/v1/chat/completions", {**CHAT, "max_tokens": 5}) * 2 + http_request("/health"))
        first, second, health = [await read_reply(reader) for _ in range(3)]
        writer.write(http_request("/v1/completions", {**CHAT, "prompt": "a", "max_tokens": 2, "stream": True}))
        third = await read_reply(reader)
        writer.close()
    assert [r[0] for r in (first, second, health, third)] == [200] * 4
    answer = json.loads(first[2])
    assert answer["object"] == "chat.completion"
    assert len(answer["choices"][0]["message"]["content"].split()) == 5
    assert answer["usage"]["total_tokens"] == 8
    assert answer["id"] != json.loads(second[2])["id"]
    assert health[2] == b""
    assert len(events_of(third[2])) == 2


def test_one_connection_serves_request_after_request():
    """Whole answers, a health check and a stream on one connection, some sent before the answer came."""
    asyncio.run(keep_alive())


async def refused_behind_an_answer() -> None:
    async with serving(settings_of()) as (port, _):
        stream = http_request("/v1/completions", {"prompt": "a", "max_tokens": 5, "stream": True})
        for wrong in (b"nonsense\r\n\r\n", b"GET /health HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(stream + wrong)
            status, _, body = await read_reply(reader)
            assert (status, len(events_of(body))) == (200, 5)
            assert (await read_reply(reader))[0] == 400
            assert await reader.read() == b""
            writer.close()


def test_a_refusal_waits_for_the_answer_before_it():
    """What is no request behind one that is: the stream comes whole, then the 400, then the end of the connection."""
    asyncio.run(refused_behind_an_answer())


async def split_request() -> None:
    async with serving(settings_of()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        raw = http_request("/v1/completions", {"prompt": "a b c", "max_tokens": 1})
        for i in range(0, len(raw), 7):
            writer.write(raw[i : i + 7])
            await writer.drain()
            await asyncio.sleep(0)
        status, _, body = await read_reply(reader)
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (await read_reply(reader))[0] == 200
        assert await reader.read() == b""
    assert status == 200
    assert json.loads(body)["usage"]["prompt_tokens"] == 3


def test_requests_in_pieces_and_connection_close():
    """A request cut anywhere is the same request; `connection: close` is kept."""
    asyncio.run(split_request())


async def errors() -> None:
    async with serving(settings_of(max_model_len=100)) as (port, _):
        chat, text = "/v1/chat/completions", "/v1/completions"
        expected = [
            (404, chat, {**CHAT, "model": "nope"}, None),
            (400, chat, b'{"model": ', None),
            (400, text, {"prompt": "a", "max_tokens": -5}, None),
            (400, text, {"prompt": "a " * 200}, None),
            (404, "/v1/nothing", {}, None),
            (405, text, None, "GET"),
            (404, "/", None, "DELETE"),
        ]
        for status, path, body, method in expected:
            got, raw = await call(port, path, body, method)
            assert got == status
            assert "detail" in json.loads(raw) or json.loads(raw)["error"]["code"] == status
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"nonsense\r\n\r\n")
        assert (await read_reply(reader))[0] == 400
        assert await reader.read() == b""
        writer.close()
        status, raw = await call(port, "/v1/models")
    assert status == 200
    assert [(m["id"], m["max_model_len"]) for m in json.loads(raw)["data"]] == [("tiny", 100)]


def test_errors_and_models():
    """Unknown model 404, bad JSON, a negative length and a long prompt 400, and the server lives on."""
    asyncio.run(errors())


async def large_bodies() -> None:
    async with serving(settings_of()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps({"prompt": "word " * 20_000, "max_tokens": 1}).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(body)
        status, _, raw = await read_reply(reader)
        assert (status, json.loads(raw)["usage"]["prompt_tokens"]) == (200, 20_000)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 40000000\r\n\r\n")
        with suppress(ConnectionError):
            for _ in range(40):
                writer.write(b"x" * 1_000_000)
                await writer.drain()
        assert writer.transport.is_closing() or reader.at_eof() or (await read_reply(reader))[0] == 413
        assert (await call(port, "/health"))[0] == 200
        writer.close()


def test_large_bodies():
    """A long prompt behind `expect: 100-continue` is served; a body above 32 MiB is cut off, and only that."""
    asyncio.run(large_bodies())


async def full_queue() -> None:
    slow = CostModel(a=50, b=0)
    async with serving(settings_of(slow, knobs=Knobs(max_num_seqs=1), max_queue=1)) as (port, _):
        body = {"prompt": "a", "max_tokens": 4, "ignore_eos": True}
        replies = await asyncio.gather(*(call(port, "/v1/completions", body) for _ in range(4)))
        seen = await samples(port)
    assert sorted(status for status, _ in replies) == [200, 200, 503, 503]
    error = next(json.loads(raw)["error"] for status, raw in replies if status == 503)
    assert (error["type"], error["code"]) == ("Service Unavailable", 503)
    assert seen["vllm:admission_rejections_total"] == 2


def test_a_full_queue_answers_503():
    """One seat and a queue of one: of four at once two are served and two are refused."""
    asyncio.run(full_queue())


async def disconnect() -> None:
    async with serving(settings_of(knobs=Knobs(max_num_seqs=1))) as (port, service):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = {"prompt": "a", "max_tokens": 30_000, "ignore_eos": True, "stream": True}
        writer.write(http_request("/v1/completions", body))
        await reader.readuntil(b"data: ")
        waiting_reader, waiting = await asyncio.open_connection("127.0.0.1", port)
        waiting.write(http_request("/v1/completions", body))
        await waiting_reader.readuntil(b"\r\n\r\n")
        assert service.live.engine.running == 1
        waiting.transport.abort()
        writer.transport.abort()
        status, _ = await call(port, "/v1/completions", {"prompt": "a", "max_tokens": 2})
        assert status == 200

        async def idle() -> bool:
            seen = await samples(port)
            return seen["vllm:num_requests_running"] == seen["vllm:num_requests_waiting"] == 0

        await until(idle)
        assert (await samples(port))["vllm:kv_cache_usage_perc"] == 0


def test_a_client_that_leaves_frees_its_sequence():
    """The only seat goes to the next request when its stream, or one in the queue, is dropped."""
    asyncio.run(disconnect())


async def count_everything() -> None:
    # 6 blocks; each answer ends at 16 + 24 - 1 = 39 tokens, 3 blocks: three of them cannot all stay
    async with serving(settings_of(kv_tokens=96)) as (port, service):
        body = {"prompt": "a " * 16, "max_tokens": 24, "ignore_eos": True, "stream": True}
        replies = await asyncio.gather(*(call(port, "/v1/completions", body) for _ in range(3)))
        seen = await samples(port)
        steps = service.live.metrics.iteration_tokens
    assert [len(events_of(raw)) for _, raw in replies] == [24, 24, 24]
    assert seen["vllm:num_preemptions_total"] >= 1
    assert seen["vllm:prompt_tokens_total"] == 48
    assert seen["vllm:generation_tokens_total"] == 72
    assert seen["vllm:time_to_first_token_seconds_count"] == 3
    assert seen["vllm:inter_token_latency_seconds_count"] == 69
    assert seen["vllm:request_queue_time_seconds_count"] == 3
    # 48 prompt tokens and 69 decodes, and what was computed again after a preemption
    assert seen["vllm:iteration_tokens_total_sum"] == steps.sum > 48 + 69
    assert (
        seen["vllm:iteration_tokens_total_count"] == steps.count == seen["goodput_engine:iteration_lag_seconds_count"]
    )
    assert seen["vllm:prefix_cache_queries_total"] == seen["vllm:prefix_cache_hits_total"] == 0
    assert 0 <= seen["goodput_engine:iteration_lag_seconds_max"] < 5


def test_metrics_add_up_and_preemption_repeats_no_token():
    """Counters after three answers in a pool too small for them: every token once, work done twice is counted."""
    asyncio.run(count_everything())


async def token_times(port: int, body: dict) -> list[float]:
    """Arrival times in seconds of a stream's events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(http_request("/v1/completions", body))
    times = []
    while b"[DONE]" not in (line := await reader.readline()):
        if line.startswith(b"data: "):
            times.append(time.perf_counter())
    writer.close()
    return times


async def every_scheduler_serves(scheduler: str) -> None:
    knobs = Knobs(4, 64, max_model_len=512, batch_wait_ms=5, kv_bytes_per_token=1000)
    async with serving(settings_of(kv_tokens=4096, scheduler=scheduler, knobs=knobs)) as (port, service):
        body = {"prompt": "a " * 20, "max_tokens": 9, "ignore_eos": True}
        streamed = [call(port, "/v1/completions", {**body, "stream": True}) for _ in range(6)]
        whole = [call(port, "/v1/completions", body) for _ in range(3)]
        replies = await asyncio.gather(*streamed, *whole)
        seen = await samples(port)
    assert [len(events_of(raw)) for _, raw in replies[:6]] == [9] * 6
    assert [json.loads(raw)["usage"]["completion_tokens"] for _, raw in replies[6:]] == [9] * 3
    assert (seen["vllm:prompt_tokens_total"], seen["vllm:generation_tokens_total"]) == (180, 81)
    assert seen["vllm:time_to_first_token_seconds_count"] == seen["vllm:request_queue_time_seconds_count"] == 9
    # a batch that answers at its end has no gaps; it computes padded rows, not tokens of its own
    assert seen["vllm:inter_token_latency_seconds_count"] == (0 if scheduler == "static" else 72)
    assert seen["vllm:iteration_tokens_total_sum"] >= 180 + 72
    assert seen["vllm:num_requests_running"] == seen["vllm:num_requests_waiting"] == 0
    assert seen["vllm:kv_cache_usage_perc"] == 0
    assert service.live.engine.next_ns == float("inf")


@pytest.mark.parametrize("scheduler", list(SCHEDULERS))
def test_every_scheduler_serves(scheduler: str):
    """Nine answers at four seats, streamed or not, from each scheduler; the metrics add up and nothing stays behind."""
    asyncio.run(every_scheduler_serves(scheduler))


async def static_answers() -> None:
    knobs = Knobs(2, max_model_len=64, batch_wait_ms=40)
    apart = []
    async with serving(settings_of(CostModel(a=20, b=0), scheduler="static", knobs=knobs)) as (port, _):
        body = {"prompt": "a", "max_tokens": 4, "ignore_eos": True, "stream": True}
        for _ in range(5):  # the machine may be busy in one of them
            began = time.perf_counter()
            times = await token_times(port, body)
            assert times[0] - began > 0.118  # 40 of waiting for a second one, 4 iterations of 20
            apart.append(times[-1] - times[0])
    assert min(apart) < 0.03  # one by one it would be 60


def test_a_static_batch_answers_at_its_end():
    """All tokens of a streamed answer come together, after the wait and every iteration of the batch."""
    asyncio.run(static_answers())


async def static_stream() -> None:
    knobs = Knobs(2, max_model_len=64, batch_wait_ms=30_000, stream_static=True)  # begins when both are there
    async with serving(settings_of(CostModel(a=20, b=0), scheduler="static", knobs=knobs)) as (port, service):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        long = asyncio.create_task(
            token_times(port, {"prompt": "a", "max_tokens": 30, "ignore_eos": True, "stream": True})
        )
        writer.write(http_request("/v1/completions", {"prompt": "a", "max_tokens": 2, "ignore_eos": True}))
        assert (await read_reply(reader))[0] == 200
        writer.write(http_request("/health"))
        assert (await read_reply(reader))[0] == 200
        assert service.live.engine.running >= 1
        assert len(await long) == 30
        writer.close()


def test_a_streaming_static_batch_lets_short_answers_go():
    """The short answer is whole and its connection free while the batch it came in goes on."""
    asyncio.run(static_stream())


async def prefix_cache() -> None:
    async with serving(settings_of(knobs=Knobs(prefix_caching=True))) as (port, _):
        common = [f"w{i}" for i in range(40)]
        replies = [
            await call(port, "/v1/completions", {"prompt": " ".join([*common, end]), "max_tokens": 1}) for end in "xyz"
        ]
        seen = await samples(port)
    cached = [json.loads(raw)["usage"]["prompt_tokens_details"]["cached_tokens"] for _, raw in replies]
    assert cached == [0, 32, 32]
    assert seen["vllm:prefix_cache_queries_total"] == 3 * 41
    assert seen["vllm:prefix_cache_hits_total"] == 64
    assert seen["vllm:iteration_tokens_total_sum"] == 41 + 9 + 9


def test_prefix_cache_over_http():
    """40 words in common are two full blocks: 32 tokens are not computed again, and usage and metrics say so."""
    asyncio.run(prefix_cache())


async def side_by_side() -> None:
    slow, fast = settings_of(CostModel(a=30, b=0)), settings_of(CostModel(a=10, b=0), scheduler="sarathi")
    async with serving(slow) as (slow_port, _), serving(fast) as (fast_port, service):
        body = {"prompt": "a", "max_tokens": 12, "ignore_eos": True, "stream": True}
        began = time.perf_counter()
        times = await asyncio.gather(token_times(slow_port, body), token_times(fast_port, body))
        assert service.live.metrics.generation_tokens == 12
    spans = [t[-1] - began for t in times]
    assert spans[0] > 12 * 0.030 - 0.005
    assert spans[1] > 12 * 0.010 - 0.005
    assert spans[0] > spans[1]


def test_engines_stand_side_by_side():
    """Two engines on one loop keep their own pace, queue and counters."""
    asyncio.run(side_by_side())


async def disaggregated() -> None:
    # 8 Gbit/s: 10 tokens of 1 MB move in 10 ms
    knobs = Knobs(kv_bytes_per_token=1_000_000, kv_link_gbit_per_s=8)
    settings = settings_of(CostModel(a=20, b=0), scheduler="distserve", knobs=knobs)
    async with serving(settings) as (port, service):
        body = {"prompt": "a " * 10, "max_tokens": 6, "ignore_eos": True, "stream": True}
        began = time.perf_counter()
        times = await token_times(port, body)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(http_request("/v1/completions", {**body, "max_tokens": 1000}))
        await reader.readuntil(b"data: ")
        writer.transport.abort()  # its KV may be on either side or on its way

        async def idle() -> bool:
            return service.live.engine.running == 0

        await until(idle)
        assert [lane.free_blocks for lane in service.live.engine.state.lanes] == [4096, 4096]
    assert times[-1] - began > 0.020 + 0.010 + 5 * 0.020 - 0.005


def test_distserve_over_http():
    """Prompt, move and five more tokens take their time; a client that leaves frees its blocks on both instances."""
    asyncio.run(disaggregated())


async def leaves_on_the_way() -> None:
    # 8 kbit/s: 60 tokens of 1 KB take a minute to move, and hold 4 of the 6 blocks of both sides until then
    knobs = Knobs(kv_bytes_per_token=1_000, kv_link_gbit_per_s=8e-6)
    async with serving(settings_of(kv_tokens=96, scheduler="distserve", knobs=knobs)) as (port, service):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = {"prompt": "a " * 60, "max_tokens": 20, "ignore_eos": True, "stream": True}
        writer.write(http_request("/v1/completions", body))
        await reader.readuntil(b"data: ")
        waiting = asyncio.create_task(call(port, "/v1/completions", {**body, "max_tokens": 1}))

        async def queued() -> bool:
            return service.live.engine.waiting == 1 and service.live.engine.work == [None, None]

        await until(queued)
        assert service.live.engine.next_ns > (asyncio.get_running_loop().time() + 30) * 1e9
        writer.transport.abort()
        async with asyncio.timeout(10):
            status, raw = await waiting
    assert (status, len(events_of(raw))) == (200, 1)


def test_who_leaves_while_nothing_is_at_work_makes_room_at_once():
    """Its KV was on the way for a minute with all lanes idle: the next prompt does not wait for that, nor for another
    request to wake the engine."""
    asyncio.run(leaves_on_the_way())


async def first_token() -> None:
    async with serving(settings_of(CostModel(a=10, b=0.1), knobs=Knobs(max_num_batched_tokens=500))) as (port, _):
        body = {"prompt": "a " * 1000, "max_tokens": 2, "ignore_eos": True, "stream": True}
        took = []
        for _ in range(3):  # the machine may be busy in one of them
            began = time.perf_counter()
            first, second = await token_times(port, body)
            # its own gap may be short: a late first token does not move the second
            assert (first - began > 0.119, second - began > 0.129) == (True, True)
            took.append(second - began)
    assert min(took) < 0.6


def test_a_long_prompt_takes_its_iterations():
    """1000 tokens in two chunks of 500: 2 * (10 + 50) ms to the first token and 10 more to the next, never sooner."""
    asyncio.run(first_token())


async def many_streams() -> None:
    # 64 decodes: 16 + 0.0625 * 64 = 20 ms; the prompts' iteration: 16 + 0.001 * 128
    async with serving(settings_of(CostModel(a=16, b=0.001, c=0.0625))) as (port, service):
        body = {"prompt": "a b", "max_tokens": 40, "ignore_eos": True, "stream": True}
        began = time.perf_counter()
        streams = await asyncio.gather(*(token_times(port, body) for _ in range(64)))
        took = time.perf_counter() - began
        metrics = service.live.metrics
        mean_lag = metrics.lag_sum_s / metrics.lag_count
    assert [len(times) for times in streams] == [40] * 64
    gaps = [b - a for times in streams for a, b in pairwise(times)]
    # a busy machine makes the engine late, and the engine says so itself
    assert abs(statistics.median(gaps) - 0.020) < 0.010 + 2 * mean_lag
    assert 0.016 + 39 * 0.020 - 0.005 < took < 10


def test_64_streams_follow_the_cost_model():
    """The median gap of 64 concurrent streams is the model's 20 ms, and no token comes before its time."""
    asyncio.run(many_streams())


async def bad_settings() -> None:
    with pytest.raises(ConfigError, match="--max-model-len 200 is more than the KV pool's 96"):
        await start(settings_of(kv_tokens=100, max_model_len=200))
    with pytest.raises(ConfigError, match="choose one of"):
        await start(settings_of(scheduler="fifo"))
    async with serving(settings_of()) as (port, _):
        taken = ServerSettings(EngineProfile(FAST, 1024, False, "test"), port=port)
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            await start(taken)


def test_settings_that_cannot_work_are_told():
    """A context above the pool, a scheduler that is not there and a port in use: one sentence each."""
    asyncio.run(bad_settings())
