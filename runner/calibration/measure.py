"""The designed requests of a calibration, sent one step after another to a running server."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from runner.calibration.design import TIMES, Step, specs_of, steps_for
from runner.engines.address import server_root
from runner.engines.room import Room, room_of
from runner.errors import SettingFailed
from runner.load.client import Slot, Target, run_request
from runner.load.transport import StampedTransport
from runner.load.workload import PromptScale, RequestSpec, make_prompt
from runner.measured import calibrate
from runner.probe import Detected, detect
from runner.protocols.facts import Ask
from storage.records import RequestRecord

LIMIT_S = 600.0


@dataclass(frozen=True)
class Seen:
    """Everything that was found out: the server, its room, and what came back of each step."""

    detected: Detected
    room: Room
    steps: list[Step]
    records: list[list[RequestRecord]]


async def measure_steps(
    url: str,
    *,
    api: str | None = None,
    model: str | None = None,
    api_key_env: str | None = None,
    seats: int | None = None,
    rounds: int = TIMES,
    on_step: Callable[[int, int], None] = lambda done, of: None,
) -> Seen:
    """Some two minutes on a home server. `seats`: how many answers it gives at once, where it does not say.

    Raises SettingFailed when the server does not answer, or not to most steps.
    """
    key = os.environ.get(api_key_env) if api_key_env else None
    async with httpx.AsyncClient(transport=StampedTransport(), trust_env=False, timeout=30.0) as client:
        detected = await detect(client, url, api=api, model=model, api_key_env=api_key_env)
        target = Target(url, detected.api, detected.params, api_key_env, limit_s=LIMIT_S)
        scale, _ = await calibrate(client, target, detected.model)
        room = await room_of(server_root(url), key)
        steps = steps_for(seats or room.seats, room.context_tokens, room.kv_tokens, rounds)
        records = []
        first_key = time.time_ns()
        for number, step in enumerate(steps):
            on_step(number, len(steps))
            specs = specs_of(step, number, first_key)
            records.append(await _at_once(client, target, detected.model, scale, specs))
    _refuse_failures(records)
    return Seen(detected, room, steps, records)


async def _at_once(
    client: httpx.AsyncClient, target: Target, model: str | None, scale: PromptScale, specs: Sequence[RequestSpec]
) -> list[RequestRecord]:
    asks = [Ask(make_prompt(spec, scale), model, spec.output_tokens) for spec in specs]
    origin_ns = time.monotonic_ns()
    slots = [
        Slot(origin_ns, origin_ns, 0, spec.request, spec.class_name, prompt_tokens_asked=spec.prompt_tokens)
        for spec in specs
    ]
    results = await asyncio.gather(
        *(run_request(client, target, ask, slot) for ask, slot in zip(asks, slots, strict=True))
    )
    return [result.record for result in results]


def _refuse_failures(records: Sequence[Sequence[RequestRecord]]) -> None:
    failed = [r for step in records for r in step if r.outcome != "ok"]
    if 2 * len(failed) > sum(map(len, records)):
        detail = f"most requests failed, the first with: {failed[0].error_detail}"
        raise SettingFailed(failed[0].error_kind or "http_error", detail)


def measure_once(
    url: str,
    *,
    api: str | None,
    model: str | None,
    api_key_env: str | None,
    seats: int | None,
    rounds: int,
    on_step: Callable[[int, int], None],
) -> Seen:
    """`measure_steps` for callers without an event loop."""
    with asyncio.Runner() as runner:
        return runner.run(
            measure_steps(
                url, api=api, model=model, api_key_env=api_key_env, seats=seats, rounds=rounds, on_step=on_step
            )
        )
