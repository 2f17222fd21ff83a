"""The isolation experiment as an ordinary sweep: every way to keep background work apart is a cell of it. PURE.

Chats alone are a cap of 0 of our dispatcher, the background as it is a cap that never binds; between them the caps that
are tried. Server priority is the setting `policy`, where the server has it and can be given it; the background alone is
the cell of `run.alone`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.config import Length, RequestClass, SweepConfig, parse_sweep
from runner.engines.knowledge import POLICY_HOW
from runner.errors import ConfigError
from runner.load.event_rate import mean_tokens

CAPS = (2, 4, 8)
NO_CAP = 1000  # of a background without an end: more are never out at once
CHATS_WANTED = 120  # of a cell: neighbours share their fate, so these are worth some 40 when a share is to be proven
CHAT_BUSY = 0.3  # share of the time that the chats would keep a server busy that answers one after another
JOBS_AT_ONCE = 2.0  # how much faster than one after another a server is taken to answer jobs in a batch
SHORTEST_S, LONGEST_S = 120.0, 900.0
CHAT_PROMPT, CHAT_OUTPUT = {"p50": 100, "p90": 300, "max": 600}, {"p50": 60, "p90": 150, "max": 300}
JOB_PROMPT, JOB_OUTPUT = {"p50": 600, "p90": 900, "max": 1200}, {"p50": 40, "p90": 80, "max": 150}
LONGEST_TOKENS = 1400  # a job of the usual lengths, with room for a chat template


@dataclass(frozen=True)
class Pace:
    """How fast a server answers one request alone, ms: a prompt token, an output token."""

    prompt_ms: float
    token_ms: float

    def of(self, prompt: Length, output: Length) -> float:
        """Milliseconds of a request of mean lengths."""
        return mean_tokens(prompt) * self.prompt_ms + mean_tokens(output) * self.token_ms


@dataclass(frozen=True)
class Wishes:
    """What a person may fix of the usual experiment; None: as it suits the server."""

    caps: tuple[int, ...] = CAPS
    duration_s: float | None = None
    chat_rate: float | None = None
    jobs: int | None = None
    ttft_ms: float = 1000.0
    gap_ms: float = 150.0


def usual_sweep(
    name: str,
    backend: Mapping[str, Any],
    pace: Pace | None,
    context_tokens: int | None,
    wishes: Wishes,
    *,
    heeds_priority: bool = False,
) -> SweepConfig:
    """Chats and a pile of documents to index, sized for this server. `backend`: keys of [backend], and `control`.

    The chats alone keep it busy for about a third of the time; the pile is what it works off in about half of the
    window. Raises ConfigError where neither the server's pace nor rate and jobs are known.
    """
    scale = min(1.0, context_tokens / LONGEST_TOKENS) if context_tokens else 1.0
    tables = [_scaled(t, scale) for t in (CHAT_PROMPT, CHAT_OUTPUT, JOB_PROMPT, JOB_OUTPUT)]
    chat_prompt, chat_output, job_prompt, job_output = (Length.model_validate(t) for t in tables)
    rate, jobs = wishes.chat_rate, wishes.jobs
    if (rate is None or jobs is None) and pace is None:
        raise ConfigError(
            f"{name} is not running, so its pace is not known; start it, or say how much to send: "
            f"goodput isolate {name} --chat-rate R --jobs N"
        )
    if rate is None and pace is not None:
        rate = float(f"{1000 * CHAT_BUSY / pace.of(chat_prompt, chat_output):.2g}")
    seconds = wishes.duration_s or min(max(CHATS_WANTED / (rate or 1.0), SHORTEST_S), LONGEST_S)
    if jobs is None and pace is not None:
        jobs = max(8, round(0.5 * JOBS_AT_ONCE * seconds * 1000 / pace.of(job_prompt, job_output)))
    warmup_s = min(30.0, round(seconds / 8, 1))
    slo = {"ttft_ms": wishes.ttft_ms, "gap_ms": wishes.gap_ms}
    own = dict(backend)
    control = own.pop("control", None)
    raw = {
        "name": f"Isolation: {name}",
        "backend": own,
        **({"control": control} if control else {}),
        "grid": {"indexing_max_in_flight": [1]},
        "run": {"duration_s": round(seconds, 1), "warmup_s": warmup_s},
        "classes": [
            {"name": "chat", "rate": rate, "prompt_tokens": tables[0], "output_tokens": tables[1], "slo": slo},
            {
                "name": "indexing", "dump": {"count": jobs, "at_s": warmup_s}, "priority": 1,
                "prompt_tokens": tables[2], "output_tokens": tables[3],
            },
        ],
    }  # fmt: skip
    return with_arms(parse_sweep(raw, name), wishes.caps, heeds_priority=heeds_priority)


def with_arms(config: SweepConfig, caps: Sequence[int], *, heeds_priority: bool = False) -> SweepConfig:
    """The experiment on the classes of a sweep: at its first setting and load.

    `heeds_priority`: the server, which runs as it is, takes a request's priority; then its background goes once among
    the chats and once behind them. Raises ConfigError when it has no class with targets, or none without.
    """
    background = next((c for c in config.classes if c.slo is None), None)
    if background is None or all(c.slo is None for c in config.classes):
        raise ConfigError(
            "an isolation experiment needs a class with slo (those who wait) and one without (the background)"
        )
    cap = f"{background.name}_max_in_flight"
    most = _never_binds(background, config)
    tried = sorted({c for c in caps if 0 < c < most})
    grid: dict[str, Any] = {k: [values[0]] for k, values in config.grid.items() if k != cap}
    grid[cap] = [0, *tried, most]
    classes = [c.model_dump(mode="json", exclude_none=True) for c in config.classes]
    if takes_policy(config):
        grid["policy"] = ["fcfs", "priority"]
        ahead = max(c.priority for c in config.classes if c.slo)
        for told in classes:
            if told["name"] == background.name:
                told["priority"] = max(background.priority, ahead + 1)
    elif heeds_priority:
        ahead = max(c.priority for c in config.classes if c.slo)
        grid[f"{background.name}_priority"] = [ahead, max(background.priority, ahead + 1)]
    run = config.run.model_dump(mode="json", exclude_none=True, exclude={"find_rate", "budget"})
    alone = {"alone": background.name} if not background.weight else {}
    raw = {
        "name": config.name,
        "backend": config.backend.model_dump(mode="json", exclude_unset=True),
        "control": config.control.model_dump(mode="json", exclude_unset=True),
        "grid": grid,
        # a cell that is cut does not tell how long the background takes
        "run": {**run, **alone, "drift_check": False, "stop_hopeless": config.run.stop_hopeless is True},
        "classes": classes,
    }
    return parse_sweep(raw, "the isolation experiment")


def takes_policy(config: SweepConfig) -> bool:
    """Whether the server heeds priorities and can be given that policy: the built-in engine with chunked prefill, one
    whose start command has a place for it, one that a person changes."""
    backend, control = config.backend, config.control
    if backend.kind not in POLICY_HOW:
        return False
    if backend.kind == "simulated":
        return backend.scheduler == "vllm_v1" and "scheduler" not in config.grid
    return control.mode == "manual" or any("{policy}" in part for part in control.command or ())


def _never_binds(background: RequestClass, config: SweepConfig) -> int:
    if background.max_in_flight is not None:  # how it is
        return background.max_in_flight
    if background.dump:
        return background.dump.count
    listed = [int(v) for v in config.grid.get(f"{background.name}_max_in_flight", ())]
    return max([background.closed.concurrency if background.closed else NO_CAP, *listed])


def _scaled(table: Mapping[str, int], scale: float) -> dict[str, int]:
    return {k: max(1, round(v * scale)) for k, v in table.items()}
