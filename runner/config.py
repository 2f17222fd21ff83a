"""A sweep as plain data -> frozen, validated models. Checked once, here; everything behind trusts them. PURE."""

import typing
from datetime import datetime, time
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from runner.config_checks import LOAD_AXES as LOAD_AXES
from runner.config_checks import (
    MOST_BITS,
    MOST_REQUESTS,
    MOST_WORKERS,
    OF_A_CLASS,
    check_arrivals,
    check_caps_of_none,
    check_grid,
    check_search,
    too_large,
)
from runner.config_checks import is_load_key as is_load_key
from runner.config_errors import one_line, plain_error
from runner.errors import ConfigError
from runner.search.budget_text import budget_seconds
from runner.secret_names import VARIABLE, holds_secret, is_secret_name, secret_flags
from runner.web_address import with_scheme

Scalar = str | int | float | bool
BACKEND_KINDS = (
    "simulated", "openai", "vllm", "sglang", "llama_cpp", "ollama", "tgi",
    "lmstudio", "tabbyapi", "koboldcpp", "localai", "mlx_lm", "litellm",
)  # fmt: skip
# of the built-in engine: what a [backend] may fix and a [grid] may vary
ENGINE_KEYS = (
    "max_num_seqs", "max_num_batched_tokens", "max_model_len", "enable_prefix_caching", "batch_wait_ms",
    "stream_static", "reservation", "preemption", "prefill_instances", "decode_instances", "kv_link_gbit_per_s",
    "kv_unified",
)  # fmt: skip
Api = Literal[
    "openai_chat", "openai_completions", "ollama_chat", "ollama_generate", "llamacpp_completion", "tgi_generate_stream"
]
MOST_TOKENS = 10_000_000  # of one prompt or answer; a slip of the hand must not fill the memory
MOST_S = 30 * 86_400.0
WebAddress = Annotated[str, AfterValidator(with_scheme)]
Seconds = Annotated[float, Field(le=MOST_S)]
GapRule = Literal["p99_gap", "mean_tpot", "every_gap", "deadline", "fluidity"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, data: object) -> object:
        """`repeats = true` would be taken for 1."""
        for name, value in data.items() if isinstance(data, dict) else ():
            for each in value if isinstance(value, (list, tuple)) else (value,):
                field = cls.model_fields.get(name)
                if isinstance(each, bool) and field and _is_number(field.annotation):
                    told = {"name": name, "value": str(each).lower()}
                    raise PydanticCustomError("truth_for_number", "{name} is {value}; give a number", told)
        return data


def _is_number(annotation: object) -> bool:
    """Whether a field takes numbers and no truth values, at any depth of its type."""
    parts = [annotation]
    for part in parts:
        parts += typing.get_args(part)
    return (int in parts or float in parts) and bool not in parts


def _length(value: object) -> object:
    """A bare number in the file means a fixed length."""
    return {"fixed": value} if isinstance(value, int) and not isinstance(value, bool) else value


class Length(_Model):
    """Tokens: exactly one of fixed, uniform = [low, high] (inclusive), or lognormal by p50/p90 (cut at max)."""

    fixed: int | None = Field(None, ge=1, le=MOST_TOKENS)
    uniform: tuple[int, int] | None = None
    p50: float | None = Field(None, ge=1, le=MOST_TOKENS)
    p90: float | None = Field(None, ge=1, le=MOST_TOKENS)
    max: int | None = Field(None, ge=1, le=MOST_TOKENS)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [self.fixed is not None, self.uniform is not None, self.p50 is not None]
        if sum(kinds) != 1:
            raise ValueError("give exactly one of fixed, uniform or p50 with p90")
        if self.uniform and not 1 <= self.uniform[0] <= self.uniform[1] <= MOST_TOKENS:
            raise ValueError(f"uniform needs 1 <= low <= high <= {MOST_TOKENS}")
        if self.p50 is not None and (self.p90 is None or self.p90 < self.p50):
            raise ValueError("a lognormal length needs p90 >= p50")
        if self.p50 is None and (self.p90 is not None or self.max is not None):
            raise ValueError("p90 and max belong to p50")
        return self


class Slo(_Model):
    """First-token target T1, token-gap target T2, and the rule that turns gaps into yes or no."""

    ttft_ms: float = Field(gt=0, le=1000 * MOST_S)
    gap_ms: float = Field(ge=0.001, le=1000 * MOST_S)  # times are stored in µs
    rule: GapRule = "p99_gap"
    fluidity: float = Field(0.9, gt=0, le=1)  # used by rule = "fluidity" only


class Closed(_Model):
    concurrency: int = Field(ge=1, le=MOST_WORKERS)
    think_s: Seconds = Field(0.0, ge=0)


class Dump(_Model):
    count: int = Field(ge=1, le=MOST_REQUESTS)
    at_s: Seconds = Field(ge=0)


class RequestClass(_Model):
    """One class of the mix. Exactly one of weight, rate, closed, trace, dump says when its requests come."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    weight: float | None = Field(None, gt=0, le=1e9)
    rate: float | None = Field(None, gt=0)  # requests/s, not scaled by request_rate
    closed: Closed | None = None
    trace: str | None = None
    dump: Dump | None = None
    arrival: Literal["constant", "poisson", "gamma"] = "poisson"
    cv: float = Field(1.0, ge=0.01, le=100)  # coefficient of variation of gamma gaps
    prompt_tokens: Annotated[Length, BeforeValidator(_length)]
    output_tokens: Annotated[Length, BeforeValidator(_length)]
    priority: int = Field(0, ge=-(2**31), lt=2**31)
    slo: Slo | None = None
    max_in_flight: int | None = Field(None, ge=1)
    shared_prefix_tokens: int = Field(0, ge=0)  # 0: every prompt unique, so that no prefix cache flatters

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [k for k in ("weight", "rate", "closed", "trace", "dump") if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of weight, rate, closed, trace or dump")
        return self

    @property
    def open_loop(self) -> bool:
        return self.closed is None


class Cost(_Model):
    """Iteration cost in ms: t = a + b*P + e*Q + c*B + d*K (design page schedulers)."""

    a: float = Field(ge=0)
    b: float = Field(ge=0)
    c: float = Field(0.0, ge=0)
    d: float = Field(0.0, ge=0)
    e: float = Field(0.0, ge=0)
    a_prefill: float | None = Field(None, ge=0)


class Backend(_Model):
    kind: Literal[BACKEND_KINDS]  # type: ignore[valid-type]
    url: WebAddress | None = None
    model: str | None = None
    api: Api | None = None
    api_key_env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    metrics_url: WebAddress | None = None
    # the built-in engine only
    scheduler: Literal["static", "orca", "vllm_v0", "vllm_v1", "sarathi", "distserve", "llama_cpp"] = "vllm_v1"
    preset: str | None = None
    profile: str | None = None
    cost: Cost | None = None
    kv_tokens: int | None = Field(None, ge=16)
    policy: Literal["fcfs", "priority"] = "fcfs"
    max_num_seqs: int | None = Field(None, ge=1)
    max_num_batched_tokens: int | None = Field(None, ge=1)
    max_model_len: int | None = Field(None, ge=1)
    enable_prefix_caching: bool | None = None
    batch_wait_ms: float | None = Field(None, ge=0, le=3_600_000)  # static
    stream_static: bool | None = None
    reservation: Literal["max", "pow2", "oracle"] | None = None  # orca
    preemption: Literal["recompute", "swap"] | None = None  # vllm_v0
    prefill_instances: int | None = Field(None, ge=1)  # distserve
    decode_instances: int | None = Field(None, ge=1)
    kv_link_gbit_per_s: float | None = Field(None, gt=0)
    kv_unified: bool | None = None  # llama_cpp

    @model_validator(mode="after")
    def _needs_url(self) -> Self:
        for key in ("url", "metrics_url"):
            if holds_secret(getattr(self, key) or ""):
                raise ValueError(f"{key} holds a user name or a key; take it out and name a variable in api_key_env")
        if self.kind == "simulated" and self.url:
            raise ValueError("the built-in engine is started by Goodput Lab: leave url out")
        if self.kind != "simulated" and not self.url:
            raise ValueError('give url = "http://host:port" of the server')
        for key in ENGINE_KEYS:
            if self.kind != "simulated" and getattr(self, key) is not None:
                raise ValueError(f"{key} is read by the built-in engine only; a server takes it in its start command")
        return self


class Control(_Model):
    """How server settings are applied. `command` is read from files on this machine only."""

    mode: Literal["none", "manual", "process", "command"] = "none"
    command: tuple[str, ...] | None = None
    ready_command: tuple[str, ...] | None = None  # hooks of mode = "command", beside `command`, which starts
    stop_command: tuple[str, ...] | None = None
    start_timeout_s: Seconds | None = Field(None, gt=0)  # of the hook itself; default: ready_timeout_s
    ready_timeout_s: Seconds = Field(1800, gt=0)  # from the start until the server answers
    stop_timeout_s: Seconds = Field(30, gt=0)
    env: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _needs_command(self) -> Self:
        if self.mode in ("process", "command") and not self.command:
            raise ValueError(f'mode = "{self.mode}" needs command = ["…"]')
        hooks = (self.command, self.ready_command, self.stop_command)
        for flag, value in secret_flags([part for hook in hooks for part in hook or ()]):
            if value:
                raise ValueError(
                    f"command has {flag}, which every user of the machine can read in the process list; leave it out "
                    'and give the key by the environment, such as env = { LLAMA_API_KEY = "${LLM_API_KEY}" }'
                )
        for name, value in self.env.items():
            if is_secret_name(name) and not VARIABLE.fullmatch(value):
                raise ValueError(f"env.{name} is given as it is; write ${{NAME}} and set that variable where we run")
        return self


def _time_as_text(value: object) -> object:
    """TOML has times and dates of its own."""
    return value.isoformat() if isinstance(value, (time, datetime)) else value


class Run(_Model):
    duration_s: Seconds = Field(120, gt=0)  # measured window, after warm-up
    warmup_s: Seconds | None = Field(None, ge=0)  # default: max(30 s, 10 % of duration), scaled down for short runs
    drain_s: Seconds | None = Field(None, ge=0)  # how long after the window running requests may finish
    repeats: int = Field(1, ge=1)
    seed: int = 1
    request_timeout_s: Seconds = Field(600, gt=0)
    share_target: float = Field(0.90, gt=0, lt=1)  # alpha of the choice
    scrape_interval_s: float = Field(0.25, ge=0.1, le=5)
    # How requests get their TCP connections. reuse: as chat front ends do, an idle one if there is one. new: one for
    # each request, connect time in its TTFT. preopened: opened before they are needed, so that no request waits for
    # one; not the default, since a server that keeps a thread for each connection would be held up by idle ones.
    connections: Literal["reuse", "new", "preopened"] = "reuse"
    cool_down_s: Seconds = Field(0, ge=0)  # idle time between two cells
    # The first cell once more at the end, to see whether the machine changed. auto: from 20 minutes and 4 cells on
    # of a real server.
    drift_check: StrictBool | Literal["auto"] = "auto"
    alone: str | None = None  # a class without slo that is measured once more by itself: a time window of its own
    stop_after_failures: int | None = Field(None, ge=1)  # failed cells in a row that end the sweep; default: never
    # "07:00" (local time, the next one) or a date with time: best information first, no cell that would end later
    stop_by: Annotated[str | None, BeforeValidator(_time_as_text)] = None

    # Not every cell of the grid, but those that the ones before them call for (runner.search): for each setting the
    # largest load at which all targets are kept, or the best setting that can be found within a time such as "20m".
    find_rate: StrictBool = False
    budget: str | None = None
    # Whether a cell is cut while it runs once more of its requests have missed their targets than a pass allows. auto:
    # where time is short, with find_rate, budget or stop_by.
    stop_hopeless: StrictBool | Literal["auto"] = "auto"

    @model_validator(mode="after")
    def _a_moment(self) -> Self:
        if self.budget is not None:
            budget_seconds(self.budget)
        if self.stop_by is not None:
            try:
                (datetime if "T" in self.stop_by or " " in self.stop_by else time).fromisoformat(self.stop_by)
            except ValueError:
                raise ValueError(
                    f'stop_by is "{self.stop_by}"; write "07:00", or a date with time such as "2026-12-24T07:00"'
                ) from None
        return self

    @property
    def warmup(self) -> float:
        """Seconds dropped by scheduled arrival: max(30 s, 10 %), but never more than a quarter of a short run."""
        if self.warmup_s is not None:
            return self.warmup_s
        return min(max(30.0, 0.1 * self.duration_s), 0.25 * self.duration_s)

    @property
    def stops_hopeless(self) -> bool:
        if self.stop_hopeless != "auto":
            return self.stop_hopeless
        return self.find_rate or self.budget is not None or self.stop_by is not None

    @property
    def drain(self) -> float:
        """Seconds of bounded drain: 20 % of the window, at least 10 s."""
        return self.drain_s if self.drain_s is not None else max(10.0, 0.2 * self.duration_s)


class SweepConfig(_Model):
    name: str = Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$")
    backend: Backend
    control: Control = Control()
    grid: dict[str, tuple[Scalar, ...]]
    run: Run = Run()
    classes: tuple[RequestClass, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.classes:
            raise ValueError("classes is empty: give at least one [[classes]] table")
        check_grid(self)
        check_arrivals(self)
        names = [c.name for c in self.classes]
        if len(set(names)) != len(names):
            raise ValueError("two classes have the same name")
        check_caps_of_none(self)
        check_search(self)
        if self.run.alone and not any(c.name == self.run.alone and not c.weight and not c.slo for c in self.classes):
            raise ValueError(f"run.alone names {self.run.alone}; name a class with neither slo nor weight")
        for key in self.grid:
            name = next((key.removesuffix(end) for end in OF_A_CLASS if key.endswith(end)), key)
            if name != key and name not in names:
                raise ValueError(f"grid key {key} names no class; the classes are {', '.join(names)}")
        if self.control.mode != "none" and self.backend.kind == "simulated":
            raise ValueError(
                f'control.mode = "{self.control.mode}" would change nothing: Goodput Lab starts the built-in engine '
                "by itself; leave it out"
            )
        if self.server_grid and self.control.mode == "none" and self.backend.kind != "simulated":
            raise ValueError(
                f'grid varies {", ".join(self.server_grid)}, but [control] mode is none: use mode = "process", '
                '"command" or "manual"'
            )
        return self

    @property
    def server_grid(self) -> dict[str, tuple[Scalar, ...]]:
        """The grid keys that are server settings (a change restarts the server)."""
        return {k: v for k, v in self.grid.items() if not is_load_key(k)}


def parse_sweep(raw: object, source: str, backends: dict[str, Any] | None = None) -> SweepConfig:
    """Validates a sweep given as plain data. `backends`: saved ones by name, for `backend = "name"`."""
    if isinstance(raw, dict) and isinstance(raw.get("backend"), str):
        saved = (backends or {}).get(raw["backend"])
        if saved is None:
            known = ", ".join(backends or {}) or "none yet"
            raise ConfigError(
                f"{source}: backend {raw['backend']!r} is not a saved one (saved: {known}); write a [backend] table"
            )
        control = {"control": saved["control"]} if "control" in saved else {}
        raw = {**control, **raw, "backend": {k: v for k, v in saved.items() if k != "control"}}
    if key := too_large(raw):
        raise ConfigError(f"{source}: {one_line(key)} has a number of more than {MOST_BITS} bits; give a smaller one")
    try:
        return SweepConfig.model_validate(raw)
    except ValidationError as e:
        raise ConfigError(f"{source}: {plain_error(e)}") from None
